"""Whether a formula is 0 for all sizes: its products are grouped by what they are of, and each group must cancel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from samebits.errors import NotCovered
from samebits.sizes.formulas.formula import (
    ONE,
    Atom,
    Base,
    Exponential,
    Extreme,
    Formula,
    Function,
    NoFormula,
    Opaque,
    Powers,
    Size,
    Substitution,
    Summand,
    free_names,
    fresh,
    inner_formulas,
    polynomial,
    reached,
)
from samebits.sizes.formulas.ring import FormulaRing, by_sign, logarithm
from samebits.sizes.formulas.summands import (
    Binding,
    bindings,
    elements,
    follows,
    left_facts,
    lifted,
    simplified,
    without_determined,
)
from samebits.sizes.places.facts import Element, Fact, Facts, Source, at_least, below, complement, equal, opposite
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import CutIndex, Space


# Products with other bound indices, where their groups do not cancel yet: digits, and quotients of remainders.
def with_other_indices(
    space: Space, left: Sequence[Summand], summands: Sequence[Summand], known: Facts
) -> list[Summand] | None:
    """Return the products, one of which has other bound indices and the same sum; None where nothing asks for it."""
    for number, summand in enumerate(summands):
        other = (
            _with_digits(space, left, summand) or with_quotient(space, summand) or _at_one_place(space, summand, known)
        )
        if other is not None:
            return [*summands[:number], other, *summands[number + 1 :]]
    return None


def _with_digits(space: Space, left: Sequence[Summand], summand: Summand) -> Summand | None:
    """Return a product with an index as two digits, as another product has it."""
    for other in left:
        wanted = cut_to_fit(space, summand, other) if other is not summand else None
        if wanted is not None:
            name, weight = wanted
            high = space.ranges[name].quotient(weight)
            assert high is not None
            names = (fresh(space, high), fresh(space, weight))
            value = variable(names[0]) * weight + variable(names[1])
            body = Substitution(space, {name: value}).body(summand)
            return Summand(body.factor, body.number, body.powers, (*body.bound, *names), body.facts)
    return None


def cut_to_fit(space: Space, first: Summand, second: Summand) -> tuple[str, Polynomial] | None:
    """Return a bound index of the first product of which the second one has digits, and the size of the low digit."""
    for a in elements(space, first):
        for b in elements(space, second):
            if a.name != b.name or len(a.index) != len(b.index):
                continue
            for mine, other in zip(a.index, b.index, strict=True):
                for name in first.bound:
                    weight = _low_digit(space, name, mine, other, second.bound) if name in space.ranges else None
                    if weight is not None:
                        return name, weight
    return None


def _low_digit(
    space: Space, name: str, mine: Polynomial, other: Polynomial, digits: Sequence[str]
) -> Polynomial | None:
    """Return the size of the low digit of an index in a place that the other product has with these digits."""
    own = mine.by(name)
    if own is None or not own[0].terms:
        return None
    factors = {parts[0] for digit in digits if (parts := other.by(digit)) is not None}
    for weight in sorted({w for p in factors for w in (p.quotient(own[0]), p.quotient(-own[0])) if w}, key=str):
        if weight.constant == 1 or not weight.variables <= space.lowest.keys() or not space.proves((), weight - 1):
            continue
        high = space.ranges[name].quotient(weight)
        if high is not None and high.constant != 1:
            return weight
    return None


def with_quotient(space: Space, summand: Summand) -> Summand | None:
    """Return a product with `x == q*m + v` for its fact `x % m == v`, summed over `q` too; None without such a fact.

    Where `0 <= v < m`, an `x` has the remainder `v` for one integer `q` or for none, so that a sum over all integers
    `q` counts each place once; this `q` is `x // m`. An index of factor 1 or -1 in `x` is then `q*m + v` less the rest,
    and no longer summed. A divisor is at least 1: `Space` divides by no other.
    """
    for fact in summand.facts:
        opened = _opened(space, summand, fact)
        if opened is None:
            continue
        name, facts, quotients = opened
        kept = tuple(other for other in summand.facts if other != fact)
        try:
            body = Substitution(space, quotients).body(
                Summand(summand.factor, summand.number, summand.powers, summand.bound, kept)
            )
            # The new equation stands first: it is the one that gives an index its value.
            whole = Summand(body.factor, body.number, body.powers, (*body.bound, name), (*facts, *body.facts))
            return without_determined(space, whole) or whole
        except (NoFormula, CutIndex, NotCovered):
            return None  # as where a digit of an unknown integer depends on the index; the product stays as it was
    return None


def _at_one_place(space: Space, summand: Summand, known: Facts) -> Summand | None:
    """Return a product with the only value that its facts leave to an index, 0 or a bound; None without any."""
    region = (*known, *summand.facts, *space.ranges_of(summand.bound))
    for name in summand.bound:
        for value in dict.fromkeys((of(0), *_between_bounds(space, name, summand))):
            if follows(space, region, equal(variable(name), value)):
                # Its range has a 0, as every size is at least 1; where a size may be 0, that is a fact.
                inside = (at_least(value, 0), below(value, space.ranges[name])) if name in space.ranges else ()
                body = Substitution(space, {name: value}).body(summand)
                return Summand(body.factor, body.number, body.powers, body.bound, (*body.facts, *inside))
    return None


def _between_bounds(space: Space, name: str, summand: Summand) -> list[Polynomial]:
    """Return the values that facts say an index is both at least and at most; asking for others takes long."""
    bounds: dict[int, set[Polynomial]] = {1: set(), -1: {space.ranges[name] - 1} if name in space.ranges else set()}
    for fact in summand.facts:
        parts = fact.polynomial.by(name)
        if fact.kind == "not_negative" and parts is not None and parts[0].constant in bounds:
            sign = parts[0].constant
            bounds[sign].add(parts[1] * -sign)
    return sorted((value for value in bounds[1] & bounds[-1] if value.variables.isdisjoint(summand.bound)), key=str)


def _opened(space: Space, summand: Summand, fact: Fact) -> tuple[str, tuple[Fact, ...], dict[str, Polynomial]] | None:
    """Return a new index of any integer, the facts in place of one that gives a remainder a value, and the quotient."""
    bound, divided = set(summand.bound), space.divisions.divided
    for remainder in sorted(fact.polynomial.variables & divided.keys()) if fact.kind == "zero" else ():
        x, divisor, is_remainder = divided[remainder]
        value = fact.polynomial.zero_at(remainder) if is_remainder else None
        if value is None:
            continue
        if reached(space, value.variables | divisor.variables) & bound or not x.variables & bound:
            continue
        name = f"any {len(space.ranges)} quotient of {remainder}"
        equation = equal(x, divisor * variable(name) + value)
        quotients = {other: variable(name) for other in divided if divided[other] == (x, divisor, False)}
        return name, (equation, at_least(value, 0), below(value, divisor)), quotients
    return None


REWRITES = 8
"""How often products are written with other bound indices for one comparison, besides once for each product."""

SPLITS = 10
"""How deep cases are distinguished, one inside the other."""

SIGNS = 4
"""As how many of them the two cases of a sign count, of which most formulas need none."""

MOST_ASKED = 500
"""How many formulas are looked at for one output, some ten seconds; none of the rest is shown to be 0.

