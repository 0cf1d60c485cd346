"""Sums and extremes over the devices of a mesh, for every size of an array: disjoint parts, partial sums, faults."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

RING = MeshSpec.parse("ring4").abstract("auto")
GRID = MeshSpec.parse("row2_column2").abstract("auto")
ROWS = Family(symbols={"n": 1, "w": 1}, args={"x": Shaped(("4*n", "w"))})
SQUARES = Family(symbols={"n": 1, "w": 1}, args={"x": Shaped(("4*n", "4*w"))})
TABLE = Family(
    symbols={"n": 1, "w": 1, "m": 1},
    args={"x": Shaped(("4*n", "w")), "ids": Shaped(("m",), "int32", "4*n")},
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


WRONG: dict[str, tuple[Callable[..., Any], Callable[..., Any], Family]] = {
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
@pytest.mark.parametrize("name", WRONG)
def test_every_fault_is_refuted_at_sizes(name: str) -> None:
    (proof,) = prove_all_sizes(*WRONG[name])
    assert proof.verdict == "different", proof
