"""`scan` with a symbolic number of iterations: its carries by induction, or as results that equal loops share.

What a carry holds before an iteration is found where each iteration leaves a place as it was, or writes it in one
iteration alone, or adds a number to it. Any other carry is the result of the loop: the same where it starts as the
same, and an iteration makes the same of the same carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.demand import Demand, Devices, Index, Origin
from samebits.interpret.all_sizes.facts import Element, Facts, Integer, MapPiece, Source, Term, Whole, WholeResult
from samebits.interpret.all_sizes.facts import at_least, below, complement, variables_in
from samebits.interpret.all_sizes.integers import integer_pieces
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.solving import digits_of, solve
from samebits.interpret.all_sizes.space import Space
from samebits.interpret.all_sizes.terms import names_in

_TURN, _SPOT, _CARRY = "turn", "spot", "carry"
_DEPTH = re.compile(rf"\b(?:{_TURN}|{_SPOT}|{_CARRY}) (\d+)")


@dataclass(eq=False)
class Unknowns:
    """The carries that an iteration is looked at with: unknown arrays, numbered as they are met.

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
        return Element(f"{_CARRY} {self.depth}.{self.order.index(number)}", index)


@dataclass(frozen=True, eq=False)
class _Row(Origin):
    """An operand of an iteration: a row of what is scanned."""

    loop: Loop
    operand: int
    turn: Polynomial

    def at(self, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        demand = replace(self.loop.demand, facts=facts, devices=devices)
        return demand.operand(self.operand, (self.loop.position(self.turn), *index))


@dataclass(frozen=True, eq=False)
class _Carry(Origin):
    """An operand of an iteration: what the iterations before it made."""

    loop: Loop
    number: int
    turn: Polynomial
    unknowns: Unknowns | None
    untouched: tuple[int, Index] | None = None

    def at(self, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        loop = replace(self.loop, demand=replace(self.loop.demand, facts=facts, devices=devices))
        if self.untouched == (self.number, index):
            return loop.start(self.number, index)
        known = loop.by_induction(self.number, self.turn, index)
        if known is not None:
            return known
        if self.unknowns is not None:
            return [MapPiece((), self.unknowns.element(self.number, index))]
        return [MapPiece((), loop.result(self.number, self.turn, index))]


@dataclass(frozen=True, eq=False)
class Loop:
    """The loop of an equation.

    Args:
        demand: a place of its outputs; its facts hold.
    """

    demand: Demand

    @property
    def space(self) -> Space:
        """Sizes and indices."""
        return self.demand.space

    @property
    def length(self) -> Polynomial:
        """The number of iterations."""
        return self.space.size(self.demand.params["length"])

    def position(self, turn: Polynomial) -> Polynomial:
        """The row that an iteration reads and writes, and the other way round."""
        return self.length - 1 - turn if self.demand.params["reverse"] else turn

    def iteration(
        self,
        output: int,
        turn: Polynomial,
        index: Index,
        unknowns: Unknowns | None = None,
        untouched: tuple[int, Index] | None = None,
    ) -> list[MapPiece]:
        """What an iteration makes at a place of an output of its program.

        Args:
            output: which.
            turn: which iteration.
            index: the place.
            unknowns: the unknown carries that it begins with; those that it has by default.
            untouched: a carry and a place of it that no earlier iteration has written.
        """
        params = self.demand.params
        first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
        origins: dict[int, Origin] = {n: _Carry(self, n - first, turn, unknowns, untouched) for n in range(first, last)}
        origins |= {n: _Row(self, n, turn) for n in range(last, self.demand.count)}
        depth = _depth(self.space, turn.variables)
        return self.demand.evaluator.inside(
            self.demand, params["jaxpr"], (origins, (turn, unknowns, untouched), depth), output, index
        )

    def start(self, number: int, index: Index, facts: Facts = ()) -> list[MapPiece]:
        """What a carry holds before the first iteration."""
        return self.demand.operand(self.demand.params["num_consts"] + number, index, facts)

    def carried(self, number: int, turn: Polynomial, index: Index) -> list[MapPiece]:
        """What a carry holds before an iteration, or after the last."""
        return _Carry(self, number, turn, None).at(index, self.demand.facts, self.demand.devices)

    def _fresh(self, *polynomials: Polynomial) -> Unknowns:
        names = [name for p in (*polynomials, *self.demand.devices.values()) for name in p.variables]
        return Unknowns(max(_depth(self.space, names), self.demand.evaluator.depth(self.demand.frame)))

    def by_induction(self, number: int, turn: Polynomial, index: Index) -> list[MapPiece] | None:
        """What a carry holds before an iteration, where iterations keep, write once, or count; None elsewhere."""
        if turn.constant == 0:
            return self.start(number, index)
        with self.demand.evaluator.attempt(self.demand, number) as free:
            if not free:
                return None
            unknowns = self._fresh(turn, *index)
            unknowns.order.append(number)
            earlier = self.space.index(f"{_TURN} {unknowns.depth} below {self.length}", self.length)
            before = below(earlier, turn)
            inner = replace(self, demand=self.demand.at((before,)))
            with _unrecorded(self.demand):
                try:
                    pieces = inner.iteration(number, earlier, index, unknowns)
                except NotCovered:
                    pieces = []
            known = self._solved(number, turn, index, pieces, (earlier, unknowns)) if pieces else None
            if known is None:
                self.demand.evaluator.attempts_failed(self.demand, number)
            return known

    def _solved(
        self,
        number: int,
        turn: Polynomial,
        index: Index,
        pieces: list[MapPiece],
        looked_at: tuple[Polynomial, Unknowns],
    ) -> list[MapPiece] | None:
        earlier, unknowns = looked_at
        same = unknowns.element(number, index)
        written = [piece for piece in pieces if not _is(self.space, piece.source, same)]
        if not written:
            return self.start(number, index)
        step = self._step(written, same) if len(pieces) == 1 else None
        if step is not None and step.variables.isdisjoint(earlier.variables):
            cases = [
                (piece.facts, self.demand.integer(piece.source, self.demand.params["num_consts"] + number) + step * turn)
                for piece in self.start(number, index)
            ]
            return integer_pieces(replace(self.demand, number=number), cases)
        rests = [(piece.facts, source) for piece in written for source in _added_to(piece.source, same)]
        if any(_mentions_carry(self.space, source, facts, unknowns.depth) for facts, source in rests):
            return None
        if len(written) == len(pieces) and all(piece.source == rest for piece, (_, rest) in zip(written, rests)):
            again = replace(self, demand=self.demand.at((at_least(turn, 1),)))
            last = again.iteration(number, turn - 1, index)
            pieces = [MapPiece((at_least(turn, 1), *piece.facts), piece.source) for piece in last]
            return [*pieces, *self.start(number, index, (below(turn, 1),))]
        return self._written_once(number, turn, index, [piece.facts for piece in written], earlier)

    def _step(self, written: list[MapPiece], same: Element) -> Polynomial | None:
        """What every iteration adds to a counter."""
        (piece,) = written
        if piece.facts or not isinstance(piece.source, Integer):
            return None
        step = piece.source.value - self.space.value_of(same)
        return None if any(name.startswith(_CARRY) for name in step.variables) else step

    def _written_once(
        self, number: int, turn: Polynomial, index: Index, cases: list[Facts], earlier: Polynomial
    ) -> list[MapPiece] | None:
        """What the one iteration wrote that writes a place, and the start elsewhere."""
        space, facts = self.space, self.demand.facts
        solved: list[tuple[Facts, Polynomial]] = []
        for case in cases:
            solution = solve(space, digits_of(space, [earlier]), case, facts)
            if solution is None:
                return None
            writer = earlier.substitute(solution[1])
            left = space.simplified((*solution[0], below(writer, turn)))
            if left is not None and not space.contradicts((*facts, *left)):
                solved.append((left, writer))
        for place, (first, _) in enumerate(solved):
            if any(not space.contradicts((*facts, *first, *second)) for second, _ in solved[:place]):
                return None
        pieces = []
        elsewhere: list[Facts] = [()]
        for own, writer in solved:
            loop = replace(self, demand=self.demand.at(own))
            made = loop.iteration(number, writer, index, untouched=(number, index))
            pieces += [MapPiece((*own, *piece.facts), piece.source) for piece in made]
            elsewhere = [(*kept, *more) for kept in elsewhere for more in complement(own)]
        return pieces + [piece for kept in elsewhere for piece in self.start(number, index, kept)]

    def result(self, number: int, turn: Polynomial, index: Index) -> Source:
        """A carry as the result of the loop: of how its carries start, and of what an iteration makes of them."""
        unknowns = self._fresh(turn, *index)
        unknowns.order.append(number)
        size = f"below {self.length}"
        any_turn = self.space.index(f"{_TURN} {unknowns.depth} {size}", self.length)
        loop = replace(self, demand=self.demand.alone())
        operands: list[Whole] = []
        for other in unknowns.order:  # it grows while carries are met
            shape = self.demand.shape(self.demand.params["num_consts"] + other)
            spots: Index = tuple(
                self.space.index(f"{_SPOT} {unknowns.depth}.{axis} below {n}", n) for axis, n in enumerate(shape)
            )
            operands.append(Whole(shape, spots, tuple(loop.start(other, spots))))
            made = loop.iteration(other, any_turn, spots, unknowns)
            operands.append(Whole((self.length, *shape), (any_turn, *spots), tuple(made)))
        dtype = self.demand.dtype(self.demand.params["num_consts"] + number).name
        return WholeResult(f"{_CARRY} of a loop: {dtype}", (turn, *index), tuple(operands))


def scan(demand: Demand) -> list[MapPiece]:
    """A place of a last carry, or of a row that an iteration makes."""
    loop = Loop(demand)
    if demand.number < demand.params["num_carry"]:
        return loop.carried(demand.number, loop.length, demand.index)
    return loop.iteration(demand.number, loop.position(demand.index[0]), demand.index[1:])


def cond(demand: Demand) -> list[MapPiece]:
    """A place of an output of the branch that is taken."""
    branches = demand.params["branches"]
    pieces = []
    for facts, which in demand.integers(0, ()):
        for number, branch in enumerate(branches):
            taken = [below(which, number + 1)] if number == 0 else [at_least(which, number)]
            if 0 < number < len(branches) - 1:
                taken.append(below(which, number + 1))
            own = demand.space.simplified((*facts, *taken))
            if own is None or demand.space.contradicts((*demand.facts, *own)):
                continue
            made = demand.evaluator.inside(
                demand.at(own), branch, ({}, (of(number), None), 0), demand.number, demand.index, skip=1
            )
            pieces += [MapPiece((*own, *piece.facts), piece.source) for piece in made]
    return pieces


def longest_scan(jaxpr: Any) -> int:
    """The most iterations of a loop in a program of concrete sizes, those of loops inside loops multiplied."""
    longest = 1
    for equation in jaxpr.eqns:
        inner = max((longest_scan(inner) for inner in jaxprs_in(equation.params.values())), default=1)
        longest = max(longest, inner * (equation.params["length"] if equation.primitive.name == "scan" else 1))
    return longest


@contextmanager
def _unrecorded(demand: Demand) -> Iterator[None]:
    """What is assumed and promised of unknown carries is asked again of the known ones."""
    evaluator = demand.evaluator
    assumed, promised = dict(evaluator.assumed), dict(evaluator.promised)
    try:
        yield
    finally:
        for record, before in ((evaluator.assumed, assumed), (evaluator.promised, promised)):
            record.clear()
            record.update(before)


def _depth(space: Space, names: Iterable[str]) -> int:
    """How many loops around the names are looked at with unknown carries."""
    texts = [text for name in names for text in (name, *space.inside.get(name, ()))]
    return max((int(number) + 1 for text in texts for number in _DEPTH.findall(text)), default=0)


def _is(space: Space, source: Source, element: Element) -> bool:
    return source == element or source == Integer(space.value_of(element))


def _added_to(source: Source, same: Element) -> tuple[Source, ...]:
    """What is added to an element; the source itself where that is no such sum."""
    if isinstance(source, Term) and source.operation.startswith("add") and same in source.operands:
        rest = list(source.operands)
        rest.remove(same)
        return tuple(rest)
    return (source,)


def _mentions_carry(space: Space, source: Source, facts: Facts, depth: int) -> bool:
    """Whether an unknown carry of a loop is in a source, or decides where it stands."""
    prefix = f"{_CARRY} {depth}."
    names = [*names_in(source), *variables_in(source), *(name for fact in facts for name in fact.polynomial.variables)]
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name.startswith(prefix):
            return True
        if name in seen:
            continue
        seen.add(name)
        if name in space.sources:
            todo += [*names_in(space.sources[name]), *variables_in(space.sources[name])]
        todo += space.inside.get(name, ())
    return False
