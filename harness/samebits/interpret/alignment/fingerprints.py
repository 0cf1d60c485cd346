"""Fingerprints of whole arrays: one that no change of layout alters, and one of the arrangement.

A value of a finite field is the multiset of its residues: equal formulas have equal ones, and others do not, up to the
probability of the proof. Its float64 shadow serves beside it, for functions for which the fields have no laws, and
alone where the fields have no rule. A broadcast repeats all elements alike, so multiplicities count up to a common
factor. Integers, booleans and constants hold too few different numbers for a multiset to decide: they are compared in
order.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samebits.interpret.complex_pairs import ComplexPair
from samebits.interpret.devices import PerDevice
from samebits.interpret.equation import Array
from samebits.interpret.field.element import FieldElement

# The values of one interpreted program and how each was computed: a graph whose nodes are executions of equations.
Kind = Literal["input", "constant", "moved", "computed"]
"""How a value came about: given, written into the program, rearranged, or the result of any other equation."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value.

    Args:
        value: concrete, symbolic or a `PerDevice`.
        kind: how it came about.
        equation: the jax equation that gave it; None of inputs and constants.
        written: the equation whose source it has: its own, or the call of a library function that it is part of.
        operands: the numbers of the values that it was computed from.
        devices: of each operand, the device whose part of it was used; None for all of it.
        output: which output of the equation it is.
        again: computes it from other operands; None of inputs and constants.
        trips: the iterations of the loops around it, outermost first, each with the number of its loop.
        grid: inside a `shard_map`, the sizes of the mesh axes that it is over.
    """

    number: int
    value: Any
    kind: Kind
    equation: Any = None
    operands: tuple[int, ...] = ()
    devices: tuple[int | None, ...] = ()
    output: int = 0
    again: Callable[[Sequence[Any]], Any] | None = None
    trips: tuple[tuple[int, int], ...] = ()
    written: Any = None
    grid: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The primitive; empty for inputs and constants."""
        return "" if self.equation is None else str(self.equation.primitive.name)

    @property
    def is_source(self) -> bool:
        """Whether nothing was computed for it."""
        return self.kind in ("input", "constant")


def size_of(value: Any) -> int:
    """How many elements a value has; of one that differs between devices, all of them together."""
    if isinstance(value, PerDevice):
        return sum(size_of(each) for each in value.values)
    if isinstance(value, ComplexPair):
        return size_of(value.real) + size_of(value.imag)
    return int(value.shadow.size if isinstance(value, FieldElement) else np.size(value))


@dataclass(slots=True)
class Graph:
    """The values of one program.

    Args:
        nodes: in the order of computation.
        loops: the equations of loops, in the order in which they were met, by their number in `Node.trips`.
        counts: by loop, how often its body was evaluated.
    """

    nodes: list[Node] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    loops: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    _users: dict[int, list[int]] | None = None

    def operands(self, node: Node) -> Iterator[Node]:
        """What a value was computed from."""
        return (self.nodes[number] for number in node.operands)

    def users(self, node: Node) -> Iterator[Node]:
        """What was computed from a value."""
        if self._users is None:
            self._users = {}
            for user in self.nodes:
                for number in dict.fromkeys(user.operands):
                    self._users.setdefault(number, []).append(user.number)
        return (self.nodes[number] for number in self._users.get(node.number, ()))


CLOSE = 1e-9
"""Relative differences of sums over an array below this are noise of float64."""

