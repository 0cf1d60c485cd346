"""Programs as formulas, by the laws of operations; casts between floats count as nothing, as over finite fields."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

import ml_dtypes
import numpy as np

from samebits.interpret.literals import SurdLiteral, standing
from samebits.numerics import floats
from samebits.sizes.formulas.formula import (
    INFINITY,
    ZERO,
    Exponential,
    Formula,
    NoFormula,
    Opaque,
    Substitution,
    Summand,
    atom,
    free_names,
    fresh,
    inner_formulas,
    number,
    polynomial,
    reached,
)
from samebits.sizes.formulas.ring import FormulaRing, logarithm
from samebits.sizes.formulas.signs import possible
from samebits.sizes.formulas.summands import simplified
from samebits.sizes.formulas.vanishing import Same, Vanishing
from samebits.sizes.places.demand import WIDER
from samebits.sizes.places.facts import (
    Carried,
    Element,
    Fact,
    Facts,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    below,
    equal,
    variables_in,
)
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.reductions import depth_of
from samebits.sizes.places.space import Space

# Decide a <= b when b - a is a sum of squares or a variance.
FormulaOf = Callable[[Source, Facts], Formula]
Equal = Callable[[Formula, Formula, Facts], bool]


class Variances:
    """Shows that differences of numbers are squares or variances."""

    def __init__(self, ring: FormulaRing, formula: FormulaOf, equal: Equal) -> None:
        self._ring = ring
        self._formula = formula
        self._equal = equal

    def larger(self, operands: tuple[Source, ...], facts: Facts) -> int | None:
        """Return which of two numbers (0 or 1) is at least the other at all places; None where that is not shown."""
        first, second = (self._formula(operand, facts) for operand in operands)
        if first.infinite or second.infinite:
            return None
        for larger, difference in enumerate((self._ring.subtract(first, second), self._ring.subtract(second, first))):
            if self._ring.is_positive(difference) or any(
                self._equal(difference, spread, facts)
                for operand in operands
                for spread in self._spreads(operand, facts)
            ):
                return larger
        return None

    def _spreads(self, source: Source, facts: Facts) -> Iterator[Formula]:
        """Yield the variances of what sums of squares are of, and these times their counts: they are never negative."""
        for squares in sums_of_squares(source):
            places = of(1)
            for name in squares.bound:
                places = places * self._ring.space.ranges[name]
            try:
                mean = self._ring.power(polynomial(places), Fraction(-1))
                total = self._formula(replace(squares, pieces=_roots(squares)), facts)
                of_mean = self._ring.multiply(self._ring.multiply(total, total), mean)
                spread = self._ring.subtract(self._formula(squares, facts), of_mean)
                for factor in (mean, number(1)):
                    yield self._ring.multiply(spread, factor)
            except NoFormula:  # noqa: S112  an infinity, or too many products
                continue


def sums_of_squares(source: Source) -> Iterator[Reduction]:
    """Yield the sums of squares that a source is computed of, without those inside of other sums."""
    if isinstance(source, Reduction):
        if source.kind == "sum" and len(_roots(source)) == len(source.pieces):
            yield source
    elif isinstance(source, Term):
        for operand in source.operands:
            yield from sums_of_squares(operand)


def _roots(total: Reduction) -> tuple[MapPiece, ...]:
    """Return the pieces of a sum that are squares, each with what it is the square of."""
    roots = ((piece.facts, _root(piece.source)) for piece in total.pieces)
    return tuple(MapPiece(facts, root) for facts, root in roots if root is not None)


def _root(source: Source) -> Source | None:
    """Return what a source is the square of; 0 of 0, None of any other."""
    if isinstance(source, Number):
        return source if source.text in ("0.0", "-0.0") else None
    if not isinstance(source, Term):
        return None
    name = source.operation.partition("[")[0]
    if name == "square" or source.operation.startswith("integer_pow[y=2]"):
        return source.operands[0]
    if name == "mul" and source.operands[0] == source.operands[1]:
        return source.operands[0]
    return None


# Comparisons of floats that both programs compute: over the reals, equal numbers give equal answers.
ALIKE = "no two computed numbers that are compared are closer than what rounding changes"

_COMPARISONS = frozenset({"eq", "ge", "gt", "is_finite", "le", "lt", "ne"})

_ORDERS = frozenset({"ge", "gt", "le", "lt"})


def equal_answers(
    space: Space, facts: Facts, sources: Iterable[Source], same: Callable[[Source, Source], bool]
) -> Facts:
    """Return equations between answers of comparisons whose operands are the same numbers, by `same`."""
    names = {name for fact in facts for name in fact.polynomial.variables}
    names |= {name for source in sources for name in variables_in(source)}
    by_operation: dict[str, list[tuple[str, Term]]] = {}
    for name in sorted(reached(space, names)):
        source = space.sources.get(name)
        if isinstance(source, Term) and source.operation.partition("[")[0] in _COMPARISONS and _is_free(space, name):
            by_operation.setdefault(source.operation, []).append((name, source))
    known: dict[str, None] = {}
    equations: list[Facts] = []
    for alike in by_operation.values():
        for (name, first), (other, second) in itertools.combinations(alike, 2):
            if other not in known and all(map(same, first.operands, second.operands)):
                known[other] = None
                equations.append((equal(variable(name), variable(other)),))
    return tuple(fact for own in equations for fact in own)


def compared(space: Space, facts: Facts, extreme: Term) -> int | None:
    """Return the operand that the larger or smaller of two numbers is, where facts say how they compare; else None."""
    is_max = extreme.operation.startswith("max")
    for fact in facts:
        names = fact.polynomial.variables
        source = space.sources.get(next(iter(names))) if len(names) == 1 else None
        if not isinstance(source, Term) or source.operation.partition("[")[0] not in _ORDERS:
            continue
        answers = [answer for answer in (0, 1) if _allows(fact, answer)]
        orders = [source.operands == extreme.operands, source.operands == extreme.operands[::-1]]
        if len(answers) == 1 and any(orders):
            # 0 where the first operand of the comparison is the larger one; where both are equal, either is right.
            larger = 1 - answers[0] if source.operation.startswith("g") else answers[0]
            chosen = larger if is_max else 1 - larger
            return chosen if orders[0] else 1 - chosen
    return None


def _allows(fact: Fact, answer: int) -> bool:
    (name,) = fact.polynomial.variables
    value = fact.polynomial.value({name: answer})
    return value >= 0 if fact.kind == "not_negative" else value == 0


def _is_free(space: Space, name: str) -> bool:
    """Tell whether an answer depends on no bound index, of which the other program has another name."""
    return all(depth_of(other) < 0 for other in reached(space, (name,)))


# The numbers of float constants: as they are, or the simple ones that they were rounded from.
STANDING = "float constants stand for the numbers whose roundings they are, as 0.9 in float32 does for 9/10"
"""What is assumed where formulas are not equal with the constants as they are."""


def stands_for(source: Number) -> SurdLiteral | None:
    """Return the other number that a float constant stands for (`literals`); None where it is itself."""
    if not source.dtype.startswith(("float", "bfloat")) or not math.isfinite(value := float(source.text)):
        return None
    literal = standing(value, source.dtype)
    return None if literal == SurdLiteral(Fraction(value)) else literal


def constant(source: Number) -> Formula:
    """Return a constant as the number that it is.

    Raises:
        NoFormula: it is NaN.
    """
    if source.text in ("inf", "-inf"):
        return Formula((Summand(Fraction(1 if source.text == "inf" else -1), powers=INFINITY),))
    try:
        return number(
            Fraction(float(source.text))
        )  # its value: the text is only as long as distinguishes it from its neighbours
    except ValueError:
        raise NoFormula(f"the constant {source.text}") from None


# Comparisons with infinity: they are assumed to say that a computed number is finite, which is then a condition.
FINITE = "no computed number that is compared with infinity is infinite"


def without_infinities(space: Space, pieces: Iterable[MapPiece], note: Callable[[str], None]) -> list[MapPiece]:
    """Return the pieces for finite numbers, without the facts that say so."""
    kept = []
    for piece in pieces:
        if says_infinite(space, piece.facts):
            note(FINITE)
            continue
        facts = tuple(fact for fact in piece.facts if _compared(space, fact) is None)
        kept.append(MapPiece(facts, piece.source))
    return kept


def says_infinite(space: Space, facts: Facts) -> bool:
    """Tell whether facts say that a computed number is infinite."""
    return any(_compared(space, fact) for fact in facts)


def _compared(space: Space, fact: Fact) -> bool | None:
    """Tell whether a fact says that a computed number is infinite; None where it compares none with infinity."""
    if fact.kind != "zero" or len(fact.polynomial.variables) != 1:
        return None
    (name,) = fact.polynomial.variables
    source = space.sources.get(name)
    if not isinstance(source, Term):
        return None
    name_of_operation = source.operation.partition("[")[0]
    is_true = fact.polynomial in (variable(name) - 1, 1 - variable(name))
    if name_of_operation == "is_finite":
        return not is_true if isinstance(source.operands[0], Term) else None
    if name_of_operation not in ("eq", "ne"):
        return None
    kinds = [isinstance(operand, Number) and operand.text in ("inf", "-inf") for operand in source.operands]
    if sum(kinds) != 1 or not all(kinds[n] or isinstance(operand, Term) for n, operand in enumerate(source.operands)):
        return None
    return is_true == (name_of_operation == "eq")


# What a scan carries, in closed form: a sum over its steps, where each step adds to a multiple of what was carried.
Read = Callable[[Source, Facts], Formula]
Left = Callable[[Sequence[MapPiece]], Sequence[MapPiece]]


class Recurrences:
    """Finds closed forms of what scans carry; `left` chooses the pieces of a step that are looked at."""

    def __init__(self, ring: FormulaRing, read: Read, equal: Equal, left: Left) -> None:
        self._ring, self._read, self._equal, self._left = ring, read, equal, left
        self._space = ring.space
        self.steps: set[str] = set()

    def closed(self, carried: Carried, facts: Facts) -> Formula:
        """Return what is carried, as a formula.

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
            rising = self._ring.exponential(self._ring.scaled(self._start(first, facts), power))
            start = self._ring.multiply(start, rising)
            last = atom(Opaque(replace(largest, time=carried.time)))
            total = self._summed(self._ring.multiply(added, weight), step, carried)
            falling = self._ring.exponential(self._ring.scaled(last, -power))
            return self._ring.multiply(falling, self._ring.add(start, total))
        return self._ring.add(start, self._summed(added, step, carried))

    def _summed(self, added: Formula, step: str, carried: Carried) -> Formula:
        """Return what the steps before a time add; nothing of it may be carried itself."""
        if any(isinstance(source, Carried) and source.name == carried.name for source in _opaque(added)):
            raise NoFormula("what a step adds depends on what is carried")
        scan = self._space.scans[carried.name]
        until: Facts = () if carried.time == scan.length else (below(variable(step), carried.time),)
        return self._ring.summed((step,), until, added)

    def _step(self, before: Carried, facts: Facts) -> Formula:
        """Return what is carried after the step that follows a time."""
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
        """Return `(a, b)` where a step is `a` times what was carried, and `b`."""
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
        """Return the other carried value of whose exponential the factor is a quotient, and the power."""
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


