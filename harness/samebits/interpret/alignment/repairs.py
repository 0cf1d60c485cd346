"""Repairs of the variant: values of the reference that, put in place of its own, give the reference's output."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.alignment.fingerprints import (
    CLOSE,
    Graph,
    Node,
    Side,
    each_device,
    fingerprint,
    reaching,
    shadow_of,
    size_of,
)
from samebits.interpret.alignment.sources import position_of
from samebits.interpret.complex_pairs import ComplexPair
from samebits.interpret.devices import PerDevice
from samebits.interpret.domain import Value
from samebits.interpret.equation import Array
from samebits.interpret.field.element import FieldElement

# How a whole array may lie on the devices of a mesh, and which of their values are parts of a sum.
_MOST_AXES = 4  # of an array whose axes are also tried in other orders


def layouts(whole: Sequence[int], local: Sequence[int], grid: Sequence[int]) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """The ways in which parts of one shape make up a whole array: its flat indices by device, and the axes not used.

    Each dimension is whole, or cut over some axes of the mesh: into blocks, or into windows that overlap evenly, as
    those with the ends of their neighbours do.

    Args:
        whole, local: the shapes of the array and of its parts.
        grid: the sizes of the axes of the mesh.
    """
    rank = len(local)
    shape = _of_rank(tuple(whole), tuple(local))
    if shape is None:
        return
    numbers = np.arange(math.prod(whole)).reshape(shape)
    orders = itertools.permutations(range(rank)) if rank <= _MOST_AXES else iter([tuple(range(rank))])
    for order in orders:
        yield from _cuts(numbers.transpose(order), tuple(local), tuple(grid))


def _of_rank(whole: tuple[int, ...], local: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of a whole array with as many dimensions as its parts: those of size one come and go."""
    lean = tuple(size for size in whole if size > 1)
    if len(whole) == len(local):
        return whole
    return (*lean, *(1,) * (len(local) - len(lean))) if len(lean) <= len(local) else None


def _cuts(numbers: Array, local: tuple[int, ...], grid: tuple[int, ...]) -> Iterator[tuple[Array, tuple[int, ...]]]:
    ways = [_ways(size, part, grid) for size, part in zip(numbers.shape, local, strict=True)]
    places = np.indices(grid).reshape(len(grid), -1)
    for chosen in itertools.product(*ways):
        used = [axis for axes, _ in chosen for axis in axes]
        if len(used) != len(set(used)):
            continue
        index = []
        for dim, (axes, step) in enumerate(chosen):
            number = np.zeros(places.shape[1], np.int64)
            for axis in axes:
                number = number * grid[axis] + places[axis]
            at = number[:, None] * step + np.arange(local[dim])
            index.append(at.reshape(-1, *(local[dim] if d == dim else 1 for d in range(len(local)))))
        taken = numbers[tuple(index)] if index else np.broadcast_to(numbers, (places.shape[1],))
        yield taken, tuple(axis for axis in range(len(grid)) if axis not in used and grid[axis] > 1)


