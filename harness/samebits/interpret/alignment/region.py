"""Where in a region of a program the cause is: the region lies between values that agree and one that does not.

Where a program has another form than the reference, most of its values occur nowhere in it, and no cause is among them.
Three things point to one: elements that occur nowhere in the reference, although those of all operands do; a constant
or an operation that the reference does not have; and the value itself at which both forms should have met again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from samebits.interpret.alignment.fingerprints import each_device, elements_of, shadow_of
from samebits.interpret.alignment.frontier import Side, frontier, reaching
from samebits.interpret.alignment.graph import Node
from samebits.interpret.equation import Array

_SAME = 1e-12  # relative noise of float64 in one element


class Elements:
    """The elements of the values of one program, to find parts of them.

    Args:
        side: the program.
    """

    def __init__(self, side: Side) -> None:
        nodes = [node for node in side.graph.nodes if not side.marks.is_constant(node)]
        none = np.zeros(0)
        self._exact = np.unique(np.concatenate([none.astype(np.int64), *map(_residues, nodes)]))
        self._numbers = np.unique(np.concatenate([none, *map(_numbers, nodes)]))

    def has(self, node: Node) -> bool:
        """Whether every element of a value occurs, or is zero."""
        own = _residues(node)
        if own.size and self._exact.size:  # not np.isin, which sorts all elements of the program again
            after = np.minimum(np.searchsorted(self._exact, own), self._exact.size - 1)
            if np.all((self._exact[after] == own) | (own == 0)):
                return True
        numbers = _numbers(node)
        if self._numbers.size < 2:
            return False
        after = np.clip(np.searchsorted(self._numbers, numbers), 1, self._numbers.size - 1)
        near = np.minimum(*(np.abs(self._numbers[places] - numbers) for places in (after, after - 1)))
        return bool(np.all((near <= _SAME * np.abs(numbers)) | (numbers == 0)))


def _residues(node: Node) -> Array:
    """The elements as residues; none of a value that has none."""
    rows = [elements_of(value).reshape(-1) for value in each_device(node.value)]
    return np.concatenate([row for row in rows if row.dtype.kind == "i"] or [np.zeros(0, np.int64)])


def _numbers(node: Node) -> Array:
    """The finite elements as float64 numbers."""
    rows = [shadow_of(value).reshape(-1) for value in each_device(node.value)]
    numbers = np.concatenate(rows)
    finite: Array = numbers[np.isfinite(numbers)]
    return finite


def suspects(variant: Side, reference: Side, end: Node, elements: Elements) -> tuple[list[Node], list[Node]]:
    """The values of a region that are likely to be its cause, and others that may be, likeliest first.

    Args:
        variant, reference: the programs.
        end: where the region ends: its operands and theirs belong to it, up to those that occur in the reference.
        elements: of the reference.
    """
    plain = frontier(variant.graph, end, variant.occurs)
    partly = frontier(variant.graph, end, lambda node: variant.occurs(node) or elements.has(node))
    region = reaching(variant.graph, end, variant.occurs)
    new = [node for node in region if node.kind == "computed" and is_new(variant, reference, node)]
    if {node.number for node in partly} != {node.number for node in plain}:
        return [*_first(partly, new), *partly], [*new, end]
    return [*_first(plain, new), *new], [end, *plain]


def _first(nodes: Iterable[Node], new: Iterable[Node]) -> list[Node]:
    numbers = {node.number for node in new}
    return [node for node in nodes if node.number in numbers]


def is_new(variant: Side, reference: Side, node: Node) -> bool:
    """Whether a constant, or the length of a sum, that a value is computed by does not occur in the reference."""
    for operand in variant.graph.operands(node):
        if operand.kind == "constant" and not variant.there.of(variant.marks[operand]):
            return True
    if not node.name.startswith("reduce_"):
        return False
    return _sizes(node) not in {_sizes(each) for each in reference.graph.nodes if each.name == node.name}


def _sizes(node: Node) -> tuple[int, int]:
    """How many elements a reduction takes and gives."""
    return int(node.equation.invars[0].aval.size), int(node.equation.outvars[0].aval.size)
