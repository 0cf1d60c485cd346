"""`shard_map`, device by device, for meshes of any size and without devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import same
from samebits.interpret.devices import Axes, PerDevice, on, spread
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Array, Step, Type


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
    """The whole output from what the devices hold; copies that must be equal are looked at."""
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
    """The part of an array that each of the added devices holds; None where each holds all of it."""
    for word in ("unreduced", "reduced"):
        if names := getattr(spec, word, None):
            raise NotCovered(f"a spec with {word}={set(names)} is not covered: its arrays are summands, not pieces")
    sizes = dict(added.sizes)
    split = split_axes(spec, sizes)
    if not split:
        return None
    pieces = []
    for device in range(added.devices):
        at = dict(zip(sizes, np.unravel_index(device, [*sizes.values()]), strict=True))
        piece = [slice(None)] * len(kind.shape)
        for dimension, axes in split.items():
            parts, number = 1, 0
            for axis in axes:
                parts, number = parts * sizes[axis], number * sizes[axis] + int(at[axis])
            length = kind.shape[dimension] // parts
            piece[dimension] = slice(number * length, (number + 1) * length)
        pieces.append(tuple(piece))
    return pieces


def _repeated(values: Sequence[Value], times: int) -> tuple[Value, ...]:
    return tuple(value for value in values for _ in range(times))


# The rules of collectives inside `shard_map`.
Collective = Callable[[InterpreterProtocol, Step, Sequence[Value], Axes], list[Value]]
Rule = Callable[[InterpreterProtocol, Step, list[list[Value]]], list[Value]]
"""From the values of the members of a group to the output of each member."""


def _in_groups(rule: Rule) -> Collective:
    """A collective that does the same in each group of devices."""

    def collective(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], axes: Axes) -> list[Value]:
        outputs: list[Value] = [None] * axes.devices
        for group in axes.groups(step, step.params["axis_name"]):
            members = rule(interpreter, step, [on(values, device) for device in group])
            for device, value in zip(group, members, strict=True):
                outputs[device] = value
        return [spread(outputs)]

    return collective


def _ids(kind: Type, members: int) -> list[Array]:
    """The elements of each member's operand, numbered through."""
    size = math.prod(kind.shape)
    return [np.arange(size).reshape(kind.shape) + member * size for member in range(members)]


def _ppermute(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], axes: Axes) -> list[Value]:
    pairs = tuple(step.params["perm"])
    if len({origin for _, origin in pairs}) < len(pairs) or len(dict(pairs)) < len(pairs):
        raise NotCovered(f"{step}: a source or a destination is there twice, which jax rejects")
    names = step.params["axis_name"]
    places = [axes.mesh.index(name) for name in (names if isinstance(names, tuple) else ()) if name in axes.mesh]
    if places != sorted(places):
        raise NotCovered(f"{step}: its axes are not in the order of the mesh, where versions of jax disagree")
    return _in_groups(_sent)(interpreter, step, values, axes)


