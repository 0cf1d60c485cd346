"""The frontier of a difference: what one program computes that occurs nowhere in the other, although its operands do.

Walked from the output that differs towards the inputs. A value that occurs in the other program ends the walk: what was
computed differently before it, as the parts of another form of one formula, has no effect behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from samebits.interpret.alignment.fingerprints import Counterparts, Fingerprints
from samebits.interpret.alignment.graph import Graph, Node


class Side:
    """One of two aligned programs.

    Args:
        marks: its fingerprints.
        there: where its values occur in the other program.
        common: by whose values those of both sides are named.
    """

    def __init__(self, marks: Fingerprints, there: Counterparts, common: Counterparts) -> None:
        self.marks = marks
        self.there = there
        self._common = common
        self._names: dict[int, tuple[bytes, bytes]] = {}

    @property
    def graph(self) -> Graph:
        """The values of the program."""
        return self.marks.graph

    def occurs(self, node: Node) -> bool:
        """Whether the other program has a value with the same elements."""
        return node.is_source or bool(self.there.of(self.marks[node]))

    def arranged(self, node: Node) -> bool:
        """Whether the other program has a value with the same elements in the same order."""
        return node.is_source or bool(self.there.arranged(self.marks[node]))

    def content(self, node: Node) -> bytes:
        """A digest of the elements of a value, the same on both sides."""
        return self._named(node)[0]

    def order(self, node: Node) -> bytes:
        """A digest of the elements of a value in order, the same on both sides."""
        return self._named(node)[1]

    def _named(self, node: Node) -> tuple[bytes, bytes]:
        if node.number not in self._names:
            self._names[node.number] = self._common.named(self.marks[node])
        return self._names[node.number]


def frontier(graph: Graph, start: Node, occurs: Callable[[Node], bool]) -> list[Node]:
    """The values that make another one differ, in the order of computation.

    Args:
        graph: the program.
        start: the value that differs; whether it occurs elsewhere does not count.
        occurs: whether a value occurs in the other program.
    """
    stack, visited, causes = [start], {start.number}, []
    while stack:
        node = stack.pop()
        missing = [operand for operand in graph.operands(node) if not occurs(operand)]
        if not missing and not node.is_source:
            causes.append(node)
        for operand in missing:
            if operand.number not in visited:
                visited.add(operand.number)
                stack.append(operand)
    return sorted(causes, key=lambda node: node.number)


def reaching(graph: Graph, start: Node, occurs: Callable[[Node], bool]) -> list[Node]:
    """The values that occur nowhere else and reach another one through such values, that one included."""
    stack, visited = [start], {start.number}
    while stack:
        for operand in graph.operands(stack.pop()):
            if operand.number not in visited and not occurs(operand):
                visited.add(operand.number)
                stack.append(operand)
    return [graph.nodes[number] for number in sorted(visited)]
