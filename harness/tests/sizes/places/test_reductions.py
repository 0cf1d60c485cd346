"""Sums, extremes and scans of programs with symbols for sizes: what they are of, and their closed forms."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export, lax

from samebits.sizes.formulas.formula import NoFormula
from samebits.sizes.formulas.normal_form import NormalForms, Recurrences
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Carried, Reduction, Source, WholeResult
from samebits.sizes.places.loops import UNROLLED
from samebits.sizes.places.polynomial import variable
from samebits.sizes.places.reductions import REDUCTIONS
from samebits.sizes.places.space import Space


def _stands(function: Callable[..., Any], dtype: str = "float32") -> tuple[Space, Source]:
    """What a function of `x[n]` puts at place i of its output, or into it."""
    (n,) = export.symbolic_shape("n")
    closed = jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n,), dtype))
    space = Space({"n": 1})
    index = tuple(space.index("i", space.size(size)) for size in closed.out_avals[0].shape)
    (piece,) = Evaluation(space, closed, ["x"]).output(0, index)
    return space, piece.source


def test_a_sum_is_looked_into_and_a_largest_integer_is_not() -> None:
    assert {"reduce_sum", "reduce_max"} <= REDUCTIONS
    _, source = _stands(lambda x: x.sum())
    assert isinstance(source, Reduction)
    assert str(source.pieces[0].source) == f"x[{source.bound[0]}]"
    _, source = _stands(lambda x: x.max(), "int32")
    assert isinstance(source, WholeResult)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_running_sum_knows_its_direction(reverse: bool) -> None:
    _, source = _stands(lambda x: lax.cumsum(x, reverse=reverse))
    assert isinstance(source, Reduction)
    (fact,) = source.pieces[0].facts
    bound = variable(source.bound[0])
    assert fact.polynomial == (bound - variable("i") if reverse else variable("i") - bound)


def _final(step: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda carry, row: (step(carry, row), None), 0.0, x)[0]


def test_a_scan_that_adds_is_a_sum() -> None:
    space, source = _stands(_final(lambda total, row: total + row * row))
    assert isinstance(source, Carried)
    forms = NormalForms(space, same)
    formula = forms.formula(source, ())
    (summand,) = formula.summands
    assert len(summand.bound) == 1
    assert space.ranges[summand.bound[0]] == variable("n")


@pytest.mark.parametrize("step", [lambda total, row: total * row, lambda total, row: jnp.sin(total) + row])
def test_other_scans_have_no_closed_form(step: Callable[[Any, Any], Any]) -> None:
    space, source = _stands(_final(step))
    assert isinstance(source, Carried)
    forms = NormalForms(space, same)
    closed = Recurrences(forms.ring, forms.formula, forms.vanishing.equal, forms.left)
    with pytest.raises(NoFormula):
        closed.closed(source, ())


def test_short_scans_are_unrolled() -> None:
    def thrice(x: Any) -> Any:
        return lax.scan(lambda total, _: (total * 2, None), x, None, length=UNROLLED)[0]

    _, source = _stands(thrice)
    assert str(source).count("mul[]") == UNROLLED
