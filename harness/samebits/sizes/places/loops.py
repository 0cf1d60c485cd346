"""Scans: what a step gives at a symbolic time, what is carried there, by induction, and loops that are the same.

A carried value is found where each step leaves a place as it was, or writes it or adds to it in one step alone, or
adds a number to it. Two loops carry the same where they start with the same, and a step makes the same of the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import NotCovered
from samebits.interpret.equation import scan_sizes
from samebits.sizes.places.demand import Demand, Devices, Evaluator, Index, Place, names_in
from samebits.sizes.places.facts import (
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
    only_where,
    parts_of,
    variables_in,
)
from samebits.sizes.places.integers import integer_pieces
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.solving import are_apart, digits_of, elsewhere, solve
from samebits.sizes.places.space import Space

UNROLLED = 4
"""The most steps that are unrolled to say what is carried; after more it is a value of the scan."""

TURN, SPOT, CARRY = "turn", "spot", "carry"
_DEPTH = re.compile(rf"\b(?:{TURN}|{SPOT}|{CARRY}) (\d+)")


class Scan:
    """Holds a scan of a program."""

    def __init__(self, evaluator: Evaluator, demand: Demand) -> None:
        self._evaluator = evaluator
        self._frame = demand.frame
        self._equation = demand.equation
        params = demand.params
        self.length = demand.space.size(params["length"])
        self._closed, self._reverse = params["jaxpr"], bool(params["reverse"])
        self.consts, self.carries = scan_sizes(params)
        self.demand = demand
        self.not_induced: set[int] = set()
        self._frames: dict[Polynomial, Any] = {}
        self.name = f"scan {len(demand.space.scans)}"
        demand.space.scans[self.name] = self

    @property
    def _body(self) -> Any:
        return getattr(self._closed, "jaxpr", self._closed)

    def output(self, demand: Demand) -> list[MapPiece]:
        """Return what stands at a place of an output: carried to the end, or stacked over the steps."""
        number, index = demand.number, demand.index
        if number < self.carries:
            return self.carried(number, self.length, index, demand.facts, demand.devices)
        return self.step(number, self._turned(index[0]), index[1:], demand.facts, demand.devices)

    def _turned(self, place: Polynomial) -> Polynomial:
        return self.length - 1 - place if self._reverse else place

    def carried(self, number: int, time: Polynomial, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return what is carried at a place after so many steps."""
        body = self._body
        is_kept = body.outvars[number] is body.invars[self.consts + number]
        if time.constant == 0 or is_kept:
            return self.start(number, index, facts, devices)
        known = by_induction(self, number, time, index, (facts, devices))
        if known is not None:
            return known
        if time.constant is None or time.constant > UNROLLED:
            name = self.name if devices else self.demand.space.scans.name_of(self)
            return [MapPiece((), Carried(name, number, time, index, tuple(sorted(devices.items()))))]
        return self.step(number, time - 1, index, facts, devices)

    def start(self, number: int, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return what is carried before the first step."""
        return self._evaluator.value(self._frame, self._equation.invars[self.consts + number], index, facts, devices)

    def start_shape(self, number: int) -> Index:
        """Return the shape of a carried value."""
        return self.demand.shape(self.consts + number)

    def step_with(self, carry: Mapping[int, Place], time: Polynomial, output: int) -> Place:
        """Return what a step gives at places of an output of its body, where some carries are given."""
        frame = self._frame_of(time, carry)

        def at(index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
            return self._evaluator.value(frame, self._body.outvars[output], index, facts, devices)

        return at

    def step(self, number: int, time: Polynomial, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return what the step after so many others gives at a place of an output of its body."""
        return self._evaluator.value(self._frame_at(time), self._body.outvars[number], index, facts, devices)

    def _frame_at(self, time: Polynomial) -> Any:
        if time not in self._frames:
            self._frames[time] = self._frame_of(time, {})
        return self._frames[time]

    def _frame_of(self, time: Polynomial, carry: Mapping[int, Place]) -> Any:
        origins: dict[Any, Any] = {}
        for number, var in enumerate(self._body.invars):
            origins[var] = carry.get(number - self.consts) or self._input(number, time)
        depth = max(self._frame.depth, depth_of_loops(self.demand.space, time.variables))
        return self._evaluator.frame_of(self._closed, origins, depth)

    def _input(self, number: int, time: Polynomial) -> Place:
        atom, evaluator, frame = self._equation.invars[number], self._evaluator, self._frame
        if number < self.consts:
            return lambda index, facts, devices: evaluator.value(frame, atom, index, facts, devices)
        if number < self.consts + self.carries:
            return lambda index, facts, devices: self.carried(number - self.consts, time, index, facts, devices)
        place = self._turned(time)
        return lambda index, facts, devices: evaluator.value(frame, atom, (place, *index), facts, devices)


@dataclass(eq=False)
class _Unknowns:
    """Numbers carries as unknown arrays, as they are met; `depth` counts the loops around that are looked at so."""

    depth: int
    order: list[int] = field(default_factory=list)

    def element(self, number: int, index: Index) -> Element:
        """Return an element of a carry."""
        if number not in self.order:
            self.order.append(number)
        return Element(f"{CARRY} {self.depth}.{self.order.index(number)}", index)

    def carries(self, loop: Scan, time: Polynomial) -> dict[int, Place]:
        """Return all carries of a loop before a step: the known ones by induction."""

        def place(number: int) -> Place:
            def at(index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
                known = by_induction(loop, number, time, index, (facts, devices))
                return [MapPiece((), self.element(number, index))] if known is None else known

            return at

        return {number: place(number) for number in range(loop.carries)}


Around = tuple[Facts, Devices]


def by_induction(loop: Scan, number: int, time: Polynomial, index: Index, around: Around) -> list[MapPiece] | None:
    """Return what is carried at a place after so many steps, where steps keep it, write it once or count; else None."""
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
    loop: Scan
    number: int
    time: Polynomial
    index: Index
    around: Around

    @property
    def space(self) -> Space:
        return self.loop.demand.space

    def _start(self, facts: Facts = ()) -> list[MapPiece]:
        own = self.space.possible(facts, self.around[0])
        if own is None:
            return []
        return only_where(own, self.loop.start(self.number, self.index, (*self.around[0], *own), self.around[1]))

    def _step(self, time: Polynomial, facts: Facts, untouched: bool = False) -> list[MapPiece]:
        """Return what a step makes of carries that are found in turn."""
        own = self.space.possible(facts, self.around[0])
        if own is None:
            return []
        own_carry: dict[int, Place] = {self.number: self._untouched} if untouched else {}
        step = self.loop.step_with(own_carry, time, self.number)
        return only_where(own, step(self.index, (*self.around[0], *own), self.around[1]))

    def _untouched(self, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return the carry at the place, which no step before has written."""
        if index != self.index:
            raise NotCovered("a step that writes a place of what another place holds")
        return self.loop.start(self.number, index, facts, devices)

    def pieces(self) -> list[MapPiece] | None:
        """Return the carried value by cases."""
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
        """Return the value of a counter, to which every step adds the same number; None of anything else."""
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
        """Return what the one step wrote that writes a place, and the start elsewhere."""
        space, facts = self.space, self.around[0]
        solved: list[tuple[Facts, Polynomial]] = []
        for case in cases:
            solution = solve(space, digits_of(space, [earlier]), case, facts)
            if solution is None:
                return None
            writer = earlier.substitute(solution[1])
            left = space.possible((*solution[0], below(writer, self.time)), facts)
            if left is not None:
                solved.append((left, writer))
        written = [own for own, _ in solved]
        if not are_apart(space, written, facts):
            return None
        pieces = [piece for own, writer in solved for piece in self._step(writer, own, untouched=True)]
        return pieces + [piece for own in elsewhere(space, written, facts) for piece in self._start(own)]


def as_result(loop: Scan, carried: Carried) -> WholeResult:
    """Return a carried value as the result of its loop: of how its carries start, and of what a step makes of them."""
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
    """Put back what is assumed and promised of unknown carries: it is asked again of the known ones."""
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
    """Return what is added to an element; the source itself where that is not such a sum."""
    if isinstance(source, Term) and source.operation.startswith("add") and same in source.operands:
        rest = list(source.operands)
        rest.remove(same)
        return tuple(rest)
    return (source,)


def _turn(loop: Scan, depth: int) -> Polynomial:
    """Return any step of a loop."""
    return loop.demand.space.index(f"{TURN} {depth} below {loop.length}", loop.length)


def _depth_around(loop: Scan, polynomials: Iterable[Polynomial], devices: Devices) -> int:
    names = [name for p in (*polynomials, *devices.values()) for name in p.variables]
    return max(depth_of_loops(loop.demand.space, names), int(loop.demand.frame.depth))


def depth_of_loops(space: Space, names: Iterable[str]) -> int:
    """Return how many loops around the names are looked at with unknown carries."""
    texts = [text for name in names for text in (name, *space.inside.get(name, ()))]
    return max((int(number) + 1 for text in texts for number in _DEPTH.findall(text)), default=0)


def is_carried(source: Source) -> bool:
    """Tell whether a source is what a loop carries, known or unknown."""
    return isinstance(source, Carried) or (isinstance(source, Element) and source.name.startswith(f"{CARRY} "))


def mentions(space: Space, source: Source, facts: Facts, depth: int, whose: str) -> bool:
    """Tell whether an unknown carry of this depth decides where a source stands, or one named `whose...` is in it."""
    if any(_depends(space, part, depth) for part in parts_of(source)):
        return True
    deciding = [name for fact in facts for name in fact.polynomial.variables]
    return _named(space, [*names_in(source), *variables_in(source)], depth, whose) or _named(
        space, deciding, depth, f"{CARRY} {depth}."
    )


def _named(space: Space, names: Iterable[str], depth: int, whose: str) -> bool:
    """Tell whether names, or what they stand for, are of a carry whose name begins so."""
    begins = re.compile(rf"{re.escape(whose)}\b")
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if begins.match(name):
            return True
        if name not in seen and name in space.sources:
            inner = space.sources[name]
            if any(_depends(space, part, depth) for part in parts_of(inner)):
                return True
            todo += [*names_in(inner), *variables_in(inner)]
        seen.add(name)
    return False


def _depends(space: Space, source: Source, depth: int) -> bool:
    """Tell whether a source is carried by a loop inside the step that is looked at."""
    return isinstance(source, Carried) and space.scans[source.name].demand.frame.depth > depth
