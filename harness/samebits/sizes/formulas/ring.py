"""Sums, products and powers of formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from samebits.interpret.literals import SurdLiteral, root
from samebits.sizes.formulas.formula import (
    INFINITY,
    ZERO,
    Atom,
    Base,
    Exponential,
    Extreme,
    Formula,
    Function,
    NoFormula,
    Powers,
    Size,
    Substitution,
    Summand,
    atom,
    depth,
    free_names,
    fresh,
    inner_formulas,
    number,
)
from samebits.sizes.places.facts import Facts
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space

MOST_EXPANDED = 4
"""The highest power of a sum that is multiplied out."""

MOST_SUMMANDS = 64
"""The most summands of a product of sums."""


class FormulaRing:
    """Computes with formulas."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def add(self, *formulas: Formula) -> Formula:
        """Return the sum; infinity and what is finite is infinity."""
        infinite = [formula for formula in formulas if formula.infinite]
        if infinite:
            if len(set(infinite)) > 1:
                raise NoFormula("infinity less infinity")
            return infinite[0]
        total: dict[tuple[Polynomial, Powers, tuple[str, ...], Facts], Fraction] = {}
        for formula in formulas:
            for s in formula.summands:
                key = s.number, s.powers, s.bound, s.facts
                total[key] = total.get(key, Fraction(0)) + s.factor
        return Formula(tuple(Summand(factor, *key) for key, factor in total.items() if factor))

    def multiply(self, first: Formula, second: Formula) -> Formula:
        """Return the product, multiplied out.

        Raises:
            NoFormula: one is infinite, and the sign of the other is not known; or it has too many summands.
        """
        for infinite, other in ((first, second), (second, first)):
            if infinite.infinite:
                return self._scaled_infinity(infinite, other)
        if len(first.summands) * len(second.summands) > MOST_SUMMANDS:
            raise NoFormula("a product of long sums")
        return self.add(*(self._product(a, b) for a in first.summands for b in second.summands))

    def _scaled_infinity(self, infinite: Formula, other: Formula) -> Formula:
        factors = [s.factor for s in other.summands if not (s.powers or s.bound or s.facts) and s.number == of(1)]
        if len(other.summands) != 1 or len(factors) != 1:
            raise NoFormula("infinity times what may be 0")
        sign = infinite.summands[0].factor * factors[0]
        return Formula((Summand(Fraction(1 if sign > 0 else -1), powers=INFINITY),))

    def _product(self, first: Summand, second: Summand) -> Formula:
        first, second = self._apart(first, second), self._apart(second, first)
        powers: dict[Atom, Fraction] = {}
        for value, exponent in (*first.powers, *second.powers):
            powers[value] = powers.get(value, Fraction(0)) + exponent
        product = self.with_powers(first.factor * second.factor, first.number * second.number, powers.items())
        return self.summed((*first.bound, *second.bound), (*first.facts, *second.facts), product)

    def summed(self, bound: tuple[str, ...], facts: Facts, formula: Formula) -> Formula:
        """Return the sum of a formula over indices that stand in it, where facts hold."""
        summands = []
        for summand in formula.summands:
            s = self.renamed(summand) if set(bound) & set(summand.bound) else summand
            both = tuple(dict.fromkeys((*facts, *s.facts)))
            summands.append(Summand(s.factor, s.number, s.powers, (*bound, *s.bound), both))
        return Formula(tuple(summands))

    def with_powers(self, factor: Fraction, size: Polynomial, powers: Iterable[tuple[Atom, Fraction]]) -> Formula:
        """Return a product of powers; what can be multiplied out is."""
        kept: list[tuple[Atom, Fraction]] = []
        sums: list[tuple[Formula, Fraction]] = []
        for value, exponent in powers:
            whole = exponent.denominator == 1
            if not exponent:
                continue
            if isinstance(value, Size) and whole and 0 < exponent <= MOST_EXPANDED:
                for _ in range(int(exponent)):
                    size = size * value.polynomial
            elif isinstance(value, Size) and value.polynomial.constant is not None and whole:
                if not value.polynomial.constant:
                    raise NoFormula("a division by 0")
                factor *= Fraction(value.polynomial.constant) ** int(exponent)
            elif (root := number_in(value)) is not None:
                # Of the power of a number, the root alone stays.
                factor *= root ** math.floor(exponent)
                if not whole:
                    kept.append((value, exponent - math.floor(exponent)))
            elif isinstance(value, Base) and whole and (0 < exponent <= MOST_EXPANDED or is_product(value.formula)):
                sums.append((value.formula, exponent))
            else:
                kept.append((value, exponent))
        size, kept = cancelled(size, kept)
        total = Formula((Summand(factor, size, tuple(sorted(kept, key=order))),))
        for formula, exponent in sums:
            total = self.multiply(total, self.power(formula, exponent))
        return total

    def _apart(self, summand: Summand, other: Summand) -> Summand:
        """Return a summand whose bound indices are not names of another summand."""
        taken = free_names(self.space, Formula((other,))) | set(other.bound)
        return self.renamed(summand) if taken & set(summand.bound) else summand

    def renamed(self, summand: Summand) -> Summand:
        """Return a summand with new names for its bound indices."""
        names = {name: fresh(self.space, self.space.ranges[name]) for name in summand.bound}
        body = Substitution(self.space, {old: variable(new) for old, new in names.items()}).body(summand)
        return Summand(body.factor, body.number, body.powers, tuple(names.values()), body.facts)

    def scaled(self, formula: Formula, factor: Fraction | int) -> Formula:
        """Return a formula times a number."""
        return self.multiply(number(factor), formula)

    def subtract(self, first: Formula, second: Formula) -> Formula:
        """Return the difference."""
        return self.add(first, self.scaled(second, -1))

    def power(self, formula: Formula, exponent: Fraction) -> Formula:
        """Return a formula to a rational power; a root is the positive one.

        Raises:
            NoFormula: it is 0 or infinite, and the exponent is not positive.
        """
        if exponent == 0 or formula == number(1):
            return number(1)
        if not formula.summands or formula.infinite:
            if exponent > 0 and not formula.infinite:
                return ZERO
            raise NoFormula("a division by 0 or by infinity")
        squared = square_in(formula) if exponent.denominator == 2 else None
        if squared is not None:
            return self.scaled(self.power(number(squared.radicand), exponent), squared.rational ** int(2 * exponent))
        whole = exponent.denominator == 1
        if whole and exponent > 0:
            return self._repeated(formula, int(exponent))
        if whole and is_product(formula):
            (only,) = formula.summands
            powers = [(value, power * exponent) for value, power in only.powers]
            factor = Fraction(only.factor) ** int(exponent)
            return self.with_powers(factor, of(1), [*powers, *size_power(only.number, exponent)])
        common, rest = self.content(formula, positive=not whole)
        if common is not None:
            first = self.power(Formula((common,)), exponent) if whole else self._positive_power(common, exponent)
            return self.multiply(first, self.power(rest, exponent))
        return Formula((Summand(powers=((Base(self.canonical(formula)), exponent),)),))

    def _repeated(self, formula: Formula, exponent: int) -> Formula:
        if exponent > MOST_EXPANDED and not is_product(formula):
            return Formula((Summand(powers=((Base(self.canonical(formula)), Fraction(exponent)),)),))
        if is_product(formula):
            (only,) = formula.summands
            size = of(1)
            for _ in range(exponent):
                size = size * only.number
            powers = [(value, power * exponent) for value, power in only.powers]
            return self.with_powers(only.factor**exponent, size, powers)
        total = formula
        for _ in range(exponent - 1):
            total = self.multiply(total, formula)
        return total

    def _positive_power(self, product: Summand, exponent: Fraction) -> Formula:
        powers: list[tuple[Atom, Fraction]] = [(value, power * exponent) for value, power in product.powers]
        if product.factor != 1:
            powers.append((Base(number(product.factor)), exponent))
        return self.with_powers(Fraction(1), of(1), powers)

    def content(self, formula: Formula, *, positive: bool) -> tuple[Summand | None, Formula]:
        """Return the factors that all summands share, or the positive ones of them, and the rest; None without any."""
        parts = [self.shareable(summand, positive) for summand in formula.summands]
        shared = {
            value: min(part[value] for part in parts) for value in parts[0] if all(value in part for part in parts)
        }
        factor, size = common_factor([summand.factor for summand in formula.summands]), of(1)
        if positive:
            factor = abs(factor)
        else:
            numbers = {summand.number for summand in formula.summands}
            names = {name for summand in formula.summands for name in summand.bound}
            if len(numbers) == 1 and not free_names(self.space, formula.summands[0].number) & names:
                size = formula.summands[0].number
        common = Summand(factor, size, tuple(shared.items()))
        if common == Summand():
            return None, formula
        rest = [
            self.summed(
                s.bound,
                s.facts,
                self.with_powers(
                    s.factor / factor,
                    s.number if size == of(1) else of(1),
                    [(value, power - shared.get(value, Fraction(0))) for value, power in s.powers],
                ),
            )
            for s in formula.summands
        ]
        return common, self.add(*rest)

    def shareable(self, summand: Summand, positive: bool) -> dict[Atom, Fraction]:
        """Return the factors of a summand that depend on no bound index of it, or those that are positive for sure."""
        return {
            value: power
            for value, power in summand.powers
            if (not positive or is_positive_atom(self.space, value))
            and not free_names(self.space, value) & set(summand.bound)
        }

    def exponential(self, formula: Formula) -> Formula:
        """Return the exponential: of a sum, the product of the exponentials."""
        if formula.infinite:
            if formula.summands[0].factor < 0:
                return ZERO
            raise NoFormula("the exponential of infinity")
        powers: dict[Atom, Fraction] = {}
        for s in formula.summands:
            unit = Summand(Fraction(1), s.number, s.powers, s.bound, s.facts)
            match s.powers:
                case ((Function("log", (inner,)), Fraction(numerator=1, denominator=1)),) if unit == Summand(
                    powers=s.powers
                ) and self.is_positive(inner):
                    rest = self.exponential(Formula(tuple(other for other in formula.summands if other is not s)))
                    return self.multiply(self.power(inner, s.factor), rest)
            value = Exponential(self.canonical(Formula((unit,))))
            powers[value] = powers.get(value, Fraction(0)) + s.factor
        return self.with_powers(Fraction(1), of(1), powers.items())

    def is_positive(self, formula: Formula) -> bool:
        """Tell whether a formula is not negative for sure: a sum of exponentials and of squares."""
        return all(
            s.factor > 0
            and self.space.proves((), s.number)
            and all(e % 2 == 0 or is_positive_atom(self.space, value) for value, e in s.powers)
            for s in formula.summands
        )

    def function(self, operation: str, *operands: Formula) -> Formula:
        """Return a function without laws."""
        return atom(Function(operation, tuple(map(self.canonical, operands))))

    def extreme(self, kind: str, bound: tuple[str, ...], cases: Sequence[tuple[Facts, Formula]]) -> Formula:
        """Return the largest or smallest."""
        level = 1 + max((depth(formula) for _, formula in cases), default=0)
        free = frozenset[str]().union(*(free_names(self.space, formula) for _, formula in cases))
        while any(name.startswith(f"{level}.") for name in free):
            level += 1
        names, inner = self._named(bound, level)
        return atom(Extreme(kind, names, tuple((inner.facts(f), self.canonical(inner.formula(x))) for f, x in cases)))

    def canonical(self, formula: Formula) -> Formula:
        """Return a formula with bound indices named by where they stand: the same names in the same formulas."""
        level, summands = depth(formula), list[Summand]()
        while any(name.startswith(f"{level}.") for name in free_names(self.space, formula)):
            level += 1
        for s in formula.summands:
            names, inner = self._named(s.bound, level)
            body = inner.body(s)
            summands.append(Summand(body.factor, body.number, body.powers, names, body.facts))
        return Formula(tuple(sorted(summands, key=str)))

    def _named(self, bound: tuple[str, ...], level: int) -> tuple[tuple[str, ...], Substitution]:
        names: dict[str, str] = {}
        for position, name in enumerate(bound):
            size = self.space.ranges[name]
            names[name] = f"{level}.{position} below {size}"
            self.space.ranges[names[name]] = size
        return tuple(names.values()), Substitution(self.space, {old: variable(new) for old, new in names.items()})


