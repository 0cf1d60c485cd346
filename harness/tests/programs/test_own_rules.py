"""Which rules of differentiation are code's own."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.programs.captured_values import own_rules


def test_rules_of_jax_are_not_named() -> None:
    program = jax.make_jaxpr(lambda x: jax.nn.relu(x) + jax.nn.softmax(x) + jnp.logaddexp(x, x))(jnp.ones(3))
    assert "custom_jvp_call" in str(program) and own_rules(program) == ()


def test_rules_are_found_inside_of_loops_and_calls() -> None:
    @jax.custom_jvp
    def double(x: Any) -> Any:
        return 2 * x

    double.defjvps(lambda t, out, x: 2 * t)

    def looped(x: Any) -> Any:
        return jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda _, y: double(y), x))(x)

    (found,) = own_rules(jax.make_jaxpr(looped)(jnp.ones(3)))
    assert "double at " in found and "test_own_rules.py" in found


def test_a_primitive_written_in_python_has_rules_of_its_own() -> None:
    hijax = pytest.importorskip("jax.experimental.hijax")
    if not hasattr(hijax, "VJPHiPrimitive"):
        pytest.skip("this version of jax has no primitives that are written so")

    class Doubled(hijax.VJPHiPrimitive):  # type: ignore[misc,name-defined]
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval = (aval,), aval
            self.params: dict[str, Any] = {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return 2 * x

    program = jax.make_jaxpr(lambda x: Doubled(jax.typeof(x))(x))(jnp.ones(3))
    (found,) = own_rules(program)
    assert "Doubled at " in found
