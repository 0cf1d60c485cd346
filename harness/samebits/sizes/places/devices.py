"""`shard_map` and its collectives: the device is one more index, and a place on a device is a place of the whole.

Sums and extremes over devices, such as `psum`, bind the number of the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samebits.interpret.shard_map import added_axes, split_axes
from samebits.numerics.floats import is_float
from samebits.sizes.places.demand import Demand, Devices, Index, added_zero
from samebits.sizes.places.facts import Facts, Integer, MapPiece, Reduction, equal
from samebits.sizes.places.movement import Rule
from samebits.sizes.places.polynomial import Polynomial, of
from samebits.sizes.places.reductions import bound_indices, names_of
from samebits.sizes.places.solving import digits_of, only_one, substituted


def shard_map(demand: Demand) -> list[MapPiece]:
    """Return what stands at the place on the device that holds it."""
    params, space = demand.params, demand.space
    sizes = added_axes(params)
    spec = params["out_specs"][demand.number]
    devices: dict[str, Polynomial] = dict(demand.devices)
    local = list(demand.index)
    for axis, names in split_axes(spec, sizes).items():
        parts = of(1)
        for name in names:
            parts = parts * sizes[name]
        length = demand.output_shape[axis].quotient(parts)
        if length is None:
            raise demand.not_covered(f"the size {demand.output_shape[axis]} is not shown to divide by {parts}")
        number, local[axis] = space.divide(local[axis], length, demand.facts)
        for name in reversed(names):
            number, devices[name] = space.divide(number, of(sizes[name]), demand.facts)
    missing = [name for name in sizes if name not in devices]
    if missing and not params.get("check_vma", False):
        raise demand.not_covered("an output that is not split is not typed as the same on every device")
    # Typed as replicated over these: every device has the same.
    devices |= {name: of(0) for name in missing}
    return demand.evaluator.on_devices(demand, devices, tuple(local))


def whole_place(spec: Any, sizes: Mapping[str, int], local: Index, shape: Index, devices: Devices) -> Index:
    """Return the place in the whole array of a place on a device, of a local shape."""
    places = list(local)
    for axis, names in split_axes(spec, sizes).items():
        number = of(0)
        for name in names:
            number = number * sizes[name] + devices[name]
        places[axis] = number * shape[axis] + local[axis]
    return tuple(places)


def names_in_parameter(value: Any) -> tuple[str, ...]:
    """Return the mesh axes that a parameter names, which is one of them or several."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def group(demand: Demand, names: Sequence[str]) -> tuple[Polynomial, int]:
    """Return the number of the device in its group, and how many there are."""
    sizes = demand.evaluator.axis_sizes
    number, count = of(0), 1
    for name in names:
        if name not in demand.devices:
            raise demand.not_covered(f"the mesh axis '{name}' is not one of the devices that are followed")
        number, count = number * sizes[name] + demand.devices[name], count * sizes[name]
    if demand.params.get("axis_index_groups") is not None:
        raise demand.not_covered("groups of devices that are listed")
    return number, count


def _on(demand: Demand, names: Sequence[str], number: Polynomial) -> Devices:
    """Return the devices with another number in their group."""
    devices = dict(demand.devices)
    for name in reversed(names):
        number, devices[name] = demand.space.divide(number, of(demand.evaluator.axis_sizes[name]), demand.facts)
    return devices


def _ppermute(demand: Demand) -> list[MapPiece]:
    names = names_in_parameter(demand.params["axis_name"])
    number, count = group(demand, names)
    senders = {receiver: sender for sender, receiver in demand.params["perm"]}
    pieces: list[MapPiece] = []
    for receiver in range(count):
        facts = (equal(number, receiver),)
        if receiver in senders:
            there = demand.on(_on(demand, names, of(senders[receiver])))
            pieces += there.operand(demand.number, demand.index, facts)
        else:
            own = demand.space.possible(facts, demand.facts)
            if own is not None:
                pieces.append(MapPiece(own, demand.zero()))
    return pieces