HUGE = 1e8  # a number of this size stands for an infinity
_FEW = 4  # different numbers below which sums over an array say nothing


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One value.

    Args:
        content: a digest of the multiset of its elements.
        order: a digest of its elements in order, axes along which it is constant left out.
        sums: sums over its float64 numbers that no layout changes, the first its largest size; None where they say
            nothing.
        projections: sums that the order changes, as `sums`.
    """

    content: bytes
    order: bytes
    sums: tuple[float, ...] | None = None
    projections: tuple[float, ...] | None = None


@dataclass(slots=True)
class Fingerprints:
    """The fingerprints of the values of one program."""

    graph: Graph
    _cached: dict[int, Fingerprint] = field(default_factory=dict)
    _constant: list[bool] | None = None

    def __getitem__(self, node: Node) -> Fingerprint:
        """The fingerprint of a value."""
        if node.number not in self._cached:
            self._cached[node.number] = fingerprint(node.value, self.is_constant(node), node.grid)
        return self._cached[node.number]

    def is_constant(self, node: Node) -> bool:
        """Whether a value depends on no input."""
        if self._constant is None:
            self._constant = []
            for each in self.graph.nodes:
                own = each.kind != "input" and all(self._constant[number] for number in each.operands)
                self._constant.append(own)
        return self._constant[node.number]


class Counterparts:
    """Where the values of one program occur in another.

    Args:
        approximate: whether equal float64 numbers count as equal formulas.
    """

    def __init__(self, there: Fingerprints, *, approximate: bool) -> None:
        self.marks = there
        self._content: dict[bytes, list[Node]] = {}
        self._order: dict[bytes, list[Node]] = {}
        near: list[tuple[tuple[float, ...], tuple[float, ...], Node]] = []
        for node in there.graph.nodes:
            mark = there[node]
            self._content.setdefault(mark.content, []).append(node)
            self._order.setdefault(mark.order, []).append(node)
            if approximate and mark.sums is not None and mark.projections is not None:
                near.append((mark.sums, mark.projections, node))
        near.sort(key=lambda entry: entry[0][0])
        self._near = near
        self._sizes = [entry[0][0] for entry in near]

    def of(self, mark: Fingerprint) -> list[Node]:
        """The values with the same elements, in any layout."""
        return self._content.get(mark.content, []) or [node for node, _ in self._alike(mark)]

    def arranged(self, mark: Fingerprint) -> list[Node]:
        """The values with the same elements in the same order."""
        return self._order.get(mark.order, []) or [node for node, ordered in self._alike(mark) if ordered]

    def named(self, mark: Fingerprint) -> tuple[bytes, bytes]:
        """Digests of the elements and of their order that all values with approximately these have in common."""
        alike = self._alike(mark)
        content = min((self.marks[node].content for node, _ in alike), default=mark.content)
        order = min((self.marks[node].order for node, ordered in alike if ordered), default=mark.order)
        return content, order

    def _alike(self, mark: Fingerprint) -> list[tuple[Node, bool]]:
        """The values whose sums are the same, and whether those of their order are too."""
        if mark.sums is None or mark.projections is None:
            return []
        size = mark.sums[0]
        start = bisect.bisect_left(self._sizes, size * (1 - CLOSE))
        alike = []
        for sums, projections, node in self._near[start : bisect.bisect_right(self._sizes, size * (1 + CLOSE))]:
            if _close(mark.sums, sums):
                alike.append((node, _close((size, *mark.projections), (size, *projections))))
        return alike


def _close(first: Iterable[float], second: Iterable[float]) -> bool:
    left, right = np.array([*first]), np.array([*second])
    return bool(np.all(np.abs(left - right) <= CLOSE * left[0]))


def fingerprint(value: Any, is_constant: bool, grid: tuple[int, ...] = ()) -> Fingerprint:
    """The fingerprint of a value, as a `Node` has it; constants are compared in order."""
    parts = each_device(value)
    rows = [elements_of(part) for part in parts]
    # Devices that hold the same are one, as those of a replicated value.
    joined = rows[0] if len(rows) == 1 else _together(rows, grid)
    lean = _without_repeats(joined)
    order = _digest(lean)
    symbolic = any(isinstance(part, FieldElement | ComplexPair) for part in parts) or joined.dtype.kind == "f"
    if not symbolic:
        return Fingerprint(b"=" + order, b"=" + order)
    numbers, counts = np.unique(joined, return_counts=True)
    common = int(np.gcd.reduce(counts)) if counts.size else 1
    content = _digest(numbers) + _digest(counts // common)
    shadow = _without_repeats(
        _together([shadow_of(part) for part in parts], grid) if len(parts) > 1 else shadow_of(parts[0])
    )
    if is_constant:
        content = order = b"=" + order
    return Fingerprint(content, order, *_sums(shadow))


def each_device(value: Any) -> tuple[Any, ...]:
    """A value on every device."""
    return value.values if isinstance(value, PerDevice) else (value,)


def elements_of(part: Any) -> Array:
    """The elements of a value on one device: residues, or numbers."""
    if isinstance(part, ComplexPair):
        return np.stack([elements_of(part.real), elements_of(part.imag)], -1)
    return np.asarray(part.parts[0][0] if isinstance(part, FieldElement) else part)


def shadow_of(part: Any) -> Array:
    """A value on one device in float64; of random keys their words, along a new last axis."""
    if isinstance(part, ComplexPair):
        return np.stack([shadow_of(part.real), shadow_of(part.imag)], -1)
    if isinstance(part, np.ndarray) and part.dtype.kind == "V":
        words = np.ascontiguousarray(part).reshape(-1).view(np.uint32)
        return words.reshape(*part.shape, part.dtype.itemsize // 4).astype(np.float64)
    return np.asarray(part.shadow if isinstance(part, FieldElement) else part, np.float64)


def _together(rows: list[Array], grid: tuple[int, ...]) -> Array:
    """What several devices hold, by axes of the mesh; once where all hold the same."""
    if all(np.array_equal(row, rows[0]) for row in rows[1:]):
        return rows[0]
    return np.stack(rows).reshape(*(grid or (len(rows),)), *rows[0].shape)


def _without_repeats(array: Array) -> Array:
    """An array without the axes along which it is constant."""
    for axis in reversed(range(array.ndim)):
        if array.shape[axis] == 0:
            continue
        first = array.take([0], axis)
        if array.shape[axis] == 1 or np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first.squeeze(axis)
    return array


def _digest(array: Array) -> bytes:
    import hashlib

    kind = "i" if array.dtype.kind in "biu" else array.dtype.kind
    exact = array.astype(np.int64) if kind == "i" else array + 0.0 if kind == "f" else array
    return hashlib.blake2b(np.ascontiguousarray(exact).tobytes() + kind.encode(), digest_size=16).digest()


@functools.lru_cache(maxsize=64)
def _weights(size: int) -> NDArray[np.float64]:
    """Weights for sums that depend on the order, the same in every run."""
    return np.asarray(np.modf(np.sqrt(2.0) * np.arange(1, size + 1))[0] + 0.5)


def _sums(shadow: Array) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    flat = shadow.reshape(-1)
    counted = np.abs(flat) < HUGE  # beside a mask of -1e30 nothing else would be seen
    finite = flat[counted]
    if np.unique(finite).size < _FEW or np.array_equal(finite, np.round(finite)):
        return None, None
    largest = float(np.abs(finite).max())
    unit = finite / largest
    mean = [float(np.mean(term)) for term in (unit, unit**2, unit**3, np.abs(unit))]
    ends = [float(unit.max()), float(unit.min()), finite.size / flat.size]
    weights = _weights(flat.size)
    ordered = np.where(counted, flat / largest, 2.0)
    projections = [float(np.mean(weights * ordered)), float(np.mean(weights[::-1] * ordered**2))]
    return (largest, *(largest * number for number in (*mean, *ends))), tuple(largest * p for p in projections)


# The frontier of a difference: what one program computes that occurs nowhere in the other, although its operands do.
class Side:
    """One of two aligned programs.

    Args:
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
        start: the value that differs; whether it occurs elsewhere does not count.
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