def is_product(formula: Formula) -> bool:
    """Tell whether a formula is a single product without a sum."""
    return len(formula.summands) == 1 and not formula.summands[0].bound and not formula.summands[0].facts


def number_in(value: Atom) -> Fraction | None:
    """Return the number that a base is; None of any other atom."""
    if not isinstance(value, Base) or len(value.formula.summands) != 1:
        return None
    (only,) = value.formula.summands
    return only.factor if only == Summand(only.factor) else None


def square_in(formula: Formula) -> SurdLiteral | None:
    """Return the root of a number that a square divides, or that is a fraction; None of any other formula."""
    (only, *more) = formula.summands
    if more or only != Summand(only.factor) or only.factor <= 0:
        return None
    rooted = root(only.factor)
    return None if rooted.rational == 1 else rooted


def size_power(size: Polynomial, exponent: Fraction) -> list[tuple[Atom, Fraction]]:
    """Return a power of a polynomial of sizes; of 1, nothing."""
    return [(Size(size), exponent)] if size != of(1) else []


def cancelled(size: Polynomial, powers: list[tuple[Atom, Fraction]]) -> tuple[Polynomial, list[tuple[Atom, Fraction]]]:
    """Return a numerator and powers without the sizes that are in both."""
    kept = []
    for value, exponent in powers:
        while isinstance(value, Size) and exponent <= -1:
            quotient = size.quotient(value.polynomial)
            if quotient is None:
                break
            size, exponent = quotient, exponent + 1
        if exponent:
            kept.append((value, exponent))
    return size, kept