The proofs of the 27 pairs look at 183 at most. Sums over axes of fixed numbers, written out, can ask without end.
"""

Same = Callable[[Space, Facts, Source, Source], bool]


MOST_PLACES = 8
"""The most places of an index that are written out."""

MOST_SUMMANDS = 64
"""The most summands that a formula may have by it."""


@dataclass
class _Group:
    """Holds products that are the same at every integer place, each with its number there and where it stands.

    Args:
        of: the product.
        members: factor, number and facts of each.
    """

    of: Summand
    members: list[tuple[Fraction, Polynomial, Facts]] = field(default_factory=list)


class Vanishing:
    """Shows that formulas are 0."""

    def __init__(self, ring: FormulaRing, same: Same) -> None:
        self._ring = ring
        self._space = ring.space
        self._same = same
        self._answers: dict[tuple[Formula, Facts], bool] = {}

    def equal(self, first: Formula, second: Formula, known: Facts) -> bool:
        """Tell whether two formulas are shown to be one, where facts hold."""
        if first == second:
            return True
        if first.infinite or second.infinite:
            return False
        return self.vanishes(self._ring.subtract(first, second), known)

    def vanishes(self, formula: Formula, known: Facts, splits: int = SPLITS) -> bool:
        """Tell whether a formula is shown to be 0, where facts hold."""
        key = formula, known
        if key not in self._answers:
            if len(self._answers) >= MOST_ASKED:
                return False
            try:
                self._answers[key] = self._vanishes(formula, known, splits)
            except (NoFormula, CutIndex, NotCovered):
                self._answers[key] = False
        return self._answers[key]

    def _vanishes(self, formula: Formula, known: Facts, splits: int) -> bool:
        if self._space.contradicts(known):
            return True
        formula = resolved(self._ring, formula, known)
        if not formula.summands:
            return True
        fact = open_fact(self._space, formula)
        if fact is not None:
            cases = [(fact,), *((other,) for other in opposite(fact))]
            return splits > 0 and all(self.vanishes(formula, (*known, *case), splits - 1) for case in cases)
        if self._cancels(list(formula.summands), known):
            return True
        eliminated = self._space.eliminated(known)
        there = Substitution(self._space, eliminated[1] if eliminated else {}).formula(formula)
        if there != formula:
            return self.vanishes(there, known, splits)
        simpler = without_denominators(self._ring, formula) or unrolled(self._ring, formula)
        if simpler is not None:
            return self.vanishes(simpler, known, splits)
        signs = by_sign(self._ring, formula) if splits >= SIGNS else None
        return signs is not None and all(self.vanishes(case, known, splits - SIGNS) for case in signs)

    def _cancels(self, summands: list[Summand], known: Facts) -> bool:
        summands = [self._ring.renamed(summand) for summand in summands]
        for _ in range(REWRITES + len(summands)):
            groups = self._grouped(summands, known)
            left = [group for group in groups if not self._is_zero(known, of(0), group.members)]
            if not left:
                return True
            other = with_other_indices(self._space, [group.of for group in left], summands, known)
            if other is None:
                return False
            summands = other
        return False

    def _grouped(self, summands: list[Summand], known: Facts) -> list[_Group]:
        groups: list[_Group] = []
        for summand in sorted(summands, key=lambda s: -len(s.bound)):
            placed = any(self._join(group, summand, known) for group in groups)
            if not placed:
                region = (*summand.facts, *self._space.ranges_of(summand.bound))
                groups.append(_Group(summand, [(summand.factor, summand.number, region)]))
        return groups

    def _join(self, group: _Group, summand: Summand, known: Facts) -> bool:
        """Put a summand to a group, if it is the same product at other names of its indices."""
        if len(summand.bound) < len(group.of.bound):
            return self._join_lifted(group, summand, known)
        moved: list[Binding] = []
        for binding in bindings(self._space, group.of, summand):
            if not self._renames(binding):
                moved.append(binding)
            inside = self._renames(binding) or self._stays_inside(group, summand, binding, known)
            if inside and self._add(group, summand, binding, known):
                return True
        if not moved:
            return False
        # Beyond the ranges of its own indices: as a product of indices that are any integers.
        wide = self._without_ranges(group)
        for binding in bindings(self._space, wide.of, summand):
            if self._add(wide, summand, binding, known):
                group.of, group.members = wide.of, wide.members
                return True
        return False

    def _stays_inside(self, group: _Group, summand: Summand, binding: Binding, known: Facts) -> bool:
        """Tell whether a summand has no place outside the ranges of a group's indices, as one counted from the end."""
        space = self._space
        # By names without ranges: those of the group would be taken to lie inside.
        names = {name: variable(f"any {len(space.ranges)} {name}") for name in group.of.bound}
        wide = Substitution(space, names)
        there = Substitution(space, {name: p.substitute(names) for name, p in binding.items()})
        region = (*known, *there.facts(space.ranges_of(summand.bound)))
        return all(follows(space, region, fact) for fact in wide.facts(space.ranges_of(group.of.bound)))

    def _join_lifted(self, group: _Group, summand: Summand, known: Facts) -> bool:
        """Put a summand to a group, if it is the product of the group at one value of some of its indices."""
        wide = self._without_ranges(group)
        for values in lifted(self._space, wide.of, summand):
            where = tuple(equal(variable(name), p) for name, p in values.items())
            single = Summand(summand.factor, summand.number, summand.powers, summand.bound, (*summand.facts, *where))
            kept = tuple(name for name in wide.of.bound if name not in values)
            part = Summand(wide.of.factor, wide.of.number, wide.of.powers, kept, wide.of.facts)
            for binding in bindings(self._space, part, single):
                if self._add(wide, single, binding, known):
                    group.of, group.members = wide.of, wide.members
                    return True
        return False

    def _renames(self, binding: Binding) -> bool:
        ranges = self._space.ranges
        return all(
            p == variable(next(iter(p.variables), "")) and ranges.get(next(iter(p.variables))) == ranges.get(name)
            for name, p in binding.items()
        )

    def _without_ranges(self, group: _Group) -> _Group:
        names = {name: f"any {len(self._space.ranges)} {name}" for name in group.of.bound}
        wide = Substitution(self._space, {old: variable(new) for old, new in names.items()})
        members = [(factor, wide.polynomial(number), wide.facts(facts)) for factor, number, facts in group.members]
        body = wide.body(group.of)
        return _Group(Summand(body.factor, body.number, body.powers, tuple(names.values()), body.facts), members)

    def _add(self, group: _Group, summand: Summand, binding: Binding, known: Facts) -> bool:
        there = Substitution(self._space, binding)
        body = there.body(summand)
        region = there.facts((*summand.facts, *self._space.ranges_of(summand.bound)))
        if not self._same_powers(group.of.powers, body.powers, (*known, *region)):
            return False
        group.members.append((body.factor, body.number, region))
        return True

    def _is_zero(self, known: Facts, total: Polynomial, members: list[tuple[Fraction, Polynomial, Facts]]) -> bool:
        """Tell whether the numbers of the members that stand at a place add up to 0 at every place."""
        common = math.prod(factor.denominator for factor, _, _ in members)
        return self._adds_up(known, total, [(n * int(f * common), facts) for f, n, facts in members])

    def _adds_up(self, known: Facts, total: Polynomial, members: list[tuple[Polynomial, Facts]]) -> bool:
        if not members:
            return not total.terms or self._space.contradicts(known) or self._space.proves_equal(known, total, of(0))
        (number, facts), rest = members[0], members[1:]
        own = left_facts(self._space, facts, known)
        if own is None:
            return self._adds_up(known, total, rest)
        if not self._adds_up((*known, *own), total + number, rest):
            return False
        return all(
            self._space.contradicts((*known, *outside)) or self._adds_up((*known, *outside), total, rest)
            for outside in complement(own)
        )

    def _same_powers(self, first: Powers, second: Powers, known: Facts) -> bool:
        left = list(second)
        for value, exponent in first:
            match = next(
                (power for power in left if power[1] == exponent and self._same_atom(value, power[0], known)), None
            )
            if match is None:
                return False
            left.remove(match)
        return not left

    def _same_atom(self, first: Atom, second: Atom, known: Facts) -> bool:
        if first == second:
            return True
        match first, second:
            case Element(), Element():
                return first.name == second.name and all(
                    self._space.proves_equal(known, a, b) for a, b in zip(first.index, second.index, strict=True)
                )
            case Size(), Size():
                return self._space.proves_equal(known, first.polynomial, second.polynomial)
            case Function(), Function():
                return self._same_function(first, second, known)
            case Exponential(), Exponential():
                return self.equal(first.exponent, second.exponent, known)
            case Base(), Base():
                return self.equal(first.formula, second.formula, known)
            case Extreme(), Extreme():
                return self._same_extreme(first, second, known)
            case Opaque(), Opaque():
                return self._same(self._space, known, first.source, second.source)
        return False

    def _same_function(self, first: Function, second: Function, known: Facts) -> bool:
        if first.operation != second.operation or len(first.operands) != len(second.operands):
            return False
        orders = [second.operands, second.operands[::-1]] if first.operation in ("max", "min") else [second.operands]
        return any(all(self.equal(a, b, known) for a, b in zip(first.operands, order, strict=True)) for order in orders)

    def _same_extreme(self, first: Extreme, second: Extreme, known: Facts) -> bool:
        """Tell whether every case of the one is a case of the other, with other names of its indices."""
        if first.kind != second.kind or len(first.cases) != len(second.cases):
            return False
        left = [_case(second, number) for number in range(len(second.cases))]
        for number in range(len(first.cases)):
            case = self._ring.renamed(_case(first, number))
            match = next((other for other in left if self._same_case(case, self._ring.renamed(other), known)), None)
            if match is None:
                return False
            left.remove(match)
        return True

    def _same_case(self, first: Summand, second: Summand, known: Facts) -> bool:
        for binding in bindings(self._space, first, second):
            there = Substitution(self._space, binding)
            body = there.body(second)
            if (
                self._renames(binding)
                and all(follows(self._space, (*known, *first.facts), fact) for fact in body.facts)
                and all(follows(self._space, (*known, *body.facts), fact) for fact in first.facts)
                and self._same_powers(first.powers, body.powers, (*known, *first.facts))
            ):
                return True
        return False


