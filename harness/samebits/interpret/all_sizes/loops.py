"""What scans of symbolic length carry, by induction, and loops that are the same.

A carried value is found where each step leaves a place as it was, or writes it or adds to it in one step alone, or
adds a number to it. Two loops carry the same where they start with the same, and a step makes the same of the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.demand import Demand, Devices, Index, Place
from samebits.interpret.all_sizes.facts import (
    Carried,
    Element,
    Facts,
    Integer,
    MapPiece,
    Source,
    Term,
    Whole,
    WholeResult,
    at_least,
    below,
    complement,
)
from samebits.interpret.all_sizes.integers import integer_pieces
from samebits.interpret.all_sizes.loop_names import CARRY, SPOT, TURN, depth_of_loops, mentions
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.all_sizes.solving import digits_of, solve
from samebits.interpret.all_sizes.space import Space


class Loop(Protocol):
    """A scan of a program."""

    name: str
    demand: Demand
    length: Polynomial
    consts: int
    carries: int
    not_induced: set[int]

    def start(self, number: int, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """What a carry holds before the first step."""

    def step_with(self, carry: Mapping[int, Place], time: Polynomial, output: int) -> Place:
        """What a step gives of an output of its body, where some carries are given."""

    def start_shape(self, number: int) -> Index:
        """The shape of a carry."""


@dataclass(eq=False)
class _Unknowns:
    """Carries as unknown arrays, numbered as they are met.

    Args:
        depth: how many loops around it are looked at in this way.
        order: the numbers of the carries.
    """

    depth: int
    order: list[int] = field(default_factory=list)

    def element(self, number: int, index: Index) -> Element:
        """An element of a carry."""
        if number not in self.order:
            self.order.append(number)
        return Element(f"{CARRY} {self.depth}.{self.order.index(number)}", index)

    def carries(self, loop: Loop, time: Polynomial) -> dict[int, Place]:
        """All carries of a loop before a step: the known ones by induction."""

        def place(number: int) -> Place:
            def at(index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
                known = by_induction(loop, number, time, index, (facts, devices))
                return [MapPiece((), self.element(number, index))] if known is None else known

            return at

        return {number: place(number) for number in range(loop.carries)}


Around = tuple[Facts, Devices]


def by_induction(loop: Loop, number: int, time: Polynomial, index: Index, around: Around) -> list[MapPiece] | None:
    """What is carried at a place after so many steps, where steps keep it, write it once or count; None elsewhere.

    Args:
        loop: the scan.
        number: of the carried value.
        time: how many steps.
        index: the place.
        around: what holds of it, and the device.
    """
    if number in loop.not_induced:
        return None
    loop.not_induced.add(number)
    try:
        known = _Induction(loop, number, time, index, around).pieces()
    finally:
        loop.not_induced.discard(number)
    if known is None:
        loop.not_induced.add(number)
    return known


@dataclass(frozen=True)
class _Induction:
    loop: Loop
    number: int
    time: Polynomial
    index: Index
    around: Around

    @property
    def space(self) -> Space:
        return self.loop.demand.space

    def _start(self, facts: Facts = ()) -> list[MapPiece]:
        own = self.space.simplified(facts)
        if own is None or (own and self.space.contradicts((*self.around[0], *own))):
            return []
        pieces = self.loop.start(self.number, self.index, (*self.around[0], *own), self.around[1])
        return [MapPiece((*own, *piece.facts), piece.source) for piece in pieces]

    def _step(self, time: Polynomial, facts: Facts, untouched: bool = False) -> list[MapPiece]:
        """What a step makes of carries that are found in turn."""
        own = self.space.simplified(facts)
        if own is None or (own and self.space.contradicts((*self.around[0], *own))):
            return []
        own_carry: dict[int, Place] = {self.number: self._untouched} if untouched else {}
        pieces = self.loop.step_with(own_carry, time, self.number)(self.index, (*self.around[0], *own), self.around[1])
        return [MapPiece((*own, *piece.facts), piece.source) for piece in pieces]

    def _untouched(self, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """The carry at the place, which no step before has written."""
        if index != self.index:
            raise NotCovered("a step that writes a place of what another place holds")
        return self.loop.start(self.number, index, facts, devices)

    def pieces(self) -> list[MapPiece] | None:
        """The carried value by cases."""
        unknowns = _Unknowns(_depth_around(self.loop, (self.time, *self.index), self.around[1]), [self.number])
        earlier = _turn(self.loop, unknowns.depth)
        facts, devices = (*self.around[0], below(earlier, self.time)), self.around[1]
        with _unrecorded(self.loop.demand):
            try:
                step = self.loop.step_with(unknowns.carries(self.loop, earlier), earlier, self.number)
                pieces = step(self.index, facts, devices)
            except NotCovered:
                return None  # the step computes: the loop is a result of its own
        same = unknowns.element(self.number, self.index)
        written = [piece for piece in pieces if not _is(self.space, piece.source, same)]
        if not written:
            return self._start()
        counted = self._counted(written, same, earlier) if len(pieces) == 1 else None
        if counted is not None:
            return counted
        rests = [(piece.facts, source) for piece in written for source in _added_to(piece.source, same)]
        # What is written once may be of other carries: these are found at the step that writes.
        often = len(written) == len(pieces)
        whose = f"{CARRY} {unknowns.depth}." if often else same.name
        if any(mentions(self.space, source, own, unknowns.depth, whose) for own, source in rests):
            return None
        if often:
            if any(piece.source != rest for piece, (_, rest) in zip(written, rests, strict=True)):
                return None
            return [*self._step(self.time - 1, (at_least(self.time, 1),)), *self._start((below(self.time, 1),))]
        return self._written_once([piece.facts for piece in written], earlier)

    def _counted(self, written: list[MapPiece], same: Element, earlier: Polynomial) -> list[MapPiece] | None:
        """A counter, to which every step adds the same number."""
        (piece,) = written
        if piece.facts or not isinstance(piece.source, Integer):
            return None
        step = piece.source.value - self.space.value_of(same)
        if not step.variables.isdisjoint(earlier.variables) or any(name.startswith(CARRY) for name in step.variables):
            return None
        demand = replace(self.loop.demand, number=self.number, facts=self.around[0], devices=self.around[1])
        operand = self.loop.consts + self.number
        cases = [(start.facts, demand.integer(start.source, operand) + step * self.time) for start in self._start()]
        return integer_pieces(demand, cases)

    def _written_once(self, cases: list[Facts], earlier: Polynomial) -> list[MapPiece] | None:
        """What the one step wrote that writes a place, and the start elsewhere."""
        space, facts = self.space, self.around[0]
        solved: list[tuple[Facts, Polynomial]] = []
        for case in cases:
            solution = solve(space, digits_of(space, [earlier]), case, facts)
            if solution is None:
                return None
            writer = earlier.substitute(solution[1])
            left = space.simplified((*solution[0], below(writer, self.time)))
            if left is not None and not space.contradicts((*facts, *left)):
                solved.append((left, writer))
        for place, (first, _) in enumerate(solved):
            if any(not space.contradicts((*facts, *first, *second)) for second, _ in solved[:place]):
                return None
        pieces: list[MapPiece] = []
        elsewhere: list[Facts] = [()]
        for own, writer in solved:
            pieces += self._step(writer, own, untouched=True)
            elsewhere = [(*kept, *more) for kept in elsewhere for more in complement(own)]
        return pieces + [piece for kept in elsewhere for piece in self._start(kept)]


def as_result(loop: Loop, carried: Carried) -> WholeResult:
    """A carried value as the result of its loop: of how its carries start, and of what a step makes of them.

    Args:
        loop: of the value.
        carried: the value.
    """
    space, devices = loop.demand.space, dict(carried.devices)
    unknowns = _Unknowns(_depth_around(loop, (carried.time, *carried.index), devices), [carried.number])
    turn = _turn(loop, unknowns.depth)
    promised = dict(loop.demand.evaluator.promised)
    operands: list[Whole] = []
    for number in unknowns.order:  # it grows while carries are met
        shape = loop.start_shape(number)
        spots = tuple(space.index(f"{SPOT} {unknowns.depth}.{axis} below {n}", n) for axis, n in enumerate(shape))
        operands.append(Whole(shape, spots, tuple(loop.start(number, spots, (), devices))))
        after = loop.step_with(unknowns.carries(loop, turn), turn, number)(spots, (), devices)
        operands.append(Whole((loop.length, *shape), (turn, *spots), tuple(after)))
    # Nothing can be promised of unknown arrays; equal loops are equal formulas, of which no bits are promised.
    loop.demand.evaluator.promised.clear()
    loop.demand.evaluator.promised.update(promised)
    return WholeResult("carried by a loop", (carried.time, *carried.index), tuple(operands))


@contextmanager
def _unrecorded(demand: Demand) -> Iterator[None]:
    """What is assumed and promised of unknown carries is asked again of the known ones."""
    evaluator = demand.evaluator
    assumed, promised = dict(evaluator.assumed), dict(evaluator.promised)
    try:
        yield
    finally:
        evaluator.assumed.clear()
        evaluator.assumed.update(assumed)
        evaluator.promised.clear()
        evaluator.promised.update(promised)


def _is(space: Space, source: Source, element: Element) -> bool:
    return source == element or source == Integer(space.value_of(element))


def _added_to(source: Source, same: Element) -> tuple[Source, ...]:
    """What is added to an element; the source itself where that is not such a sum."""
    if isinstance(source, Term) and source.operation.startswith("add") and same in source.operands:
        rest = list(source.operands)
        rest.remove(same)
        return tuple(rest)
    return (source,)


def _turn(loop: Loop, depth: int) -> Polynomial:
    """Any step of a loop."""
    return loop.demand.space.index(f"{TURN} {depth} below {loop.length}", loop.length)


def _depth_around(loop: Loop, polynomials: Iterable[Polynomial], devices: Devices) -> int:
    names = [name for p in (*polynomials, *devices.values()) for name in p.variables]
    return max(depth_of_loops(loop.demand.space, names), int(loop.demand.frame.depth))