def _all_gather(demand: Demand) -> list[MapPiece]:
    params = demand.params
    names, axis = names_in_parameter(params["axis_name"]), params["all_gather_dimension"]
    place = demand.index[axis]
    if params["tiled"]:
        number, rest = demand.space.divide(place, demand.shape(demand.number)[axis], demand.facts)
        index = (*demand.index[:axis], rest, *demand.index[axis + 1 :])
    else:
        number, index = place, (*demand.index[:axis], *demand.index[axis + 1 :])
    return demand.on(_on(demand, names, number)).operand(demand.number, index)


def _all_to_all(demand: Demand) -> list[MapPiece]:
    params, space = demand.params, demand.space
    if not params.get("tiled", False):
        raise demand.not_covered("an exchange that adds an axis")
    names, split, concat = names_in_parameter(params["axis_name"]), params["split_axis"], params["concat_axis"]
    number, count = group(demand, names)
    shape = demand.shape(demand.number)
    part = shape[split].quotient(of(count))
    if part is None:
        raise demand.not_covered(f"the size {shape[split]} is not shown to divide by {count}")
    index = list(demand.index)
    length = part if split == concat else shape[concat]
    sender, index[concat] = space.divide(index[concat], length, demand.facts)
    index[split] = index[split] + number * part
    return demand.on(_on(demand, names, sender)).operand(demand.number, tuple(index))


def _over_devices(demand: Demand, kind: str, names: Sequence[str], index: Index) -> list[MapPiece]:
    """Sum what stands at a place on every device of a group, or take its extreme."""
    group(demand, names)  # which says what is not followed
    if not is_float(demand.output_dtype) and (kind != "sum" or demand.output_dtype.kind not in "iu"):
        raise demand.not_covered(f"the {kind} of {demand.output_dtype.name} over devices")
    devices = bound_indices(demand, [of(demand.evaluator.axis_sizes[name]) for name in names])
    pieces = demand.on({**demand.devices, **dict(zip(names, devices, strict=True))}).operand(demand.number, index)

    def part(facts: Facts, digits: dict[str, Polynomial]) -> list[MapPiece]:
        there = demand.on({**demand.devices, **dict(zip(names, substituted(devices, digits), strict=True))})
        own = there.operand(demand.number, index, facts)
        return [MapPiece(piece.facts, added_zero(demand, demand.zero(), piece.source)) for piece in own]

    if kind == "sum":
        picked = only_one(demand, pieces, digits_of(demand.space, devices), part)
        if picked is not None:
            return picked
    bound = names_of(demand, devices)
    return [MapPiece((), Reduction(kind, demand.output_dtype.name, bound, tuple(pieces)))]


def _psum(demand: Demand) -> list[MapPiece]:
    return _over_devices(demand, "sum", names_in_parameter(demand.params["axes"]), demand.index)


def _extreme(kind: str) -> Rule:
    return lambda demand: _over_devices(demand, kind, names_in_parameter(demand.params["axes"]), demand.index)


def _reduce_scatter(demand: Demand) -> list[MapPiece]:
    """Return the part of a sum that is the device's own."""
    params = demand.params
    names, axis = names_in_parameter(params["axis_name"]), params["scatter_dimension"]
    number, _ = group(demand, names)
    index = list(demand.index)
    if params["tiled"]:
        index[axis] = number * demand.output_shape[axis] + index[axis]
    else:
        index.insert(axis, number)
    return _over_devices(demand, "sum", names, tuple(index))


COLLECTIVES: dict[str, Rule] = {
    "all_gather": _all_gather,
    "all_gather_invariant": _all_gather,
    "all_to_all": _all_to_all,
    "axis_index": lambda demand: [
        MapPiece((), Integer(group(demand, names_in_parameter(demand.params["axis_name"]))[0]))
    ],
    "pbroadcast": lambda demand: demand.operand(demand.number, demand.index),
    "pmax": _extreme("max"),
    "pmin": _extreme("min"),
    "ppermute": _ppermute,
    "psum": _psum,
    "psum_invariant": _psum,
    "pvary": lambda demand: demand.operand(demand.number, demand.index),
    "reduce_scatter": _reduce_scatter,
}
