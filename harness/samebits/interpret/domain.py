"""The interfaces between the interpreter, abstract domains, and the rules of primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from samebits.interpret.data_movement import Index, Move
from samebits.interpret.devices import Axes
from samebits.interpret.equation import Array, Step, Type

Value = Any
"""A concrete array, a domain's symbolic value, or a `PerDevice` of these."""


class AbstractDomain(Protocol):
    """The operations of an abstract domain; arguments and results may be concrete arrays."""

    name: str
    covers: frozenset[str]
    keeps_constants: bool
    """Whether float constants stay arrays in their own dtype, so that arithmetic on them can be executed."""

    def lift(self, array: Array, kind: Type) -> Value:
        """A constant as a symbolic value, or as it is where the domain keeps constants."""

    def moved(self, values: Sequence[Value], move: Move, kind: Type) -> Value:
        """The elements of the values where a move puts them, given whatever arrays the domain has per element."""

    def ranks(self, step: Step, value: Value, axis: int) -> Array:
        """Numbers in the same order as the elements along an axis; equal only where the elements are."""

    def concrete(self, step: Step, value: Value) -> Array:
        """The numbers of a value that decides control flow or addresses memory."""

    def apply(self, step: Step, values: Sequence[Value]) -> Sequence[Value]:
        """The outputs of an arithmetic equation."""

    def same(self, first: Value, second: Value) -> bool:
        """Whether two values are equal, to compare replicas."""


@runtime_checkable
class JoiningDomain(AbstractDomain, Protocol):
    """A domain in which a predicate need not be known: what it decides becomes one value."""

    def either(self, step: Step, which: Value, outcomes: Sequence[Sequence[Value]]) -> list[Value]:
        """The outputs of an equation that has the outcome of one of several branches."""


class InterpreterProtocol(Protocol):
    """The part of `Interpreter` that rules of composite primitives, collectives and calls use."""

    domain: AbstractDomain
    platform: str | None

    def closed(self, closed: Any, args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a closed jaxpr on one or more devices; an open one has no constants."""

    def constant(self, array: Any, kind: Type) -> Value:
        """A constant of the program: integers stay concrete."""

    def local(self, step: Step, values: Sequence[Value]) -> Sequence[Value]:
        """An equation without communication, on every device on which its inputs differ."""

    def stacked(self, values: Sequence[Value], kind: Type) -> Value:
        """Values put one after the other along a new first axis; none gives an empty array."""

    def taken(self, values: Sequence[Value], index: Index, kind: Type) -> Value:
        """Elements of the concatenation of the flattened values, on every device."""