def common_factor(factors: list[Fraction]) -> Fraction:
    """Return the largest rational number of which all factors are whole multiples."""
    if len(factors) == 1:
        return factors[0]
    return Fraction(math.gcd(*(f.numerator for f in factors)), math.lcm(*(f.denominator for f in factors)))


def order(power: tuple[Atom, Fraction]) -> tuple[str, str]:
    """Return where a power stands among those of a product."""
    return type(power[0]).__name__, str(power)


def is_positive_atom(space: Space, value: Atom) -> bool:
    """Tell whether an atom is above 0 for sure, so that it comes out of a root: an exponential, or a size."""
    return isinstance(value, Exponential) or (isinstance(value, Size) and space.proves((), value.polynomial - 1))


# Logarithms of formulas: factors come out, so that the logarithms of a sum and of its multiples meet.
MOST_CHOICES = 4
"""The most summands of a sum each of which may be the one that it is divided by."""


def logarithm(ring: FormulaRing, formula: Formula) -> Formula:
    """Return the logarithm; exponentials and sizes that are factors come out of it.

    Raises:
        NoFormula: the formula is 0 or infinite.
    """
    if formula.infinite or not formula.summands:
        raise NoFormula("the logarithm of 0 or infinity")
    common, rest = ring.content(formula, positive=True)
    factor, powers = (Fraction(1), ()) if common is None else (common.factor, common.powers)
    rest, divisors = _multiplied_out(ring, rest)
    rest, more = _over_one(ring, rest)
    total = [] if rest == number(1) else [ring.function("log", rest)]
    total += [ring.function("log", number(factor))] if factor != 1 else []
    for value, power in (*powers, *more):
        own = value.exponent if isinstance(value, Exponential) else ring.function("log", atom(value))
        total.append(ring.scaled(own, power))
    total += [ring.scaled(logarithm(ring, base), exponent) for base, exponent in divisors]
    return ring.add(*total)