def _case(extreme: Extreme, number: int) -> Summand:
    facts, formula = extreme.cases[number]
    return Summand(powers=((Function("case", (formula,)), Fraction(1)),), bound=extreme.bound, facts=facts)


def without_denominators(ring: FormulaRing, formula: Formula) -> Formula | None:
    """Return a formula times all that it is divided by; None where that is nothing, or depends on bound indices."""
    lowest: dict[Base | Size, Fraction] = {}
    for summand in formula.summands:
        for value, exponent in summand.powers:
            free = not free_names(ring.space, value) & set(summand.bound)
            if isinstance(value, Base | Size) and exponent.denominator == 1 and exponent < 0 and free:
                lowest[value] = min(lowest.get(value, exponent), exponent)
    if not lowest:
        return None
    total = formula
    for value, exponent in lowest.items():
        inner = value.formula if isinstance(value, Base) else polynomial(value.polynomial)
        parts = []
        for s in total.summands:
            power = dict(s.powers).get(value, Fraction(0)) - exponent
            rest = [(other, e) for other, e in s.powers if other != value]
            body = ring.with_powers(s.factor, s.number, rest)
            if power:
                body = ring.multiply(body, ring.power(inner, power))
            parts.append(ring.summed(s.bound, s.facts, body))
        total = ring.add(*parts)
    return total


