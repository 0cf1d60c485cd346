"""Products with other bound indices, where their groups do not cancel yet: digits, and quotients of remainders."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.errors import NotCovered
from samebits.sizes.formulas.bindings import elements
from samebits.sizes.formulas.formula import NoFormula, Summand
from samebits.sizes.formulas.substitution import Substitution, fresh, reached
from samebits.sizes.formulas.summands import follows, without_determined
from samebits.sizes.places.divisions import CutIndex
from samebits.sizes.places.facts import Fact, Facts, at_least, below, equal
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space


def with_other_indices(
    space: Space, left: Sequence[Summand], summands: Sequence[Summand], known: Facts
) -> list[Summand] | None:
    """Products of which one has other bound indices and the same sum; None where nothing asks for it.

    Args:
        space: sizes and indices.
        left: products of the groups that do not cancel.
        summands: all products.
        known: what holds besides.
    """
    for number, summand in enumerate(summands):
        other = (
            _with_digits(space, left, summand) or with_quotient(space, summand) or _at_one_place(space, summand, known)
        )
        if other is not None:
            return [*summands[:number], other, *summands[number + 1 :]]
    return None


def _with_digits(space: Space, left: Sequence[Summand], summand: Summand) -> Summand | None:
    """A product with an index as two digits, as another product has it."""
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
    """A bound index of the first product of which the second one has digits, and the size of the low digit."""
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
    """The size of the low digit of an index in a place that the other product has with these digits."""
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
    """A product with `x == q*m + v` for its fact `x % m == v`, summed over the integer `q` too.

    Where `0 <= v < m`, an `x` has the remainder `v` for one integer `q` or for none, so that a sum over all integers
    `q` counts each place once; this `q` is `x // m`. An index of factor 1 or -1 in `x` is then `q*m + v` less the rest,
    and no longer summed. A divisor is at least 1: `Space` divides by no other.

    Args:
        space: sizes and indices.
        summand: the product.

    Returns:
        None where no fact is of this kind.
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
    """A product with the only value that its facts leave to an index, 0 or a bound; None where no index has one."""
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
    """The values that facts say an index is at least, and at most: of others nothing is asked, as that takes long."""
    bounds: dict[int, set[Polynomial]] = {1: set(), -1: {space.ranges[name] - 1} if name in space.ranges else set()}
    for fact in summand.facts:
        parts = fact.polynomial.by(name)
        if fact.kind == "not_negative" and parts is not None and parts[0].constant in bounds:
            sign = parts[0].constant
            bounds[sign].add(parts[1] * -sign)
    return sorted((value for value in bounds[1] & bounds[-1] if value.variables.isdisjoint(summand.bound)), key=str)


def _opened(space: Space, summand: Summand, fact: Fact) -> tuple[str, tuple[Fact, ...], dict[str, Polynomial]] | None:
    """A new index of any integer, the facts in place of one that gives a remainder a value, and the quotient."""
    bound, divided = set(summand.bound), space.divisions.divided
    for remainder in sorted(fact.polynomial.variables & divided.keys()) if fact.kind == "zero" else ():
        x, divisor, is_remainder = divided[remainder]
        parts = fact.polynomial.by(remainder)
        if not is_remainder or parts is None or parts[0].constant not in (1, -1):
            continue
        value = parts[1] * -int(parts[0].constant or 0)
        if reached(space, value.variables | divisor.variables) & bound or not x.variables & bound:
            continue
        name = f"any {len(space.ranges)} quotient of {remainder}"
        equation = equal(x, divisor * variable(name) + value)
        quotients = {other: variable(name) for other in divided if divided[other] == (x, divisor, False)}
        return name, (equation, at_least(value, 0), below(value, divisor)), quotients
    return None
