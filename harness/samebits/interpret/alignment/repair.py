"""Repairs of the variant: values of the reference that, put in place of its own, give the reference's output.

A repair is the proof of a cause: nothing before the replaced value makes the output differ in another way, and nothing
behind it. The earliest one in the order of computation is nearest to the cause.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.alignment.fingerprints import CLOSE, fingerprint
from samebits.interpret.alignment.frontier import Side, reaching
from samebits.interpret.alignment.graph import Graph, Node, size_of
from samebits.interpret.alignment.sources import position_of
from samebits.interpret.complex_pairs import ComplexPair
from samebits.interpret.devices import PerDevice
from samebits.interpret.field.element import FieldElement

SECONDS = 5.0
"""For the repairs of one output."""

_TRIES = 600


@dataclass(frozen=True, slots=True)
class Repair:
    """Values of the variant and those of the reference that repair it, one per iteration of the loops around them."""

    variant: tuple[Node, ...]
    reference: tuple[Node, ...]


def earliest(variant: Side, reference: Side, mine: Node, other: Node, *, arranged: bool = False) -> Repair | None:
    """The earliest repair; None where there is none but the output itself, or where it takes too long.

    Args:
        variant, reference: the programs.
        mine, other: the output of each.
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
    for group in _groups([*slices[0], *_turned(variant, slices[0])]):
        names = by_size.get(tuple(size_of(node.value) for node in group), [])
        for its in sorted(names, key=lambda nodes: nodes[0].name != group[0].name):
            for forced in _substitutions(group, its):
                if tries >= _TRIES or time.monotonic() > deadline:
                    return None
                tries += 1
                if _repairs(variant, reference, forced, mine, other):
                    return Repair(group, its)
    return None


def _turned(side: Side, nodes: Sequence[Node]) -> list[Node]:
    """The operands of values whose elements occur in the reference, but not in this order."""
    operands = [side.graph.nodes[number] for number in {number for node in nodes for number in node.operands}]
    known = {node.number for node in nodes}
    return [
        node
        for node in operands
        if node.number not in known and node.kind == "moved" and not isinstance(node.value, PerDevice)
        if not side.arranged(node)
    ]


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
    index = np.arange(size_of(value)).reshape(_shape(value)).transpose(order).reshape(shape)
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
