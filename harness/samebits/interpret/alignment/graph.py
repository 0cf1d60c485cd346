"""The values of one interpreted program and how each was computed: a graph whose nodes are executions of equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from samebits.interpret.complex_pairs import ComplexPair
from samebits.interpret.devices import PerDevice
from samebits.interpret.field.element import FieldElement

Kind = Literal["input", "constant", "moved", "computed"]
"""How a value came about: given, written into the program, rearranged, or the result of any other equation."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value.

    Args:
        number: in the order of computation.
        value: concrete, symbolic or a `PerDevice`.
        kind: how it came about.
        equation: the jax equation that gave it; None of inputs and constants.
        written: the equation whose source it has: its own, or the call of a library function that it is part of.
        operands: the numbers of the values that it was computed from.
        devices: of each operand, the device whose part of it was used; None for all of it.
        output: which output of the equation it is.
        again: computes it from other operands; None of inputs and constants.
        trips: the iterations of the loops around it, outermost first, each with the number of its loop.
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
        outputs: the number of each output.
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
