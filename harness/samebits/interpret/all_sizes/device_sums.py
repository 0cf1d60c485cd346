"""Sums and extremes over devices: what stands at a place of each of them, the number of the device being bound.

Source: the collectives of `jax.lax` in `shard_map`, such as `psum` and `psum_scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence

from samebits.interpret.all_sizes.demand import Demand, Index
from samebits.interpret.all_sizes.devices import group, names_in_parameter
from samebits.interpret.all_sizes.facts import Facts, MapPiece, Reduction, Source
from samebits.interpret.all_sizes.movement import Rule
from samebits.interpret.all_sizes.picks import only_one
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.reductions import bound_indices, names_of
from samebits.interpret.all_sizes.solving import digits_of, substituted
from samebits.interpret.all_sizes.terms import added_zero
from samebits.numerics.floats import is_float


def _over_devices(demand: Demand, kind: str, names: Sequence[str], index: Index) -> list[MapPiece]:
    """A sum or an extreme of what stands at a place on every device of a group."""
    group(demand, names)  # which says what is not followed
    if not is_float(demand.output_dtype) and (kind != "sum" or demand.output_dtype.kind not in "iu"):
        raise demand.not_covered(f"the {kind} of {demand.output_dtype.name} over devices")
    devices = bound_indices(demand, [of(demand.evaluator.axis_sizes[name]) for name in names])
    pieces = demand.on({**demand.devices, **dict(zip(names, devices, strict=True))}).operand(demand.number, index)

    def part(facts: Facts, digits: dict[str, Polynomial]) -> list[MapPiece]:
        there = demand.on({**demand.devices, **dict(zip(names, substituted(devices, digits), strict=True))})
        own = there.operand(demand.number, index, facts)
        return [MapPiece(piece.facts, _alone(demand, piece)) for piece in own]

    if kind == "sum":
        picked = only_one(demand, pieces, digits_of(demand.space, devices), part)
        if picked is not None:
            return picked
    bound = names_of(demand, devices)
    return [MapPiece((), Reduction(kind, demand.output_dtype.name, bound, tuple(pieces)))]


def _alone(demand: Demand, piece: MapPiece) -> Source:
    """The part of the one device that has it, to which the others add zero."""
    return added_zero(demand, demand.zero(), piece.source)


def _psum(demand: Demand) -> list[MapPiece]:
    return _over_devices(demand, "sum", names_in_parameter(demand.params["axes"]), demand.index)


def _extreme(kind: str) -> Rule:
    return lambda demand: _over_devices(demand, kind, names_in_parameter(demand.params["axes"]), demand.index)


def _reduce_scatter(demand: Demand) -> list[MapPiece]:
    """The part of a sum that is the device's own."""
    params = demand.params
    names, axis = names_in_parameter(params["axis_name"]), params["scatter_dimension"]
    number, _ = group(demand, names)
    index = list(demand.index)
    if params["tiled"]:
        index[axis] = number * demand.output_shape[axis] + index[axis]
    else:
        index.insert(axis, number)
    return _over_devices(demand, "sum", names, tuple(index))


DEVICE_SUMS: dict[str, Rule] = {
    "pmax": _extreme("max"),
    "pmin": _extreme("min"),
    "psum": _psum,
    "psum_invariant": _psum,
    "reduce_scatter": _reduce_scatter,
}
