"""What a scan carries, in closed form: a sum over its steps, where each step adds to a multiple of what was carried.

The multiple must be 1, or a quotient of exponentials of another carried value before and after the step, as in a
softmax with a running maximum: times the exponential, the carried value is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from samebits.sizes.formulas.formula import (
    Exponential,
    Formula,
    NoFormula,
    Opaque,
    Summand,
    atom,
    inner_formulas,
)
from samebits.sizes.formulas.ring import FormulaRing
from samebits.sizes.formulas.substitution import fresh
from samebits.sizes.places.facts import Carried, Facts, MapPiece, Source, below
from samebits.sizes.places.polynomial import of, variable

Read = Callable[[Source, Facts], Formula]
Equal = Callable[[Formula, Formula, Facts], bool]
Left = Callable[[Sequence[MapPiece]], Sequence[MapPiece]]


class Recurrences:
    """Closed forms of what scans carry.

    Args:
        ring: of the formulas.
        read: the formula of a source, where facts hold.
        equal: whether two formulas are one, where facts hold.
        left: the pieces of a step that are to be looked at.
    """

    def __init__(self, ring: FormulaRing, read: Read, equal: Equal, left: Left) -> None:
        self._ring, self._read, self._equal, self._left = ring, read, equal, left
        self._space = ring.space
        self.steps: set[str] = set()

    def closed(self, carried: Carried, facts: Facts) -> Formula:
        """What is carried, as a formula.

        Raises:
            NoFormula: the step has another form.
        """
        scan = self._space.scans[carried.name]
        step = fresh(self._space, scan.length)
        self.steps.add(step)
        time = variable(step)
        before = replace(carried, time=time)
        factor, added = self._linear(self._step(before, facts), before)
        start = self._start(carried, facts)
        if not self._equal(factor, Formula((Summand(),)), facts):
            largest, power = self._gauge(factor, before, facts)
            after = self._ring.scaled(self._step(largest, facts), power)
            self._check_gauge(factor, largest, power, after, facts)
            weight = self._ring.exponential(after)
            first = replace(largest, time=of(0))
            start = self._ring.multiply(start, self._weight_at_start(first, power, facts))
            last = atom(Opaque(replace(largest, time=carried.time)))
            total = self._summed(self._ring.multiply(added, weight), step, carried)
            falling = self._ring.exponential(self._ring.scaled(last, -power))
            return self._ring.multiply(falling, self._ring.add(start, total))
        return self._ring.add(start, self._summed(added, step, carried))

    def _summed(self, added: Formula, step: str, carried: Carried) -> Formula:
        """What the steps before a time add; nothing of it may be carried itself."""
        if any(isinstance(source, Carried) and source.name == carried.name for source in _opaque(added)):
            raise NoFormula("what a step adds depends on what is carried")
        scan = self._space.scans[carried.name]
        until: Facts = () if carried.time == scan.length else (below(variable(step), carried.time),)
        return self._ring.summed((step,), until, added)

    def _step(self, before: Carried, facts: Facts) -> Formula:
        """What is carried after the step that follows a time."""
        scan = self._space.scans[before.name]
        return self._single(scan.step(before.number, before.time, before.index, facts, dict(before.devices)), facts)

    def _start(self, carried: Carried, facts: Facts) -> Formula:
        scan = self._space.scans[carried.name]
        return self._single(scan.carried(carried.number, of(0), carried.index, facts, dict(carried.devices)), facts)

    def _single(self, pieces: list[MapPiece], facts: Facts) -> Formula:
        formulas = [self._read(piece.source, (*facts, *piece.facts)) for piece in self._left(pieces)]
        if not formulas or any(formula != formulas[0] for formula in formulas):
            raise NoFormula("a step by cases")
        return formulas[0]

    def _linear(self, step: Formula, before: Carried) -> tuple[Formula, Formula]:
        """`(a, b)` where a step is `a` times what was carried, and `b`."""
        own = Opaque(before)
        factors, rest = [], []
        for summand in step.summands:
            powers = dict(summand.powers)
            if powers.pop(own, Fraction(0)) == 1 and not summand.bound and not summand.facts:
                factors.append(Summand(summand.factor, summand.number, tuple(powers.items())))
            else:
                rest.append(summand)
        factor, added = Formula(tuple(factors)), Formula(tuple(rest))
        for part in (factor, added):
            if any(
                isinstance(s, Carried) and (s.name, s.number) == (before.name, before.number) for s in _opaque(part)
            ):
                raise NoFormula("a step that is not linear in what is carried")
        return factor, added

    def _gauge(self, factor: Formula, before: Carried, facts: Facts) -> tuple[Carried, Fraction]:
        """The other carried value of whose exponential the factor is a quotient, and the power."""
        for summand in factor.summands:
            for value, power in summand.powers:
                if isinstance(value, Exponential):
                    for source in _opaque(value.exponent):
                        if (
                            isinstance(source, Carried)
                            and source.name == before.name
                            and source.time == before.time
                            and value.exponent == atom(Opaque(source))
                        ):
                            return source, power
        raise NoFormula("a factor of which no sum is known")

    def _check_gauge(self, factor: Formula, largest: Carried, power: Fraction, after: Formula, facts: Facts) -> None:
        now = self._ring.exponential(self._ring.scaled(atom(Opaque(largest)), power))
        then = self._ring.exponential(self._ring.scaled(after, -1))
        if not self._equal(factor, self._ring.multiply(now, then), facts):
            raise NoFormula("a factor of which no sum is known")

    def _weight_at_start(self, first: Carried, power: Fraction, facts: Facts) -> Formula:
        return self._ring.exponential(self._ring.scaled(self._start(first, facts), power))


def _opaque(formula: Formula) -> list[Source]:
    """The sources in a formula that are not looked into."""
    total: list[Source] = []
    for summand in formula.summands:
        for value, _ in summand.powers:
            if isinstance(value, Opaque):
                total.append(value.source)
            for inner in inner_formulas(value):
                total += _opaque(inner)
    return total
