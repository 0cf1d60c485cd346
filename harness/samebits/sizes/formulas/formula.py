"""Formulas in a normal form: sums of products of powers, each product summed over bound indices where facts hold.

A product is pushed into its sums and a sum out of its products, so that the order of sums, factors that are pulled out
and axes that are summed one after another leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from samebits.sizes.places.facts import (
    Carried,
    Element,
    Fact,
    Facts,
    Integer,
    MapPiece,
    Reduction,
    Source,
    Term,
    Whole,
    WholeResult,
    variables_in,
)
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space


class NoFormula(Exception):
    """What stands at a place is not a formula over the reals, such as infinity less infinity."""


@dataclass(frozen=True)
class Size:
    """A polynomial of sizes and indices as a real number; in denominators, and under roots."""

    polynomial: Polynomial


@dataclass(frozen=True)
class Function:
    """A function of which no law is known: equal results of equal operands."""

    operation: str
    operands: tuple[Formula, ...]


@dataclass(frozen=True)
class Exponential:
    """The exponential of a single product with factor 1; as it is positive, all its powers are known."""

    exponent: Formula


@dataclass(frozen=True)
class Base:
    """A sum that stands in a denominator or under a root."""

    formula: Formula


@dataclass(frozen=True)
class Extreme:
    """The largest or smallest of formulas over bound indices.

    Args:
        kind: `max` or `min`.
        cases: where facts hold, the formula.
    """

    kind: str
    bound: tuple[str, ...]
    cases: tuple[tuple[Facts, Formula], ...]


@dataclass(frozen=True)
class Opaque:
    """A source that is not looked into."""

    source: Source


@dataclass(frozen=True)
class Infinite:
    """Plus infinity."""


Atom = Element | Size | Function | Exponential | Base | Extreme | Opaque | Infinite
Powers = tuple[tuple[Atom, Fraction], ...]
INFINITY: Powers = ((Infinite(), Fraction(1)),)
ONE = of(1)


@dataclass(frozen=True)
class Summand:
    """A product, summed over bound indices where facts hold.

    Args:
        factor: a rational number; not 0.
        number: a polynomial of sizes and indices.
        powers: each atom once.
        bound: the indices, each below its size.
        facts: what holds of the places that are summed.
    """

    factor: Fraction = Fraction(1)
    number: Polynomial = ONE
    powers: Powers = ()
    bound: tuple[str, ...] = ()
    facts: Facts = ()


@dataclass(frozen=True)
class Formula:
    """A sum of summands; 0 of none."""

    summands: tuple[Summand, ...] = ()

    @property
    def infinite(self) -> bool:
        """Tell whether it is plus or minus infinity."""
        return any(summand.powers == INFINITY for summand in self.summands)


ZERO = Formula()


def number(value: Fraction | int) -> Formula:
    """Return a rational number."""
    return Formula((Summand(Fraction(value)),)) if value else ZERO


def polynomial(value: Polynomial) -> Formula:
    """Return a polynomial of sizes and indices as a real number."""
    if value.constant is not None:
        return number(value.constant)
    return Formula((Summand(number=value),))


def atom(value: Atom) -> Formula:
    """Return a single atom."""
    return Formula((Summand(powers=((value, Fraction(1)),)),))


def depth(formula: Formula) -> int:
    """Return how deep sums are nested in atoms; bound indices are named by it."""
    return max((1 + _inner(value) for summand in formula.summands for value, _ in summand.powers), default=0)


def _inner(value: Atom) -> int:
    return max(map(depth, inner_formulas(value)), default=-1)


def inner_formulas(value: Atom) -> tuple[Formula, ...]:
    """Return the formulas that an atom is made of."""
    match value:
        case Function(operands=operands):
            return operands
        case Exponential(exponent=formula) | Base(formula=formula):
            return (formula,)
        case Extreme(cases=cases):
            return tuple(formula for _, formula in cases)
    return ()


# Other polynomials in place of indices, in facts, sources and formulas; bound ones are renamed before they clash.
def reached(space: Space, names: Iterable[str]) -> frozenset[str]:
    """Return names, and those that unknown integers and quotients of these names are made of."""
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += space.inside.get(name, ())
        if name in space.divisions.divided:
            p, divisor, _ = space.divisions.divided[name]
            todo += p.variables | divisor.variables
    return frozenset(seen)


def fresh(space: Space, size: Polynomial) -> str:
    """Return a new index below a size."""
    name = f"fresh {len(space.ranges)}"
    space.ranges[name] = size
    return name


class Substitution:
    """Replaces indices by the values of their names."""

    def __init__(self, space: Space, values: Mapping[str, Polynomial]) -> None:
        self._space = space
        self._values = {name: p for name, p in values.items() if p != variable(name)}
        self._incoming = reached(space, (name for p in self._values.values() for name in p.variables))

    def polynomial(self, p: Polynomial) -> Polynomial:
        """Return a polynomial with the values.

        Raises:
            NoFormula: a digit of an unknown integer depends on an index that is replaced.
        """
        values = {}
        for name in p.variables:
            if name in self._values:
                values[name] = self._values[name]
            elif reached(self._space, (name,)) & self._values.keys():
                values[name] = self._unknown(name)
        return p.substitute(values)

    def _unknown(self, name: str) -> Polynomial:
        """Return an unknown integer or a quotient with the values in what it is made of."""
        space = self._space
        if name in space.sources:
            return space.value_of(self.source(space.sources[name]), space.ranges.get(name))
        if name in space.divisions.divided:
            p, divisor, is_remainder = space.divisions.divided[name]
            return space.divide(self.polynomial(p), self.polynomial(divisor))[is_remainder]
        raise NoFormula(f"a digit of an unknown integer: {name}")

    def facts(self, facts: Facts) -> Facts:
        """Return facts with the values."""
        return tuple(Fact(fact.kind, self.polynomial(fact.polynomial)) for fact in facts)

    def mapped_index(self, index: tuple[Polynomial, ...]) -> tuple[Polynomial, ...]:
        """Return an index with the replacements."""
        return tuple(map(self.polynomial, index))

    def inside(self, bound: tuple[str, ...]) -> tuple[tuple[str, ...], Substitution]:
        """Return the names of bound indices that clash with nothing, and the substitution below them."""
        values = {name: p for name, p in self._values.items() if name not in bound}
        inner = Substitution(self._space, values)
        if not set(bound) & inner._incoming:
            return bound, inner
        names = {name: fresh(self._space, self._space.ranges[name]) for name in bound}
        renamed = {name: variable(other) for name, other in names.items()}
        return tuple(names.values()), Substitution(self._space, {**values, **renamed})

    def source(self, source: Source) -> Source:
        """Return a source with the values."""
        match source:
            case Element(name=name, index=index):
                return Element(name, self.mapped_index(index))
            case Carried():
                devices = tuple((axis, self.polynomial(p)) for axis, p in source.devices)
                time, index = self.polynomial(source.time), self.mapped_index(source.index)
                return Carried(source.name, source.number, time, index, devices)
            case Integer(value=value):
                return Integer(self.polynomial(value))
            case Term(operation=operation, operands=operands):
                return Term(operation, tuple(map(self.source, operands)))
            case Reduction(kind=kind, dtype=dtype, bound=bound, pieces=pieces):
                names, inner = self.inside(bound)
                return Reduction(kind, dtype, names, tuple(map(inner.mapped_piece, pieces)))
            case WholeResult(operation=operation, index=index, operands=wholes, below=below):
                places = None if below is None else self.polynomial(below)
                return WholeResult(operation, self.mapped_index(index), tuple(map(self._whole, wholes)), places)
        return source

    def mapped_piece(self, piece: MapPiece) -> MapPiece:
        """Return a piece with the replacements."""
        return MapPiece(self.facts(piece.facts), self.source(piece.source))

    def _whole(self, whole: Whole) -> Whole:
        bound = {name for p in whole.index for name in p.variables} - self._space.lowest.keys()
        _, inner = self.inside(tuple(sorted(bound)))
        return Whole(whole.shape, inner.mapped_index(whole.index), tuple(map(inner.mapped_piece, whole.pieces)))

    def formula(self, formula: Formula) -> Formula:
        """Return a formula with the values."""
        if not self._values:
            return formula
        return Formula(tuple(map(self._summand, formula.summands)))

    def _summand(self, summand: Summand) -> Summand:
        names, inner = self.inside(summand.bound)
        powers = tuple((inner.atom(value), exponent) for value, exponent in summand.powers)
        return Summand(summand.factor, inner.polynomial(summand.number), powers, names, inner.facts(summand.facts))

    def body(self, summand: Summand) -> Summand:
        """Return a summand with values for its own bound indices, which are bound no longer."""
        powers = tuple((self.atom(value), exponent) for value, exponent in summand.powers)
        kept = tuple(name for name in summand.bound if name not in self._values)
        return Summand(summand.factor, self.polynomial(summand.number), powers, kept, self.facts(summand.facts))

    def atom(self, value: Atom) -> Atom:
        """Return an atom with the values."""
        match value:
            case Element():
                return Element(value.name, self.mapped_index(value.index))
            case Size(polynomial=p):
                return Size(self.polynomial(p))
            case Function(operation=operation, operands=operands):
                return Function(operation, tuple(map(self.formula, operands)))
            case Exponential(exponent=formula):
                return Exponential(self.formula(formula))
            case Base(formula=formula):
                return Base(self.formula(formula))
            case Extreme(kind=kind, bound=bound, cases=cases):
                names, inner = self.inside(bound)
                return Extreme(kind, names, tuple((inner.facts(facts), inner.formula(f)) for facts, f in cases))
            case Opaque(source=source):
                return Opaque(self.source(source))
        return value


def free_names(space: Space, thing: Formula | Facts | Polynomial | Atom | Source) -> frozenset[str]:
    """Return the names that something depends on, those inside of unknown integers too; bound ones left out."""
    match thing:
        case Polynomial():
            return reached(space, thing.variables)
        case tuple():
            return reached(space, (name for fact in thing for name in fact.polynomial.variables))
        case Formula(summands=summands):
            return frozenset[str]().union(*(_of_summand(space, summand) for summand in summands))
        case Size(polynomial=p):
            return reached(space, p.variables)
        case Element(index=index):
            return reached(space, (name for p in index for name in p.variables))
        case Function(operands=operands):
            return frozenset[str]().union(*(free_names(space, operand) for operand in operands))
        case Exponential(exponent=formula) | Base(formula=formula):
            return free_names(space, formula)
        case Extreme(bound=bound, cases=cases):
            parts = [free_names(space, facts) | free_names(space, f) for facts, f in cases]
            return frozenset[str]().union(*parts) - set(bound)
        case Opaque(source=source):
            return reached(space, variables_in(source))
    return frozenset()


def _of_summand(space: Space, summand: Summand) -> frozenset[str]:
    parts = [free_names(space, value) for value, _ in summand.powers]
    own = free_names(space, summand.number) | free_names(space, summand.facts)
    return own.union(*parts) - set(summand.bound)


def canonical_source(space: Space, source: Source) -> Source:
    """Name the indices of a source's sums by how deep they lie: the same names in the same sums."""
    match source:
        case Term(operation=operation, operands=operands):
            return Term(operation, tuple(canonical_source(space, operand) for operand in operands))
        case Reduction(kind=kind, dtype=dtype, bound=bound, pieces=pieces):
            inner = tuple(MapPiece(piece.facts, canonical_source(space, piece.source)) for piece in pieces)
            whole = Reduction(kind, dtype, bound, inner)
            level = 1 + max((_level(piece.source) for piece in inner), default=0)
            taken = reached(space, variables_in(whole))
            while any(name.startswith(f"{level}|") for name in taken):
                level += 1
            names = {}
            for position, name in enumerate(bound):
                names[name] = f"{level}|{position} below {space.ranges[name]}"
                space.ranges[names[name]] = space.ranges[name]
            renamed = Substitution(space, {old: variable(new) for old, new in names.items()})
            places = tuple(MapPiece(renamed.facts(piece.facts), renamed.source(piece.source)) for piece in inner)
            return Reduction(kind, dtype, tuple(names.values()), places)
    return source


def _level(source: Source) -> int:
    match source:
        case Term(operands=operands):
            return max(map(_level, operands), default=0)
        case Reduction(bound=bound, pieces=pieces):
            own = max((int(name.partition("|")[0]) for name in bound if "|" in name), default=0)
            return max([own, *(_level(piece.source) for piece in pieces)])
    return 0