def unrolled(ring: FormulaRing, formula: Formula) -> Formula | None:
    """Write out the sums over indices of a few places; None where there are none, or too many places."""
    written: list[Summand] = []
    changed = False
    for summand in formula.summands:
        name = next((name for name in summand.bound if _places(ring, name)), None)
        if name is None:
            written.append(summand)
            continue
        changed = True
        rest = tuple(other for other in summand.bound if other != name)
        for place in range(_places(ring, name)):
            body = Substitution(ring.space, {name: of(place)}).body(summand)
            facts = ring.space.simplified(body.facts)
            if facts is not None:
                product = ring.with_powers(body.factor, body.number, body.powers)
                written += ring.summed(rest, facts, product).summands
    if not changed or len(written) > MOST_SUMMANDS:
        return None
    return ring.add(Formula(tuple(written)))


def _places(ring: FormulaRing, name: str) -> int:
    """Return how many places an index has, where they are few; else 0."""
    size = ring.space.ranges[name].constant if name in ring.space.ranges else None
    return size if size is not None and size <= MOST_PLACES else 0


def resolved(ring: FormulaRing, formula: Formula, known: Facts) -> Formula:
    """Drop the facts that always hold and the summands that never stand, where facts hold."""
    parts = []
    for summand in formula.summands:
        s = ring.renamed(summand) if summand.bound else summand
        own = left_facts(ring.space, s.facts, known)
        if own is None:
            continue
        inner = (*known, *own)
        product = ring.with_powers(s.factor, s.number, ())
        for value, exponent in s.powers:
            product = ring.multiply(product, _power(ring, value, exponent, inner))
        parts.append(ring.summed(s.bound, own, product))
    return simplified(ring.space, ring.add(*parts), known)