def _multiplied_out(ring: FormulaRing, formula: Formula) -> tuple[Formula, list[tuple[Formula, Fraction]]]:
    """Return a sum times the positive sums that its summands are divided by, and these with their exponents in it."""
    lowest: dict[Base, Fraction] = {}
    for summand in formula.summands:
        for value, exponent in ring.shareable(summand, positive=False).items():
            if isinstance(value, Base) and exponent < 0 and ring.is_positive(value.formula):
                lowest[value] = min(lowest.get(value, exponent), exponent)
    divisors = [(value.formula, exponent) for value, exponent in lowest.items() if exponent.denominator == 1]
    for base, exponent in divisors:
        formula = ring.multiply(formula, ring.power(base, -exponent))
    return formula, divisors


def _over_one(ring: FormulaRing, formula: Formula) -> tuple[Formula, Powers]:
    """Return a sum over the exponentials of one summand, and these: the same for its multiples by exponentials."""
    choices: dict[Powers, Formula] = {(): formula}
    for summand in formula.summands if len(formula.summands) <= MOST_CHOICES else ():
        shared = ring.shareable(summand, positive=True)
        own = tuple((value, exponent) for value, exponent in shared.items() if isinstance(value, Exponential))
        divisor = Formula((Summand(powers=tuple((value, -exponent) for value, exponent in own)),))
        choices[own] = ring.multiply(divisor, formula)
    powers, rest = min(choices.items(), key=lambda choice: str(ring.canonical(choice[1])))
    return rest, powers