def _opaque(formula: Formula) -> list[Source]:
    """Return the sources in a formula that are not looked into."""
    total: list[Source] = []
    for summand in formula.summands:
        for value, _ in summand.powers:
            if isinstance(value, Opaque):
                total.append(value.source)
            for inner in inner_formulas(value):
                total += _opaque(inner)
    return total


_FLOAT = re.compile(r"(bfloat|float)\d")
_HALF = Fraction(1, 2)
COUNTING = "iota:"

COUNTED = frozenset({"int32", "int64", "uint32", "uint64"})
"""The dtypes of sums of integers that are taken for exact when they become floats; narrower ones soon are not."""

_LONG = 24  # binary digits, which hold the sizes of arrays

EXACT = "no sum of integers that becomes a float is too large for its dtype"
"""What is assumed there."""


def _parameter(operation: str, name: str) -> Fraction:
    value = re.search(rf"\b{name}=(-?[\d.e+-]+)", operation)
    if value is None:
        raise NoFormula(f"{operation} without {name}")
    return Fraction(value[1])


Law = Callable[[FormulaRing, str, list[Formula]], Formula]


def _pow(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    base, exponent = operands
    for value in (exponent.summands[0] if exponent.summands else Summand(Fraction(0)),):
        if len(exponent.summands) <= 1 and value == Summand(value.factor) and value.factor.denominator <= 2:
            return ring.power(base, value.factor)
    return ring.function("pow", base, exponent)


def _larger(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    kind = operation.partition("[")[0]
    losing = -1 if kind == "max" else 1
    for first, second in (operands, operands[::-1]):
        if first.infinite and first.summands[0].factor * losing > 0:
            return second
    return ring.function(kind, *sorted(operands, key=str))


def _logistic(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    falling = ring.exponential(ring.scaled(operands[0], -1))
    return ring.power(ring.add(number(1), falling), Fraction(-1))


def _error_function(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    """Return the error function, which is odd: of a negative first factor, the opposite of that of the opposite."""
    (only,) = operands
    if only.summands and min(only.summands, key=str).factor < 0 and not only.infinite:
        return ring.scaled(ring.function("erf", ring.scaled(only, -1)), -1)
    return ring.function("erf", only)


def _hyperbolic_tangent(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    of_twice = _logistic(ring, operation, [ring.scaled(operands[0], 2)])
    return ring.subtract(ring.scaled(of_twice, 2), number(1))


def _absolute(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    (only,) = operands
    return only if ring.is_positive(only) else ring.function("abs", only)


LAWS: dict[str, Law] = {
    "abs": _absolute,
    "add": lambda ring, _, x: ring.add(*x),
    "add_any": lambda ring, _, x: ring.add(*x),
    "div": lambda ring, _, x: ring.multiply(x[0], ring.power(x[1], Fraction(-1))),
    "erf": _error_function,
    "erfc": lambda ring, text, x: ring.subtract(number(1), _error_function(ring, text, x)),
    "exp": lambda ring, _, x: ring.exponential(x[0]),
    "expm1": lambda ring, operation, operands: ring.subtract(ring.exponential(operands[0]), number(1)),
    "integer_pow": lambda ring, text, x: ring.power(x[0], _parameter(text, "y")),
    "log": lambda ring, _, x: logarithm(ring, x[0]),
    "log1p": lambda ring, _, x: logarithm(ring, ring.add(number(1), x[0])),
    "logistic": _logistic,
    "max": _larger,
    "min": _larger,
    "mul": lambda ring, _, x: ring.multiply(*x),
    "neg": lambda ring, _, x: ring.scaled(x[0], -1),
    "one_minus_square": lambda ring, _, x: ring.subtract(number(1), ring.power(x[0], Fraction(2))),
    "pow": _pow,
    "reduce_precision": lambda ring, _, x: x[0],
    # Of what stood at the place, and the sum of its updates.
    **dict.fromkeys(("scatter-add", "scatter_add"), lambda ring, _, x: ring.add(*x)),
    "rsqrt": lambda ring, _, x: ring.power(x[0], -_HALF),
    "sqrt": lambda ring, _, x: ring.power(x[0], _HALF),
    "square": lambda ring, _, x: ring.power(x[0], Fraction(2)),
    "sub": lambda ring, _, x: ring.subtract(*x),
    "tanh": _hyperbolic_tangent,
}
"""The operations of which laws are used; any other is a function of which none is known."""


class NormalForms:
    """Makes formulas of sources, where facts hold.

    Args:
        space, same: sizes and indices; whether two sources are one, by their structure.
        finite: whether comparisons with infinity are assumed to say that computed numbers are finite.
        unfolded: whether `tanh` is the quotient of exponentials that it is, and no function of its own.
        standing: whether constants are the numbers that they stand for (`literals`).
    """

    def __init__(
        self, space: Space, same: Same, finite: bool = False, unfolded: bool = False, standing: bool = False
    ) -> None:
        self._space = space
        self.finite = finite
        self._unfolded, self._standing = unfolded, standing
        self.ring = FormulaRing(space)
        self.notes: dict[str, None] = {}
        self.over_reals = False
        self.vanishing = Vanishing(self.ring, same)
        self._variances = Variances(self.ring, self.formula, self.vanishing.equal)
        self._recurrences = Recurrences(self.ring, self.formula, self.vanishing.equal, self.left)
        self._known: dict[tuple[Source, Facts], Formula] = {}

    def formula(self, source: Source, facts: Facts) -> Formula:
        """Return the formula of a source, where facts hold.

        Raises:
            NoFormula: it is NaN, or infinite in a way of which nothing is known.
        """
        key = source, facts
        if key not in self._known:
            self._known[key] = self._of(source, facts)
        return self._known[key]

    def left(self, pieces: Sequence[MapPiece]) -> Sequence[MapPiece]:
        """Return the pieces that stand where numbers have their signs, and are finite if that is assumed."""
        kept = possible(self._space, pieces)
        self.over_reals = self.over_reals or kept != list(pieces)
        pieces = kept
        return without_infinities(self._space, pieces, self.note) if self.finite else pieces

    def note(self, text: str) -> None:
        """Take an assumption down."""
        self.notes[text] = None

    def _stood_for(self, source: Number) -> Formula:
        literal = stands_for(source)
        if literal is None:
            return constant(source)
        self.note(STANDING)
        return self.ring.scaled(self.ring.power(number(literal.radicand), _HALF), literal.rational)

    def _carried(self, source: Carried, facts: Facts) -> Formula:
        if source.time.variables & self._recurrences.steps:
            return atom(Opaque(source))
        try:
            return self._recurrences.closed(source, facts)
        except NoFormula:
            return atom(Opaque(source))

    def _of(self, source: Source, facts: Facts) -> Formula:
        match source:
            case Number():
                return self._stood_for(source) if self._standing else constant(source)
            case Integer(value=value):
                return polynomial(value)
            case Element():
                return atom(source)
            case Carried():
                return self._carried(source, facts)
            case Reduction():
                return self._reduction(source, facts, self.formula)
            case Term():
                return self._term(source, facts)
        return atom(Opaque(source))

    def _reduction(self, source: Reduction, facts: Facts, of: Callable[[Source, Facts], Formula]) -> Formula:
        if set(source.bound) & free_names(self._space, facts):
            # An index of the same name is bound around it.
            names = {name: variable(fresh(self._space, self._space.ranges[name])) for name in source.bound}
            inner = Substitution(self._space, names)
            bound = tuple(name for p in names.values() for name in p.variables)
            renamed = tuple(MapPiece(inner.facts(piece.facts), inner.source(piece.source)) for piece in source.pieces)
            source = Reduction(source.kind, source.dtype, bound, renamed)
        pieces = self.left(source.pieces)
        parts = [(piece.facts, of(piece.source, (*facts, *piece.facts))) for piece in pieces]
        if source.kind == "sum":
            if any(formula.infinite for _, formula in parts):
                raise NoFormula("a sum with infinity")
            total = self.ring.add(*(self.ring.summed(source.bound, own, formula) for own, formula in parts))
            return simplified(self._space, total, facts)
        losing = -1 if source.kind == "max" else 1
        kept = [(own, f) for own, f in parts if not (f.infinite and f.summands[0].factor * losing > 0)]
        if not kept:
            return Formula((Summand(Fraction(losing), powers=INFINITY),))
        if any(formula.infinite for _, formula in kept):
            raise NoFormula("the largest of infinity")
        return self.ring.extreme(source.kind, source.bound, kept)

    def _term(self, source: Term, facts: Facts) -> Formula:
        name, dtype = operation_of(source)
        if name == "cast":
            return self._cast(source, facts)
        if not _FLOAT.match(dtype):
            return atom(Opaque(source))
        if name.startswith(COUNTING) and isinstance(source.operands[0], Integer):
            return self._whole(source.operands[0].value, dtype)
        operands = [self.formula(operand, facts) for operand in source.operands]
        if name in ("max", "min"):
            chosen = compared(self._space, facts, source)
            if chosen is None and (larger := self._variances.larger(source.operands, facts)) is not None:
                chosen = larger if name == "max" else 1 - larger
            if chosen is not None:
                self.over_reals = True
                return operands[chosen]
        law = None if name == "tanh" and not self._unfolded else LAWS.get(name)
        if law is not None:
            return law(self.ring, source.operation, operands)
        return self.ring.function(source.operation.rpartition(":")[0], *operands)

    def _whole(self, value: Polynomial, dtype: str) -> Formula:
        """Return an index or a size as a float, which a narrow one holds up to some size."""
        digits = floats.digits(np.dtype(getattr(ml_dtypes, dtype, dtype)))
        if value.constant is None and digits < _LONG:
            self.note(f"no index or size that becomes a {dtype} is above {2**digits}")
        return polynomial(value)

    def _cast(self, source: Term, facts: Facts) -> Formula:
        before, after = cast_of(source)
        (operand,) = source.operands
        if not _FLOAT.match(after):
            return atom(Opaque(source))
        if _FLOAT.match(before):
            if isinstance(operand, Term) and operand.operands and isinstance(operand.operands[0], Integer):
                self._whole(operand.operands[0].value, after)
            return self.formula(operand, facts)
        if isinstance(operand, Integer):
            self._whole(operand.value, after)
        dtype = ""
        if isinstance(operand, Reduction) and operand.kind == "sum" and operand.dtype in COUNTED:
            dtype = operand.dtype
            self.note(EXACT)
        return self.integer(operand, facts, dtype)

    def integer(self, source: Source, facts: Facts, dtype: str) -> Formula:
        """Return an integer as a formula of others, modulo the range of a dtype.

        Sums of this dtype are followed; those of another one wrap around elsewhere, and are unknown numbers.
        """
        if isinstance(source, Integer):
            return self._expanded(source.value, facts, dtype)
        if is_sum(source, dtype):
            return self._reduction(source, facts, lambda inner, known: self.integer(inner, known, dtype))
        return polynomial(self._space.value_of(source))

    def _expanded(self, value: Polynomial, facts: Facts, dtype: str) -> Formula:
        """Return a polynomial with the sums that its variables are."""
        sums = {name: source for name in value.variables if is_sum(source := self._space.sources.get(name), dtype)}
        if not sums:
            return polynomial(value)
        total = ZERO
        for monomial, factor in value.terms:
            product = polynomial(of(factor))
            for name in monomial:
                known = self.integer(sums[name], facts, dtype) if name in sums else polynomial(variable(name))
                product = self.ring.multiply(product, known)
            total = self.ring.add(total, product)
        return total


def is_sum(source: Source | None, dtype: str) -> TypeGuard[Reduction]:
    """Tell whether a source is a sum in a dtype."""
    return isinstance(source, Reduction) and source.kind == "sum" and source.dtype == dtype


def operation_of(term: Term) -> tuple[str, str]:
    """Return the primitive and the dtype of its result; `cast` for one."""
    if term.operation.startswith(WIDER) or " to " in term.operation.partition("[")[0]:
        return "cast", ""
    return term.operation.partition("[")[0], term.operation.rpartition(":")[2]


def cast_of(term: Term) -> tuple[str, str]:
    """Return the dtypes before and after a cast."""
    if term.operation.startswith(WIDER):
        before, _, after = term.operation.removeprefix(WIDER).partition(":")
    else:
        before, _, after = term.operation.partition(" to ")
    return before, after