def _power(ring: FormulaRing, value: Atom, exponent: Fraction, known: Facts) -> Formula:
    if not any(map(_has_facts, inner_formulas(value))) and not isinstance(value, Extreme):
        return ring.with_powers(Fraction(1), ONE, [(value, exponent)])
    match value:
        case Exponential(exponent=inner):
            return ring.exponential(ring.scaled(resolved(ring, inner, known), exponent))
        case Base(formula=inner):
            return ring.power(resolved(ring, inner, known), exponent)
        case Function(operation="log", operands=(inner,)):
            return ring.power(logarithm(ring, resolved(ring, inner, known)), exponent)
        case Function(operation=operation, operands=operands):
            whole = ring.function(operation, *(resolved(ring, inner, known) for inner in operands))
            return ring.power(whole, exponent)
        case Extreme(kind=kind, bound=bound, cases=cases):
            left = [
                (own, resolved(ring, inner, (*known, *own)))
                for facts, inner in cases
                if (own := left_facts(ring.space, facts, known)) is not None
            ]
            return ring.power(ring.extreme(kind, bound, left), exponent)
    return ring.with_powers(Fraction(1), ONE, [(value, exponent)])


def _has_facts(formula: Formula) -> bool:
    return any(
        summand.facts or any(_has_facts(inner) for value, _ in summand.powers for inner in inner_formulas(value))
        for summand in formula.summands
    )


def open_fact(space: Space, formula: Formula, bound: frozenset[str] = frozenset()) -> Fact | None:
    """Return a fact that depends on no bound index: what the formula is depends on whether it holds."""
    for summand in formula.summands:
        fact = _open_in_summand(space, summand, bound)
        if fact is not None:
            return fact
    return None


def _open_in_summand(space: Space, summand: Summand, bound: frozenset[str]) -> Fact | None:
    around = bound | set(summand.bound)
    for fact in summand.facts:
        if not reached(space, fact.polynomial.variables) & around:
            return fact
    for value, _ in summand.powers:
        if isinstance(value, Extreme):
            for facts, _ in value.cases:
                for fact in facts:
                    if not reached(space, fact.polynomial.variables) & (around | set(value.bound)):
                        return fact
        within = around | set(value.bound) if isinstance(value, Extreme) else around
        for inner in inner_formulas(value):
            deeper = open_fact(space, inner, within)
            if deeper is not None:
                return deeper
    return None
