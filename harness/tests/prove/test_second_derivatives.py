"""Second derivatives where a rule or a `stop_gradient` stands on one side alone: differences are told."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.programs.captured_values import own_stops

X = jax.ShapeDtypeStruct((4, 6), jnp.float32)
stop = jax.lax.stop_gradient


def half_square(x: Any) -> Any:
    return 0.5 * jnp.sin(x) ** 2


def slope(x: Any) -> Any:
    return jnp.sin(x) * jnp.cos(x)


def ruled(backward: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The function with a `custom_vjp` whose residual is its argument."""

    @jax.custom_vjp
    def function(x: Any) -> Any:
        return half_square(x)

    function.defvjp(lambda x: (half_square(x), x), lambda x, g: (backward(x, g),))
    return lambda x: function(x)


def tangent(forward: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    @jax.custom_jvp
    def function(x: Any) -> Any:
        return half_square(x)

    function.defjvp(lambda primals, tangents: (half_square(*primals), forward(*primals, *tangents)))
    return lambda x: function(x)


def residual(x: Any) -> Any:
    """A rule whose residual is the slope, computed while it runs forward."""

    @jax.custom_vjp
    def function(x: Any) -> Any:
        return half_square(x)

    function.defvjp(lambda x: (half_square(x), slope(x)), lambda d, g: (d * g,))
    return function(x)


def frozen(x: Any) -> Any:
    """Forward and gradient are those of the function; the gradient's own gradient lacks a part."""
    return jnp.sin(x) * stop(jnp.sin(x)) - 0.5 * stop(jnp.sin(x)) ** 2


def looped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: jax.lax.scan(lambda carry, row: (carry + function(row).sum(), function(row)), 0.0, x)


def called_back(x: Any, g: Any) -> Any:
    return jax.pure_callback(lambda x, g: np.asarray(np.sin(x) * np.cos(x) * g), g, x, g)


WRONG: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "residual is stopped": (half_square, ruled(lambda x, g: stop(slope(x)) * g)),
    "cotangent is stopped": (half_square, ruled(lambda x, g: slope(x) * stop(g))),
    "custom_jvp": (half_square, tangent(lambda x, dx: stop(slope(x)) * dx)),
    "stop_gradient": (half_square, frozen),
    "reference": (ruled(lambda x, g: stop(slope(x)) * g), half_square),
    "scan": (looped(half_square), looped(ruled(lambda x, g: stop(slope(x)) * g))),
    "remat": (half_square, jax.checkpoint(ruled(lambda x, g: stop(slope(x)) * g))),
    "one factor": (half_square, ruled(lambda x, g: jnp.sin(x) * stop(jnp.cos(x)) * g)),
}
HONEST: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "custom_vjp": (half_square, ruled(lambda x, g: slope(x) * g)),
    "residual": (half_square, residual),
    "custom_jvp": (half_square, tangent(lambda x, dx: slope(x) * dx)),
    "of jax": (lambda x: jax.nn.logsumexp(x, -1), lambda x: jax.nn.logsumexp(x * 1.0, -1)),
    "maximum is stopped": (
        lambda x: jnp.log(jnp.exp(x).sum(-1)),
        lambda x: jnp.log(jnp.exp(x - stop(x.max(-1, keepdims=True))).sum(-1)) + stop(x.max(-1)),
    ),
    "both alike": (frozen, lambda x: frozen(x * 1.0)),
    "remat": (half_square, jax.checkpoint(residual)),
    "scan": (looped(half_square), looped(residual)),
}
FAST = ("residual is stopped", "stop_gradient", "cotangent is stopped", "custom_vjp", "residual")


def _cases(table: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(*pair, id=name, marks=() if name in FAST else pytest.mark.slow) for name, pair in table.items()
    ]


@pytest.mark.parametrize(("reference", "variant"), _cases(WRONG))
def test_another_second_derivative_is_told_when_green(reference: Any, variant: Any) -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="'x' .* but not its own gradient: x.* both functions"):
        samebits.assert_same(reference, variant, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", samebits.OtherInputsWarning)
        proved = samebits.prove(reference, variant, X)
    assert "derivatives" in {each.word for leaf in proved.leaves for each in leaf.proof.assumptions}


@pytest.mark.parametrize(("reference", "variant"), _cases(HONEST))
def test_the_same_second_derivative_needs_no_words(reference: Any, variant: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not at others")  # as of exponentials that overflow
        samebits.assert_same(reference, variant, X)


def test_a_rule_that_has_no_derivative_is_an_assumption() -> None:
    compared = samebits.check(half_square, ruled(called_back), X)
    compared.raise_for_status()
    (assumption,) = [each for each in compared.assumptions if each.word == "derivatives"]
    assert assumption.text == "first derivatives alone are used"
    assert "Pure callbacks do not support JVP" in assumption.false_where


def test_what_the_reference_has_not_is_not_missed() -> None:
    compared = samebits.check(ruled(called_back), ruled(lambda x, g: slope(x) * g), X)
    assert not [each for each in compared.assumptions if each.word == "derivatives"]


@pytest.mark.slow
def test_on_a_mesh() -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="its own gradient"):
        samebits.assert_same(*WRONG["residual is stopped"], X, mesh="dp2", specs=P("dp"))


def test_stopped_gradients_of_jax_are_not_named() -> None:
    assert own_stops(jax.make_jaxpr(lambda x: jax.nn.logsumexp(x))(jnp.ones(3))) == ()
    (place,) = own_stops(jax.make_jaxpr(lambda x: jax.tree.map(stop, [x])[0] + jax.nn.logsumexp(x))(jnp.ones(3)))
    assert "test_second_derivatives.py:" in place
