"""Two compiled programs aligned by the names of their instructions, as a compiler's passes keep them.

What an instruction returns is compared with what the one of its name returns in the other program; of one whose name
the other program lacks, whether that has its value anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from samebits.interpret.alignment.align import Alignment
from samebits.interpret.alignment.fingerprints import (
    CLOSE,
    HUGE,
    Graph,
    Node,
    each_device,
    elements_of,
    frontier,
    shadow_of,
)
from samebits.interpret.alignment.naming import MOST, Twins, trip_counts
from samebits.interpret.alignment.sources import code_of, source_of
from samebits.interpret.equation import instruction_of
from samebits.schema.line_difference import LineDifference

_Key = tuple[str, tuple[tuple[int, int], ...]]
"""The name of an instruction, and the iterations of the loops around it."""


class _Instructions:
    """The values of one program by the instruction that returns them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.keys = [self._key(node) for node in graph.nodes]
        self.results: dict[_Key, list[Node]] = {}
        outputs = {*graph.outputs}
        for node, key in zip(graph.nodes, self.keys, strict=True):
            users = {self.keys[user.number] for user in graph.users(node)}
            if key is not None and (node.number in outputs or users != {key}):
                self.results.setdefault(key, []).append(node)

    def of(self, key: _Key | None) -> list[Node]:
        """What an instruction computes, results and what these are made of."""
        return (
            [] if key is None else [node for node, own in zip(self.graph.nodes, self.keys, strict=True) if own == key]
        )

    def _key(self, node: Node) -> _Key | None:
        instruction = None if node.equation is None else instruction_of(node.equation)
        return None if instruction is None else (instruction.name, node.trips)


class InstructionAlignment:
    """Two compiled programs whose values have been compared by instruction.

    Args:
        alignment: of the right program, as the reference, and the wrong one.
    """

    def __init__(self, alignment: Alignment) -> None:
        self._sides = alignment.sides(True)
        self._named = tuple(_Instructions(side.graph) for side in self._sides)

    def lines(self, number: int) -> tuple[LineDifference, ...]:
        """The instructions that make an output wrong, in the order in which they run."""
        right, wrong = self._sides
        mine = wrong.graph.nodes[wrong.graph.outputs[number]]
        other = right.graph.nodes[right.graph.outputs[number]]
        pairs: list[Twins] = trip_counts(wrong, right, mine, other)
        if self._occurs(mine, of_variant=True):
            # What returns it is the same: of the right program something follows it.
            return _lines([*pairs, *self._lacking([other])] or [Twins("other", mine, other, 1)])
        for node in frontier(wrong.graph, mine, lambda node: self._occurs(node, of_variant=True)):
            key = self._named[1].keys[node.number]
            twins = self._named[0].of(key)
            taken = {number: right.graph.nodes[number] for twin in twins for number in twin.operands}
            pairs += self._lacking([other] if key is None else taken.values())
            pairs.append(Twins("other", node, twins[-1] if twins else None, 1))
        return _lines(pairs)

    def _lacking(self, nodes: Any) -> Iterator[Twins]:
        """Yield what the wrong program lacks of the values of the right one: the first instructions, in their order."""
        right = self._sides[0]
        for node in nodes:
            if not self._occurs(node, of_variant=False) and self._twin(node, of_variant=False) is None:
                for first in frontier(right.graph, node, lambda each: self._occurs(each, of_variant=False)):
                    if not self._named[1].of(self._named[0].keys[first.number]):
                        yield Twins("missing", None, first, 1)

    def _twin(self, node: Node, *, of_variant: bool) -> Node | None:
        """The value of the other program that an instruction of the same name returns in the same place."""
        own, other = self._named[of_variant], self._named[not of_variant]
        key = own.keys[node.number]
        mine, its = (side.results.get(key, []) if key is not None else [] for side in (own, other))
        return its[mine.index(node)] if node in mine and len(mine) == len(its) else None

    def _occurs(self, node: Node, *, of_variant: bool) -> bool:
        """Whether the other program has a value in its place, or anywhere where it has no instruction of that name."""
        if node.is_source:
            return True
        own, twin = self._named[of_variant], self._twin(node, of_variant=of_variant)
        if twin is not None and _shape(node) == _shape(twin):
            return _equal(node, twin)
        if twin is not None:  # the partitions are another grid, or a value is one for some of them
            own_side, other_side = self._sides[of_variant], self._sides[not of_variant]
            return own_side.order(node) == other_side.order(twin)
        key = own.keys[node.number]
        is_result = key is None or node in own.results.get(key, [])
        return is_result and self._sides[of_variant].arranged(node)


def _lines(pairs: Sequence[Twins]) -> tuple[LineDifference, ...]:
    """The places of instructions, each once."""
    lines: dict[tuple[str, str], LineDifference] = {}
    for twins in pairs:
        known = twins.variant or twins.reference
        assert known is not None
        instruction = None if known.equation is None else instruction_of(known.equation)
        line = LineDifference(
            change=twins.change,
            variant=_place(twins.variant),
            variant_code=code_of(twins.variant),
            reference=_place(twins.reference),
            reference_code=code_of(twins.reference),
            primitive=known.name if instruction is None else instruction.opcode,
            iterations=tuple(trip for _, trip in known.trips[-1:]),
        )
        lines.setdefault((line.variant_code, line.reference_code), line)
    return tuple(lines.values())[:MOST]


def _place(node: Node | None) -> str | None:
    place = source_of(node)
    return None if place is None else str(place)


def _shape(node: Node) -> tuple[tuple[int, ...], ...]:
    return tuple(shadow_of(value).shape for value in each_device(node.value))


def _equal(first: Node, second: Node) -> bool:
    """Whether two values are the same, element by element, up to the noise of float64."""
    for mine, its in zip(each_device(first.value), each_device(second.value), strict=False):
        if not np.array_equal(elements_of(mine), elements_of(its)):
            own, other = shadow_of(mine), shadow_of(its)
            # Beside a mask of -1e30 nothing else would be seen.
            noise = CLOSE * np.max(np.abs(other), where=np.abs(other) < HUGE, initial=0)
            if not np.allclose(own, other, rtol=CLOSE, atol=noise, equal_nan=True):
                return False
    return True
