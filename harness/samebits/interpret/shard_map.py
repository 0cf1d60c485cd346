"""`shard_map`, device by device, for meshes of any size and without devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import same
from samebits.interpret.devices import Axes, PerDevice, spread
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type


def shard_map(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], axes: Axes) -> list[Value]:
    """Split the arguments by their specs, interpret the body on all devices, and join the outputs."""
    params = step.params
    added = Axes(tuple(added_axes(params).items()))
    inside = Axes(axes.sizes + added.sizes, tuple(params["mesh"].shape))
    args = [
        cut(interpreter, value, spec, kind, axes.devices, added)
        for value, spec, kind in zip(values, params["in_specs"], step.inputs, strict=True)
    ]
    outputs = interpreter.closed(params["jaxpr"], args, inside)
    return [
        join(interpreter, step, value, spec, kind, axes.devices, added)
        for value, spec, kind in zip(outputs, params["out_specs"], step.outputs, strict=True)
    ]


def added_axes(params: Mapping[str, Any]) -> dict[str, int]:
    """Return the mesh axes that become manual, with their sizes."""
    names = params.get("newly_manual_axes", params.get("manual_axes", ()))
    return {name: size for name, size in params["mesh"].shape.items() if name in names}


def split_axes(spec: Any, sizes: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Return by dimension of an array the mesh axes that split it."""
    entries = [(entry if isinstance(entry, tuple) else (entry,)) if entry else () for entry in spec]
    names = {axis: tuple(name for name in entry if name in sizes) for axis, entry in enumerate(entries)}
    return {axis: entry for axis, entry in names.items() if entry}


def cut(interpreter: InterpreterProtocol, value: Value, spec: Any, kind: Type, outer: int, added: Axes) -> Value:
    """What each device gets of an argument."""
    pieces = _pieces(spec, kind, added)
    if pieces is None:
        return value if not isinstance(value, PerDevice) else PerDevice(_repeated(value.values, added.devices))
    ids = np.arange(math.prod(kind.shape)).reshape(kind.shape)
    indices = [ids[piece] for piece in pieces]
    per_device = value.values if isinstance(value, PerDevice) else (value,) * outer
    return spread(
        interpreter.taken([shard], index, Type(index.shape, kind.dtype)) for shard in per_device for index in indices
    )


def join(
    interpreter: InterpreterProtocol, step: Step, value: Value, spec: Any, kind: Type, outer: int, added: Axes
) -> Value:
    """The whole output from what the devices hold; copies that must be equal are looked at.

    Raises:
        NotCovered: an output that the spec calls replicated differs between devices.
    """
    pieces = _pieces(spec, kind, added)
    if not isinstance(value, PerDevice) and pieces is None:
        return value
    per_device = value.values if isinstance(value, PerDevice) else (value,) * (outer * added.devices)
    whole = []
    for start in range(0, len(per_device), added.devices):
        mine = per_device[start : start + added.devices]
        places: dict[Any, Value] = {}
        for device, shard in enumerate(mine):
            place = str(pieces[device]) if pieces is not None else ""
            if place not in places:
                places[place] = (pieces[device] if pieces is not None else (), shard)
            elif places[place][1] is not shard and not same(interpreter.domain, places[place][1], shard):
                raise NotCovered(f"{step}: an output that is typed as replicated differs between devices")
        index = np.empty(kind.shape, np.int64)
        sources = []
        offset = 0
        for piece, shard in places.values():
            size = index[piece].size
            index[piece] = offset + np.arange(size).reshape(index[piece].shape)
            offset += size
            sources.append(shard)
        whole.append(interpreter.taken(sources, index, kind))
    return whole[0] if outer == 1 and not isinstance(value, PerDevice) else spread(whole)


def _pieces(spec: Any, kind: Type, added: Axes) -> list[tuple[slice, ...]] | None:
    """The part of an array that each of the added devices holds; None where each holds all of it.

    Raises:
        NotCovered: the devices hold summands of it, or what becomes one in a gradient.
    """
    for word in ("unreduced", "reduced"):
        if names := getattr(spec, word, None):
            raise NotCovered(f"a spec with {word}={set(names)} is not covered: its arrays are summands, not pieces")
    sizes = dict(added.sizes)
    entries = [(entry if isinstance(entry, tuple) else (entry,)) if entry else () for entry in spec]
    names = [tuple(name for name in entry if name in sizes) for entry in entries]
    if not any(names):
        return None
    pieces = []
    for device in range(added.devices):
        at = dict(zip(sizes, np.unravel_index(device, [*sizes.values()]), strict=True))
        piece = []
        for dimension, axes in enumerate(names):
            parts, number = 1, 0
            for axis in axes:
                parts, number = parts * sizes[axis], number * sizes[axis] + int(at[axis])
            length = kind.shape[dimension] // parts
            piece.append(slice(number * length, (number + 1) * length))
        pieces.append(tuple(piece))
    return pieces


def _repeated(values: Sequence[Value], times: int) -> tuple[Value, ...]:
    return tuple(value for value in values for _ in range(times))