def _ways(size: int, part: int, grid: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
    """The axes of the mesh over which a dimension may be cut into parts, and how far apart these begin."""
    if size == part:
        return [((), 0)]
    ways = []
    for count in range(1, len(grid) + 1):
        for axes in itertools.permutations(range(len(grid)), count):
            parts = math.prod(grid[axis] for axis in axes)
            if parts > 1 and 0 < size - part <= (parts - 1) * part and (size - part) % (parts - 1) == 0:
                ways.append((axes, (size - part) // (parts - 1)))
    return ways


def summands(axes: Sequence[int], grid: Sequence[int]) -> Iterator[Array]:
    """The ways in which some devices have a value and the others zero, so that sums over axes give it: who has it."""
    places = np.indices(grid).reshape(len(grid), -1)
    for count in range(1, len(axes) + 1):
        for summed in itertools.combinations(axes, count):
            yield (places[[*summed]] == 0).all(axis=0)


def is_partial(value: Any, wanted: PerDevice, grid: tuple[int, ...]) -> bool:
    """Whether each device has a part of a sum over some axes of the mesh, where the whole sum is wanted."""
    if not isinstance(value, PerDevice):
        return False
    own, whole = (np.stack([shadow_of(part) for part in parts]) for parts in (value.values, wanted.values))
    own, whole = (array.reshape(*grid, *array.shape[1:]) for array in (own, whole))
    if not np.isfinite(own).all() or not whole.any():
        return False
    bound = CLOSE * np.abs(own).max() * math.prod(grid)
    for count in range(1, len(grid) + 1):
        for axes in itertools.combinations(range(len(grid)), count):
            if bool(np.all(np.abs(own.sum(axes, keepdims=True) - whole) <= bound)):
                return math.prod(grid[axis] for axis in axes) > 1
    return False


SECONDS = 5.0
"""For the repairs of one output."""

_TRIES = 600


@dataclass(frozen=True, slots=True)
class Repair:
    """Values of the variant and those of the reference that repair it, one per iteration of the loops around them.

    Args:
        partial: whether each device has a part of a sum that is one value of the reference.
    """

    variant: tuple[Node, ...]
    reference: tuple[Node, ...]
    partial: bool = False


def earliest(variant: Side, reference: Side, mine: Node, other: Node, *, arranged: bool = False) -> Repair | None:
    """The earliest repair; None where there is none but the output itself, or where it takes too long.

    Args:
        arranged: whether a value in another order counts as one that does not occur.
    """
    deadline, tries = time.monotonic() + SECONDS, 0
    slices = [
        reaching(side.graph, end, side.arranged if arranged else side.occurs)
        for side, end in ((variant, mine), (reference, other))
    ]
    sources = _groups(_with_operands(reference.graph, slices[1]))
    by_size: dict[tuple[int, ...], list[tuple[Node, ...]]] = {}
    for group in sources:
        by_size.setdefault(tuple(size_of(node.value) for node in group), []).append(group)
    cutting = _Cutting(_groups(reaching(reference.graph, other, lambda node: False)), deadline)
    for group in _groups([*slices[0], *_moved_before(variant, slices[0])]):
        names = by_size.get(tuple(size_of(node.value) for node in group), [])
        names = sorted(names, key=lambda nodes: nodes[0].name != group[0].name)
        whole = ((its, forced) for its in names for forced in _substitutions(group, its))
        for its, forced in cutting(group) if group[0].grid else whole:
            if tries >= _TRIES or time.monotonic() > deadline:
                return None
            tries += 1
            if _repairs(variant, reference, forced, mine, other):
                value = forced[group[0].number]
                return Repair(group, its, bool(group[0].grid) and is_partial(group[0].value, value, group[0].grid))
    return None


class _Cutting:
    """What is put in place of the values of all devices: values of the reference, cut in each way that fits."""

    def __init__(self, sources: Sequence[tuple[Node, ...]], deadline: float) -> None:
        self._sources = sources
        self._deadline = deadline
        self._summands: set[int] = set()  # values of the variant that are parts of a sum of the reference

    def __call__(self, group: tuple[Node, ...]) -> list[tuple[tuple[Node, ...], dict[int, PerDevice]]]:
        """What may be tried, likeliest first; nothing where the reference has the very values, cut so."""
        tried, in_parts = [], []
        grid, names = group[0].grid, sorted(self._sources, key=lambda nodes: nodes[0].name != group[0].name)
        after_parts = any(number in self._summands for node in group for number in node.operands)
        if after_parts and group[0].kind == "moved":
            self._summands.update(node.number for node in group)
        for its in names if time.monotonic() < self._deadline else ():
            for forced, unused in _cut(group, its):
                if all(_same_numbers(node.value, forced[node.number]) for node in group):
                    return []
                tried.append((its, forced))
                if all(is_partial(node.value, forced[node.number], grid) for node in group):
                    self._summands.update(node.number for node in group)
                elif after_parts:
                    in_parts += [(its, _among(having, forced)) for having in summands(unused, grid)]
        return tried + in_parts


def _cut(group: Sequence[Node], its: Sequence[Node]) -> Iterator[tuple[dict[int, PerDevice], tuple[int, ...]]]:
    """The values of the reference in each layout that gives the shapes of the variant's, and the axes left over."""
    shapes = {(_local(node.value), _whole(other.value)) for node, other in zip(group, its, strict=False)}
    local, whole = next(iter(shapes))
    if len(group) != len(its) or len(shapes) > 1 or local is None or whole is None:
        return
    for index, unused in layouts(whole, local, group[0].grid):
        yield (
            {
                node.number: PerDevice(tuple(_picked(other.value, part) for part in index))
                for node, other in zip(group, its, strict=True)
            },
            unused,
        )


def _among(having: Array, forced: Mapping[int, PerDevice]) -> dict[int, PerDevice]:
    """The values of some devices, and zeros on the others."""
    return {
        number: PerDevice(tuple(part if has else _zeros(part) for has, part in zip(having, value.values, strict=True)))
        for number, value in forced.items()
    }


def _zeros(value: Value) -> Value:
    if isinstance(value, FieldElement):
        parts = tuple(np.zeros_like(part) for part in value.parts)
        return FieldElement(parts, np.zeros_like(value.shadow), value.degree, value.reach)
    return np.zeros_like(value)


def _local(value: Any) -> tuple[int, ...] | None:
    """The shape of the part of a device; None where the parts are complex."""
    parts = each_device(value)
    return None if any(isinstance(part, ComplexPair) for part in parts) else _shape(parts[0])


def _whole(value: Any) -> tuple[int, ...] | None:
    return None if isinstance(value, PerDevice | ComplexPair) else _shape(value)


def _same_numbers(first: Value, second: PerDevice) -> bool:
    own = each_device(first)
    pairs = zip(own * (len(second.values) // len(own)), second.values, strict=True)
    return all(np.array_equal(shadow_of(a), shadow_of(b), equal_nan=True) for a, b in pairs)


def _moved_before(side: Side, nodes: Sequence[Node]) -> list[Node]:
    """What values are moved from whose elements occur in the reference, but not in this order."""
    known, moved, level = {node.number for node in nodes}, [], [*nodes]
    while level:
        numbers = {number for node in level for number in node.operands} - known
        operands = [side.graph.nodes[number] for number in sorted(numbers)]
        level = [node for node in operands if (node.kind == "moved" or node.grid) and not side.arranged(node)]
        known |= numbers
        moved += level
    return moved


def _with_operands(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    numbers = {node.number for node in nodes} | {number for node in nodes for number in node.operands}
    return [graph.nodes[number] for number in sorted(numbers)]


def _groups(nodes: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Values of one equation in all iterations together, and those of one expression of an unrolled loop."""
    by_equation: dict[Any, list[Node]] = {}
    by_source: dict[Any, list[Node]] = {}
    for node in nodes:
        if node.is_source:
            by_equation[node.number, "source"] = [node]
            continue
        by_equation.setdefault((id(node.equation), node.output, node.name), []).append(node)
        by_source.setdefault((position_of(node), node.output, node.name), []).append(node)
    groups = [tuple(group) for group in by_equation.values()]
    known = {tuple(node.number for node in group) for group in groups}
    groups += [tuple(group) for group in by_source.values() if tuple(node.number for node in group) not in known]
    return sorted(groups, key=lambda group: group[0].number)


def _substitutions(group: Sequence[Node], its: Sequence[Node]) -> Iterator[dict[int, Any]]:
    """What is put in place of the variant's values: the reference's, in each layout that fits."""
    kinds = {isinstance(node.value, ComplexPair) for node in (*group, *its)}
    if len(kinds) > 1 or any(isinstance(node.value, PerDevice) for node in (*group, *its)):
        return  # a value of one program in parts, and of the other whole
    for layout in _layouts(_shape(group[0].value), _shape(its[0].value)):
        forced = {}
        for node, other in zip(group, its, strict=True):
            value = _laid_out(other.value, layout, _shape(node.value))
            if value is None:
                break
            forced[node.number] = value
        else:
            yield forced


def _layouts(wanted: tuple[int, ...], have: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Permutations of axes that may give another shape; as it is first."""
    yield tuple(range(len(have)))
    if len(have) > 5:
        return
    lean = [size for size in wanted if size > 1]
    for order in itertools.permutations(range(len(have))):
        if order != tuple(range(len(have))) and [have[axis] for axis in order if have[axis] > 1] == lean:
            yield order


def _laid_out(value: Any, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if isinstance(value, ComplexPair):
        return ComplexPair(*(_laid_out(part, order, shape) for part in (value.real, value.imag)))
    if len(order) != len(_shape(value)):
        return None
    return _picked(value, np.arange(size_of(value)).reshape(_shape(value)).transpose(order).reshape(shape))


def _picked(value: Any, index: Array) -> Any:
    """Elements of a value by their flat indices."""
    if isinstance(value, FieldElement):
        parts = tuple(part.reshape(len(part), -1)[:, index] for part in value.parts)
        reach = None if value.reach is None else np.broadcast_to(value.reach, value.shape).reshape(-1)[index]
        return FieldElement(parts, value.shadow.reshape(-1)[index], value.degree, reach)
    return np.asarray(value).reshape(-1)[index]


def _repairs(variant: Side, reference: Side, forced: Mapping[int, Any], mine: Node, other: Node) -> bool:
    """Whether the output is that of the reference with some values replaced."""
    try:
        with np.errstate(all="ignore"):
            output = _evaluated(variant.graph, forced, mine)
        if output is None:
            return False
        new = fingerprint(output, False)
    except (NotCovered, ValueError, LookupError, TypeError, ArithmeticError):  # the value does not fit what follows
        return False
    wanted = reference.marks[other]
    if new.order == wanted.order:
        return True
    if new.sums is None or wanted.sums is None or new.projections is None or wanted.projections is None:
        return False
    ours, theirs = np.array([*new.sums, *new.projections]), np.array([*wanted.sums, *wanted.projections])
    return bool(np.all(np.abs(ours - theirs) <= CLOSE * theirs[0]))


def _evaluated(graph: Graph, forced: Mapping[int, Any], output: Node) -> Any:
    """An output where some values are replaced; None where it does not depend on them."""
    values = dict(forced)
    first = min(forced)
    for node in graph.nodes[first : output.number + 1]:
        if node.number in values or node.again is None or not any(number in values for number in node.operands):
            continue
        operands = []
        for number, device in zip(node.operands, node.devices, strict=True):
            value = values.get(number, graph.nodes[number].value)
            operands.append(value if device is None else value.values[device])
        values[node.number] = node.again(operands)
    return values.get(output.number)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.real.shape if isinstance(value, ComplexPair) else value.shape)
