"""The operation or the tie that is blamed is the one that does it; where none can be shown, nothing is blamed."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from samebits.schema.case import Arg, Case
from samebits.schema.pair import Pair
from tests.support.toys import AUTO, of, run


def pair(reference: Any, variant: Any, values: Any = None) -> Pair:
    """A pair over `x[8, 16]` on one device."""
    return Pair(
        name="toy",
        reference=reference,
        variants={"variant": variant},
        args={"x": Arg(shape=("rows", "columns"), **({} if values is None else {"values": values}))},
        cases=(Case(id="small", sizes={"rows": 8, "columns": 16}),),
        dtypes=("float32",),
        meshes=("data1",),
        modes=AUTO,
    )


def evidence(made: Pair, direction: str) -> str:
    (found,) = of(run(made, gradients=direction == "gradient"), variant="variant", direction=direction)
    assert found.ruling.verdict == "different", found
    return found.ruling.evidence or ""


def soft_max(x: Any) -> Any:
    """The largest of a row, beside an exponential and a division of its own."""
    scaled = jnp.exp(x) / jnp.float32(3)
    return jnp.max(scaled, axis=-1) + jnp.sum(jnp.exp(x) / jnp.float32(7), axis=-1)


def soft_first(x: Any) -> Any:
    """The same, but of equal elements the first alone has a gradient."""
    scaled = jnp.exp(x) / jnp.float32(3)
    first = jnp.argmax(scaled, axis=-1)
    found = jnp.take_along_axis(scaled, first[:, None], axis=-1)[:, 0]
    return found + jnp.sum(jnp.exp(x) / jnp.float32(7), axis=-1)


def cut(x: Any) -> Any:
    """One intermediate rounded to bfloat16."""
    return jnp.exp(x.astype(jnp.bfloat16).astype(jnp.float32) * 0.5)


def whole(x: Any) -> Any:
    return jnp.exp(x * 0.5)


def thrice_cut(x: Any) -> Any:
    """Three intermediates rounded to bfloat16, each as bad as another."""
    for _ in range(3):
        x = (x * 2.0).astype(jnp.bfloat16).astype(jnp.float32)
    return jnp.exp(x * 0.0625)


def narrow_sum(x: Any) -> Any:
    return jnp.sum(x.astype(jnp.bfloat16), axis=-1, keepdims=True, dtype=jnp.bfloat16).astype(jnp.float32)


def aside(x: Any) -> Any:
    """Rows of the second half lose digits by a cast; those of the first half are sums in bfloat16 on both sides."""
    low = jnp.exp(x[4:].astype(jnp.bfloat16).astype(jnp.float32))
    return jnp.concatenate([jnp.broadcast_to(narrow_sum(x[:4]), (4, 16)), low])


def beside(x: Any) -> Any:
    return jnp.concatenate([jnp.broadcast_to(narrow_sum(x[:4]), (4, 16)), jnp.exp(x[4:])])


def relu(x: Any) -> Any:
    """Of equal arguments both have half the gradient."""
    return jnp.maximum(x, 0.0) * jnp.exp(x) / 3.0


def relu_from_zero(x: Any) -> Any:
    """At zero the whole gradient."""
    return jnp.where(x >= 0.0, x, 0.0) * jnp.exp(x) / 3.0


@pytest.mark.cpu_only
def test_the_cast_that_loses_digits_is_named() -> None:
    said = evidence(pair(whole, cut), "forward")
    assert "most is lost by convert_element_type[bfloat16] at rounding_error/test_culprit.py" in said


def test_only_an_operation_behind_the_witness_is_named() -> None:
    """A sum in bfloat16 may lose most of all, in elements where both sides have it; the witness comes from the cast."""
    said = evidence(pair(beside, aside), "forward")
    assert "most is lost by convert_element_type[bfloat16] at rounding_error/test_culprit.py" in said, said


@pytest.mark.cpu_only
def test_where_several_may_have_done_it_none_is_named() -> None:
    said = evidence(pair(whole, thrice_cut), "forward")
    assert said.startswith("loses accuracy") and "most is lost by" not in said, said


@pytest.mark.parametrize(
    ("reference", "variant", "comparison"),
    [(soft_max, soft_first, "reduce_max"), (relu, relu_from_zero, "max")],
    ids=["reduce_max", "max"],
)
def test_a_tie_taken_otherwise_is_named_and_no_arithmetic(reference: Any, variant: Any, comparison: str) -> None:
    tied = np.tile(np.array([1, 1, 0, -0.25], np.float32), (8, 4))
    said = evidence(pair(reference, variant, lambda *_: tied), "gradient")
    assert "most is lost by" not in said and " exp" not in said and " div" not in said, said
    assert f"a tie in {comparison} at rounding_error/test_culprit.py" in said, said
    assert said.endswith(", taken otherwise"), said


def test_another_factor_is_no_tie_although_numbers_are_equal() -> None:
    tied = np.tile(np.array([1, 1, 0.5, 0.25], np.float32), (8, 4))
    said = evidence(pair(soft_max, lambda x: 1.5 * soft_max(x), lambda *_: tied), "gradient")
    assert "tie" not in said and "most is lost by" not in said, said
