"""Differences caused by the mesh are reported for the reference, differences caused by the variant for the variant."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.programs.plan import Request
from samebits.schema.case import Arg
from samebits.schema.contract import Contract, Exemption
from samebits.schema.finding import Finding
from samebits.schema.values import Integers
from tests.support.toys import of, run, toy

ROUNDING = (Contract(lowest="rounding", reason="for the sake of the test"),)


def _sharded() -> bool:
    return not jax.sharding.get_abstract_mesh().empty


def local(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function of each device's own rows, on a mesh."""
    return jax.shard_map(function, in_specs=P("data"), out_specs=P("data"))(x) if _sharded() else function(x)


def each_its_own_mean(x: Any, *, factor: float = 2.0) -> Any:
    """The planted fault of a sharding: on a mesh, every device takes the mean of its rows alone."""
    return local(x, lambda rows: (rows - rows.mean(0)) * factor)


def its_own_mean_too(x: Any, *, factor: float = 2.0) -> Any:
    """A variant with the same fault, and nothing else."""
    return local(x, lambda rows: factor * (rows - rows.mean(0)))


def wrong_besides(x: Any, *, factor: float = 2.0) -> Any:
    """The same fault, and another factor."""
    return local(x, lambda rows: (rows - rows.mean(0)) * (factor + 1))


def right_on_the_mesh(x: Any, *, factor: float = 2.0) -> Any:
    """The reference as it is on one device."""
    return (x - x.mean(0)) * factor


def results(pair: Any, *variants: str, **changes: Any) -> list[Finding]:
    """The forward results of a pair, or those of some of its sides."""
    return run(pair, Request(variants=variants, directions=("forward",), full=True), **changes)


def test_a_fault_of_the_sharding_is_red_in_the_reference_alone() -> None:
    found = results(toy(each_its_own_mean, same=its_own_mean_too), contracts=ROUNDING)
    (own,) = of(found, variant="each_its_own_mean")
    assert (own.ruling.verdict, own.ruling.ok) == ("different", False)
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok, same.comparison.mismatches, same.comparison.witness) == (
        "bitwise",
        True,
        0,
        None,
    ), same
    assert same.ruling.evidence is not None
    assert same.ruling.evidence.startswith(
        "the same bits as the reference on this mesh: the mesh moves them, not the variant"
    )
    assert "suspect it first" in same.ruling.evidence


def test_where_both_are_wrong_the_sharding_is_said_first() -> None:
    (wrong,) = results(toy(each_its_own_mean, wrong=wrong_besides), "wrong", contracts=ROUNDING)
    assert (wrong.ruling.verdict, wrong.ruling.ok) == ("different", False)
    assert wrong.ruling.evidence is not None and wrong.ruling.evidence.startswith("the sharding: ")


def test_a_fault_of_the_variant_does_not_blame_the_sharding() -> None:
    def wrong(x: Any, *, factor: float = 2.0) -> Any:
        return (x - x.mean(0)) * (factor + 1)

    (found,) = results(toy(right_on_the_mesh, wrong=wrong), "wrong", contracts=ROUNDING)
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert found.ruling.evidence is not None and "sharding" not in found.ruling.evidence


def test_a_right_variant_passes_where_the_reference_is_wrong() -> None:
    (right,) = results(toy(each_its_own_mean, right=right_on_the_mesh), "right", contracts=ROUNDING)
    assert right.ruling.ok and right.ruling.verdict in ("proved", "bitwise", "rounding"), right


def summed(x: Any, *, factor: float = 2.0) -> Any:
    """A sum of rows: on a mesh it is taken in parts, which rounds otherwise."""
    return x.sum(0) * (factor / 3) if not _sharded() else _in_parts(x) * (factor / 3)


def _in_parts(x: Any) -> Any:
    return jax.shard_map(lambda rows: lax.psum(rows.sum(0), "data"), in_specs=P("data"), out_specs=P())(x)


def summed_too(x: Any, *, factor: float = 2.0) -> Any:
    """The same in the same order."""
    return summed(x, factor=factor)


def test_rounding_by_the_mesh_does_not_fail_a_bitwise_variant() -> None:
    found = results(dataclasses.replace(toy(summed, same=summed_too), contracts=(Contract(),)))
    (own,) = of(found, variant="summed")
    assert (own.ruling.verdict, own.ruling.ok) == ("rounding", False)
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok) == ("bitwise", True), same
    assert same.ruling.evidence is not None and "the mesh moves both within rounding" in same.ruling.evidence


@pytest.mark.parametrize("epsilon", [1e-6, 1e-8])
def test_equal_bits_on_the_mesh_do_not_hide_other_formulas(epsilon: float) -> None:
    """The mesh moves bits of both sides, and bfloat16 hides an epsilon: the formula is another all the same."""

    def norm(x: Any, epsilon: float) -> Any:
        wide = x.astype(jnp.float32)
        total = _in_parts(wide * wide) if _sharded() else (wide * wide).sum(0)
        return (wide * lax.rsqrt(total / 8 + epsilon)).astype(x.dtype)

    def reference(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, 0.0)

    def other(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, epsilon)

    changes: dict[str, Any] = {"dtypes": ("bfloat16",), "contracts": ROUNDING}
    (found,) = results(toy(reference, other=other), "other", **changes)
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False), found


def test_exemptions_hold_against_one_device_as_they_say() -> None:
    """An exemption of every side's row on this mesh matches the variant's too; without it only the reference is red."""
    known = Exemption(kind="other", reason="FINDING: on a mesh every device subtracts the mean of its own rows")
    found = results(toy(each_its_own_mean, same=its_own_mean_too), contracts=ROUNDING, exemptions=(known,))
    assert [(r.ruling.verdict, r.ruling.ok, r.ruling.exempt) for r in found] == [("different", True, True)] * 2, found
    assert all(r.comparison.mismatches for r in found)


def decayed(x: Any, step: Any, *, factor: float = 2.0) -> Any:
    """The reference on a mesh has other bits than alone, and every tenth step does more."""
    return each_its_own_mean(x, factor=factor) - jnp.where(step % 10 == 0, x, 0)


def test_what_differs_at_another_step_is_different_on_a_mesh_too() -> None:
    """Though at this step it has the bits of the reference on this mesh, which are not those of one device."""
    pair = toy(
        decayed,
        same=lambda x, step, *, factor=2.0: its_own_mean_too(x, factor=factor) - x * (step % 10 == 0),
        never=lambda x, step, *, factor=2.0: its_own_mean_too(x, factor=factor),
    )
    assert not callable(pair.args)
    step = Arg(shape=(), dtype="int32", values=Integers(low=1, high=1000))
    pair = dataclasses.replace(pair, args={**pair.args, "step": step})
    found = results(pair, "never", "same", contracts=ROUNDING)
    (never,) = of(found, variant="never")
    assert (never.ruling.verdict, never.ruling.ok) == ("different", False), never
    assert never.ruling.evidence is not None and "not the same at other inputs" in never.ruling.evidence
    (same,) = of(found, variant="same")
    assert (same.ruling.verdict, same.ruling.ok) == ("bitwise", True), same