def _sent(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
    outside = [number for pair in step.params["perm"] for number in pair if not 0 <= number < len(members)]
    if outside:
        raise NotCovered(f"{step}: device {outside[0]} of {len(members)} does not exist")
    sender = {to: origin for origin, to in step.params["perm"]}
    nothing = interpreter.constant(np.zeros(step.output.shape, step.output.dtype), step.output)
    return [members[sender[at]][0] if at in sender else nothing for at in range(len(members))]


def _all_gather(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
    together = np.concatenate if step.params["tiled"] else np.stack
    index = together(_ids(step.inputs[0], len(members)), step.params["all_gather_dimension"])
    return [interpreter.taken([member[0] for member in members], index, step.output)] * len(members)


def _all_to_all(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
    split, concat, tiled = (step.params[name] for name in ("split_axis", "concat_axis", "tiled"))
    sent = [np.split(ids, len(members), split) for ids in _ids(step.inputs[0], len(members))]
    outputs = []
    for receiver in range(len(members)):
        chunks = [chunk[receiver] for chunk in sent]
        if tiled:
            index = np.concatenate(chunks, concat)
        else:
            index = np.stack([chunk.squeeze(split) for chunk in chunks], concat)
        outputs.append(interpreter.taken([member[0] for member in members], index, step.output))
    return outputs


def _reduced(
    interpreter: InterpreterProtocol, step: Step, members: list[list[Value]], operation: str = "reduce_sum"
) -> Value:
    """A reduction over devices: the same reduction over a new first axis."""
    (kind,) = step.inputs
    stacked = Type((len(members), *kind.shape), kind.dtype)
    whole = interpreter.stacked([member[0] for member in members], stacked)
    return interpreter.local(step.like(operation, [stacked], [kind], axes=(0,)), [whole])[0]


def _reduce(operation: str) -> Collective:
    def rule(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
        return [_reduced(interpreter, step, members, operation)] * len(members)

    def collective(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], axes: Axes) -> list[Value]:
        params = {**step.params, "axis_name": step.params["axes"]}
        each = [step.like(step.name, [kind], [kind], **params) for kind in step.inputs]
        alone = _in_groups(rule)
        return [alone(interpreter, own, [value], axes)[0] for own, value in zip(each, values, strict=True)]

    return collective


def _reduce_scatter(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
    out = _reduced(interpreter, step, members)
    chunks = np.split(_ids(step.inputs[0], 1)[0], len(members), step.params["scatter_dimension"])
    return [interpreter.taken([out], chunk.reshape(step.output.shape), step.output) for chunk in chunks]


def _ragged_all_to_all(interpreter: InterpreterProtocol, step: Step, members: list[list[Value]]) -> list[Value]:
    """Member `i` sends `send_sizes[j]` rows from `input_offsets[j]` on to row `output_offsets[j]` of member `j`."""
    tables = [[np.asarray(interpreter.domain.concrete(step, table)) for table in member[2:]] for member in members]
    sent = _ids(step.inputs[0], len(members))
    outputs = []
    for receiver, member in enumerate(members):
        index = _ids(step.inputs[1], 1)[0] + sum(ids.size for ids in sent)
        taken = np.zeros(index.shape[0], bool)
        for sender, (starts, lengths, places, _) in enumerate(tables):
            start, length, place = (int(table[receiver]) for table in (starts, lengths, places))
            expected = int(tables[receiver][3][sender])
            is_inside = 0 <= start <= start + length <= len(sent[sender])
            is_inside = is_inside and 0 <= place <= place + length <= len(index)
            if length != expected or not is_inside or taken[place : place + length].any():
                raise NotCovered(
                    f"{step}: member {sender} sends rows {start}:{start + length} to rows {place}:{place + length} "
                    f"of member {receiver}, which expects {expected}; outside of what the primitive defines"
                )
            index[place : place + length] = sent[sender][start : start + length]
            taken[place : place + length] = True
        outputs.append(interpreter.taken([*(other[0] for other in members), member[1]], index, step.output))
    return outputs


COLLECTIVES: dict[str, Collective] = {
    "axis_index": _in_groups(
        lambda interpreter, step, members: [np.asarray(number, step.output.dtype) for number in range(len(members))]
    ),
    "pbroadcast": _in_groups(lambda interpreter, step, members: [members[step.params["source"]][0]] * len(members)),
    "ppermute": _ppermute,
    **dict.fromkeys(("all_gather", "all_gather_invariant"), _in_groups(_all_gather)),
    "all_to_all": _in_groups(_all_to_all),
    **dict.fromkeys(("psum", "psum_invariant"), _reduce("reduce_sum")),
    "pmax": _reduce("reduce_max"),
    "pmin": _reduce("reduce_min"),
    **dict.fromkeys(("reduce_scatter", "psum_scatter"), _in_groups(_reduce_scatter)),
    "ragged_all_to_all": _in_groups(_ragged_all_to_all),
}