# A formula in the two cases of a sign: `max(a, b)` is `a` where `a - b` is not negative, and `b` elsewhere.
Chosen = Callable[[Function], Formula | None]


def by_sign(ring: FormulaRing, formula: Formula) -> tuple[Formula, Formula] | None:
    """Return a formula where a difference in it is not negative, and where it is not positive; None where it has none.

    A difference that depends on a bound index has another sign at each place, and is not looked at.

    Raises:
        NoFormula: a case is not a formula.
    """
    first = next(_signed(ring, formula, frozenset()), None)
    if first is None:
        return None
    difference = _difference(ring, first)
    sides = [ring.canonical(difference), ring.canonical(ring.scaled(difference, -1))]

    def case(sign: int) -> Chosen:
        def chosen(function: Function) -> Formula | None:
            if function.operation not in _SIGNED:
                return None
            own = ring.canonical(_difference(ring, function))
            if own not in sides:
                return None
            return _where(ring, function, is_positive=(own == sides[0]) == (sign > 0))

        return chosen

    return _replaced(ring, formula, case(1)), _replaced(ring, formula, case(-1))


_SIGNED = ("abs", "max", "min")


def _difference(ring: FormulaRing, function: Function) -> Formula:
    first, *others = function.operands
    return ring.subtract(first, others[0]) if others else first


def _where(ring: FormulaRing, function: Function, *, is_positive: bool) -> Formula:
    """Return what a function is where its difference has a sign."""
    first, *others = function.operands
    if not others:
        return first if is_positive else ring.scaled(first, -1)
    return first if is_positive == (function.operation == "max") else others[0]


def _signed(ring: FormulaRing, formula: Formula, bound: frozenset[str]) -> Iterator[Function]:
    """Yield the functions of a sign that depend on no bound index, the innermost first."""
    for summand in formula.summands:
        inside = bound | set(summand.bound)
        for value, _ in summand.powers:
            if not isinstance(value, Function | Exponential | Base):
                continue
            for inner in inner_formulas(value):
                yield from _signed(ring, inner, inside)
            if (
                isinstance(value, Function)
                and value.operation in _SIGNED
                and not free_names(ring.space, value) & inside
            ):
                yield value


def _replaced(ring: FormulaRing, formula: Formula, chosen: Chosen) -> Formula:
    """Return a formula with other formulas in place of functions in it."""
    parts = []
    for summand in formula.summands:
        kept: list[tuple[Atom, Fraction]] = []
        others: list[Formula] = []
        for value, exponent in summand.powers:
            other = _of_atom(ring, value, chosen)
            if other is None:
                kept.append((value, exponent))
            else:
                others.append(ring.power(other, exponent))
        body = ring.with_powers(summand.factor, summand.number, kept)
        for other in others:
            body = ring.multiply(body, other)
        parts.append(ring.summed(summand.bound, summand.facts, body))
    return ring.add(*parts)


def _of_atom(ring: FormulaRing, value: Atom, chosen: Chosen) -> Formula | None:
    """Return what takes the place of an atom; None where it stays."""
    own = chosen(value) if isinstance(value, Function) else None
    if own is not None:
        return own
    inner = inner_formulas(value)
    changed = tuple(_replaced(ring, formula, chosen) for formula in inner)
    if changed == inner:
        return None
    match value:
        case Base():
            return changed[0]
        case Exponential():
            return ring.exponential(changed[0])
        case Function(operation="log"):
            return logarithm(ring, changed[0])
        case Function(operation=operation):
            return ring.function(operation, *changed)
    raise NoFormula("the largest of what has another form for each sign")
