"""Sums, extremes and scans for every size: of axes, of a few integers, and over the devices of a mesh."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export, lax
from jax.sharding import PartitionSpec as P

from samebits.schema.meshes import MeshSpec
from samebits.sizes.formulas.formula import NoFormula
from samebits.sizes.formulas.normal_form import NormalForms, Recurrences
from samebits.sizes.places.demand import FEW, few_summed
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import (
    Carried,
    Element,
    Fact,
    Integer,
    MapPiece,
    Reduction,
    Source,
    WholeResult,
    at_least,
)
from samebits.sizes.places.loops import UNROLLED
from samebits.sizes.places.polynomial import of, variable
from samebits.sizes.places.reductions import REDUCTIONS
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes


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


N = variable("n")
TAKEN = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "sizes": Shaped((3,), "int32")}, differentiable=("x",))


def total_of(space: Space, many: int, inner: Callable[[Source], Source] = lambda source: source) -> Reduction:
    index = space.index("bound 0.0.0", of(many))
    element = inner(Element("sizes", (index,)))
    return Reduction("sum", "int32", ("bound 0.0.0",), (MapPiece((), element),))


def test_few_integers_are_written_out() -> None:
    space, assumed = Space({"n": 1}), dict[Fact, None]()
    total = few_summed(space, total_of(space, 3), assumed)
    assert str(total) == "sizes[0] + sizes[1] + sizes[2]"
    assert [str(fact) for fact in assumed] == [
        "-sizes[0] - sizes[1] - sizes[2] + 2147483647 >= 0",
        "sizes[0] + sizes[1] + sizes[2] + 2147483648 >= 0",
    ]


def test_bounded_integers_overflow_at_large_sizes_alone() -> None:
    space, assumed = Space({"n": 1}, {"sizes": of(100)}), dict[Fact, None]()
    assert few_summed(space, total_of(space, 3), assumed) is not None
    assert not assumed


@pytest.mark.parametrize("case", ["too many", "a symbol", "floats", "largest", "by cases"])
def test_other_sums_stay_unknown(case: str) -> None:
    space = Space({"n": 1})
    source = total_of(space, FEW + 1 if case == "too many" else 3)
    if case == "a symbol":
        space.ranges["bound 0.0.0"] = N
    elif case == "floats":
        source = Reduction("sum", "float32", source.bound, source.pieces)
    elif case == "largest":
        source = Reduction("max", "int32", source.bound, source.pieces)
    elif case == "by cases":
        place = variable("bound 0.0.0")
        source = Reduction("sum", "int32", source.bound, (MapPiece((at_least(place, 1),), Integer(place)),))
    assert few_summed(space, source, {}) is None
    assert few_summed(space, Element("sizes", (of(0),)), {}) is None


def below_total(x: jax.Array, sizes: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(x.shape[0]) < sizes.sum(), x, 0)


RIGHT: dict[str, Callable[..., jax.Array]] = {
    "one by one": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[0] + sizes[1] + sizes[2], x, 0),
    "in parts": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[:2].sum() + sizes[2], x, 0),
}
WRONG: dict[str, Callable[..., jax.Array]] = {
    "one left out": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes[1:].sum(), x, 0),
    "one twice": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) < sizes.sum() + sizes[1], x, 0),
    "one more": lambda x, sizes: jnp.where(jnp.arange(x.shape[0]) <= sizes.sum(), x, 0),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_sum_is_that_of_its_parts(name: str) -> None:
    (proof,) = prove_all_sizes(below_total, RIGHT[name], TAKEN)
    assert proof.verdict == "proved", proof.reason
    assert any("2147483647" in condition for condition in proof.conditions)


@pytest.mark.parametrize("name", WRONG)
def test_another_sum_is_refuted(name: str) -> None:
    (proof,) = prove_all_sizes(below_total, WRONG[name], TAKEN)
    assert proof.verdict == "different", proof.reason


RING = MeshSpec.parse("ring4").abstract("auto")
GRID = MeshSpec.parse("row2_column2").abstract("auto")
ROWS = Family(symbols={"n": 1, "w": 1}, args={"x": Shaped(("4*n", "w"))})
SQUARES = Family(symbols={"n": 1, "w": 1}, args={"x": Shaped(("4*n", "4*w"))})
TABLE = Family(
    symbols={"n": 1, "w": 1, "m": 1}, args={"x": Shaped(("4*n", "w")), "ids": Shaped(("m",), "int32", "4*n")}
)


def on_ring(function: Callable[..., Any], before: Any, after: Any, mesh: Any = RING) -> Callable[..., Any]:
    return jax.shard_map(function, mesh=mesh, in_specs=before, out_specs=after)


def taken(x: Any, ids: Any) -> Any:
    return x[ids]


def taken_on_ring(x: Any, ids: Any, *, shift: int = 0, more: int = 0) -> Any:
    """Every device takes the rows that it holds, and zeros for the others; the sum has all."""

    def part(x: Any, ids: Any) -> Any:
        own = ids - lax.axis_index("ring") * x.shape[0] + shift
        held = (own >= 0) & (own < x.shape[0] + more)
        return lax.psum(jnp.where(held[:, None], x[jnp.clip(own, 0, x.shape[0] - 1)], 0), "ring")

    return on_ring(part, (P("ring"), P()), P())(x, ids)


def test_disjoint_parts_are_moved() -> None:
    (proof,) = prove_all_sizes(taken, taken_on_ring, TABLE)
    assert proof.verdict == "proved", proof
    assert "no_negative_zero=x" in map(str, proof.promises)
    (proof,) = prove_all_sizes(taken, taken_on_ring, TABLE, "gradient")
    assert proof.verdict == "rounding", proof


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_partial_sums_are_the_sum(direction: str) -> None:
    form = on_ring(lambda x: lax.psum(x.sum(0), "ring"), P("ring"), P())
    (proof,) = prove_all_sizes(lambda x: x.sum(0), form, ROWS, direction)
    assert proof.verdict == ("rounding" if direction == "forward" else "proved"), proof


def test_sums_over_two_axes_are_one_sum() -> None:
    both = on_ring(lambda x: lax.psum(x.sum(0), ("row", "column")), P(("row", "column")), P(), GRID)
    nested = on_ring(lambda x: lax.psum(lax.psum(x.sum(0), "column"), "row"), P(("row", "column")), P(), GRID)
    for form in (nested, lambda x: x.sum(0)):
        (proof,) = prove_all_sizes(both, form, ROWS)
        assert proof.verdict == "rounding", proof


@pytest.mark.parametrize("tiled", [True, False])
def test_a_device_keeps_its_part_of_a_sum(tiled: bool) -> None:
    def scattered(x: Any) -> Any:
        parts = x if tiled else x.reshape(x.shape[0], 4, -1)
        return lax.psum_scatter(parts, "ring", scatter_dimension=1, tiled=tiled)

    form = on_ring(scattered, P("ring"), P(None, "ring"))
    (proof,) = prove_all_sizes(lambda x: x.reshape(4, -1, x.shape[1]).sum(0), form, SQUARES)
    assert proof.verdict == "rounding", proof
    wrong = lambda x: jnp.roll(x.reshape(4, -1, x.shape[1]).sum(0), x.shape[1] // 4, 1)  # noqa: E731
    (proof,) = prove_all_sizes(wrong, form, SQUARES)
    assert proof.verdict == "different", proof


def test_extremes_over_devices_are_equal_to_themselves() -> None:
    for name in ("pmax", "pmin"):
        first, second = (on_ring(lambda x: getattr(lax, name)(x, "ring"), P("ring"), P()) for _ in range(2))  # noqa: B023
        (proof,) = prove_all_sizes(first, second, ROWS)
        assert proof.verdict in ("proved", "rounding"), proof


WRONG_ON_DEVICES: dict[str, tuple[Callable[..., Any], Callable[..., Any], Family]] = {
    "one row too far": (taken, functools.partial(taken_on_ring, shift=1), TABLE),
    "parts overlap": (taken, functools.partial(taken_on_ring, more=1), TABLE),
    "a row is left out": (lambda x: x.sum(0), on_ring(lambda x: lax.psum(x[1:].sum(0), "ring"), P("ring"), P()), ROWS),
    "a mean for a sum": (lambda x: x.sum(0), on_ring(lambda x: lax.pmean(x.sum(0), "ring"), P("ring"), P()), ROWS),
    "largest for smallest": (
        on_ring(lambda x: lax.pmin(x, "ring"), P("ring"), P()),
        on_ring(lambda x: lax.pmax(x, "ring"), P("ring"), P()),
        ROWS,
    ),
    "one axis of two": (
        on_ring(lambda x: lax.psum(x, ("row", "column")), P(("row", "column")), P(), GRID),
        on_ring(lambda x: 2 * lax.psum(x, "row"), P(("row", "column")), P("column"), GRID),
        ROWS,
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRONG_ON_DEVICES)
def test_every_fault_is_refuted_at_sizes(name: str) -> None:
    (proof,) = prove_all_sizes(*WRONG_ON_DEVICES[name])
    assert proof.verdict == "different", proof
