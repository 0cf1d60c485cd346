"""Normal forms of formulas with symbolic sizes, and which of them are shown to be equal."""

from fractions import Fraction

import pytest

from samebits.sizes.formulas.formula import (
    Formula,
    NoFormula,
    Substitution,
    Summand,
    atom,
    canonical_source,
    free_names,
    number,
    polynomial,
)
from samebits.sizes.formulas.normal_form import NormalForms, says_infinite
from samebits.sizes.formulas.ring import FormulaRing, common_factor, logarithm
from samebits.sizes.formulas.summands import bindings, simplified
from samebits.sizes.formulas.vanishing import Vanishing, cut_to_fit, open_fact, resolved
from samebits.sizes.places.equality import same
from samebits.sizes.places.facts import (
    Element,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    at_least,
    equal,
)
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space

N = variable("n")
HALF = Fraction(1, 2)


class Formulas:
    """A space of the sizes m and n, and what is computed in it."""

    def __init__(self) -> None:
        self.space = Space({"m": 1, "n": 1})
        self.forms = NormalForms(self.space, same)
        self.ring: FormulaRing = self.forms.ring
        self.vanishing: Vanishing = self.forms.vanishing

    def index(self, name: str, size: Polynomial) -> Polynomial:
        """An index below a size."""
        return self.space.index(name, size)

    def total(self, name: str, size: Polynomial, element: Formula, *facts: object) -> Formula:
        """The sum over an index."""
        self.index(name, size)
        return self.ring.summed((name,), facts, element)  # type: ignore[arg-type]

    def equal(self, first: Formula, second: Formula) -> bool:
        """Whether two formulas are shown to be one."""
        return self.vanishing.equal(first, second, ())


@pytest.fixture
def formulas() -> Formulas:
    return Formulas()


def x(place: Polynomial | int) -> Formula:
    """An element of x."""
    return atom(Element("x", (of(place),)))


def test_products_of_sums_are_multiplied_out(formulas: Formulas) -> None:
    ring, a, b = formulas.ring, x(0), x(1)
    square = ring.power(ring.add(a, b), Fraction(2))
    parts = ring.add(ring.multiply(a, a), ring.scaled(ring.multiply(a, b), 2), ring.multiply(b, b))
    assert formulas.equal(square, parts)
    assert not formulas.equal(square, ring.add(ring.multiply(a, a), ring.multiply(b, b)))


def test_roots_and_inverses_cancel(formulas: Formulas) -> None:
    ring, base = formulas.ring, formulas.ring.add(x(0), number(3))
    root = ring.power(base, HALF)
    assert ring.multiply(root, root) == base
    assert formulas.equal(ring.multiply(base, ring.power(base, Fraction(-1))), number(1))
    assert ring.multiply(ring.power(number(2), HALF), ring.power(number(2), HALF)) == number(2)
    with pytest.raises(NoFormula):
        ring.power(Formula(), Fraction(-1))
    assert common_factor([Fraction(4, 3), Fraction(2)]) == Fraction(2, 3)


def test_exponentials_and_logarithms_keep_their_laws(formulas: Formulas) -> None:
    ring, a, b = formulas.ring, x(0), x(1)
    product = ring.multiply(ring.exponential(a), ring.exponential(b))
    assert product == ring.exponential(ring.add(a, b))
    assert formulas.equal(logarithm(ring, product), ring.add(a, b))
    shifted = logarithm(ring, ring.add(product, ring.exponential(a)))
    assert formulas.equal(shifted, ring.add(a, logarithm(ring, ring.add(ring.exponential(b), number(1)))))


def test_names_of_bound_indices_do_not_matter(formulas: Formulas) -> None:
    first = formulas.total("a", N, x(formulas.index("a", N)))
    second = formulas.total("b", N, x(formulas.index("b", N)))
    assert formulas.equal(first, second)
    assert formulas.ring.canonical(first) == formulas.ring.canonical(second)
    longer = formulas.total("c", N + 1, x(formulas.index("c", N + 1)))
    assert not formulas.equal(first, longer)
    assert formulas.equal(longer, formulas.ring.add(first, x(N)))


def test_digits_are_one_index(formulas: Formulas) -> None:
    M = variable("m")
    whole = formulas.total("a", M * N, x(formulas.index("a", M * N)))
    high, low = formulas.index("h", M), formulas.index("l", N)
    digits = formulas.ring.summed(("h", "l"), (), x(high * N + low))
    assert cut_to_fit(formulas.space, whole.summands[0], digits.summands[0]) == ("a", N)
    assert formulas.equal(whole, digits)
    swapped = formulas.ring.summed(("h", "l"), (), x(low * M + high))
    assert formulas.equal(whole, swapped)
    assert not formulas.equal(whole, formulas.ring.summed(("h", "l"), (), x(low * N + high)))


def test_shared_places_are_counted(formulas: Formulas) -> None:
    place = formulas.index("a", N)
    whole = formulas.total("a", N, x(place))
    early = formulas.total("a", N, x(place), at_least(4, place))
    late = formulas.total("a", N, x(place), at_least(place, 5))
    twice = formulas.total("a", N, x(place), at_least(place, 4))
    assert formulas.equal(whole, formulas.ring.add(early, late))
    assert not formulas.equal(whole, formulas.ring.add(early, twice))


def test_an_index_that_nothing_needs_is_its_size(formulas: Formulas) -> None:
    ones = formulas.total("a", N, number(1))
    assert simplified(formulas.space, ones, ()) == polynomial(N)
    single = formulas.total("a", N, x(formulas.index("a", N)), equal(variable("a"), 0))
    assert formulas.equal(single, x(0))
    assert not formulas.equal(ones, number(1))


def test_bound_names_are_never_captured(formulas: Formulas) -> None:
    place, other = formulas.index("a", N), formulas.index("b", N)
    product = formulas.total("a", N, formulas.ring.multiply(x(place), x(other)))
    moved = Substitution(formulas.space, {"b": place}).formula(product)
    assert free_names(formulas.space, moved) == {"a"}
    (summand,) = moved.summands
    assert summand.bound != ("a",)


def test_a_fact_of_no_bound_index_is_told_apart(formulas: Formulas) -> None:
    place = formulas.index("i", N)
    guarded = Formula((Summand(facts=(equal(place, 0),)),))
    fact = open_fact(formulas.space, guarded)
    assert fact == equal(place, 0)
    assert resolved(formulas.ring, guarded, (equal(place, 0),)) == number(1)
    assert resolved(formulas.ring, guarded, (at_least(place, 1),)) == Formula()


def test_bindings_are_bijections(formulas: Formulas) -> None:
    a, b = formulas.index("a", N), formulas.index("b", N)
    first = formulas.total("a", N, x(a + 2)).summands[0]
    second = formulas.total("b", N, x(b)).summands[0]
    assert [dict(binding) for binding in bindings(formulas.space, first, second)] == [{"b": a + 2}]
    doubled = formulas.total("b", N, x(b * 2)).summands[0]
    assert list(bindings(formulas.space, second, doubled)) in ([], [{"b": b}])


def test_infinity_is_no_number(formulas: Formulas) -> None:
    low = formulas.forms.formula(Number("float32", b"", "-inf"), ())
    assert formulas.ring.exponential(low) == Formula()
    assert formulas.ring.add(low, x(0)) == low
    with pytest.raises(NoFormula):
        formulas.ring.subtract(low, low)
    with pytest.raises(NoFormula):
        formulas.ring.multiply(low, x(0))


def test_only_computed_numbers_are_taken_to_be_finite(formulas: Formulas) -> None:
    infinite = Number("float32", b"", "-inf")
    computed: Source = Term("mul[]:float32", (Element("x", (of(0),)), Element("x", (of(1),))))
    for operand, expected in ((computed, True), (Element("x", (of(0),)), False)):
        unknown = formulas.space.value_of(Term("eq[]:bool", (operand, infinite)), of(2))
        assert says_infinite(formulas.space, (equal(unknown, 1),)) is expected
        assert not says_infinite(formulas.space, (equal(unknown, 0),))


def test_sums_are_named_by_their_depth(formulas: Formulas) -> None:
    sources = []
    for name in ("a", "b"):
        place = formulas.index(name, N)
        sources.append(Reduction("sum", "float32", (name,), (MapPiece((), Element("x", (place,))),)))
    assert sources[0] != sources[1]
    assert canonical_source(formulas.space, sources[0]) == canonical_source(formulas.space, sources[1])


def test_integers_in_floats_are_polynomials(formulas: Formulas) -> None:
    cast = Term("int32 to float32", (Integer(N + 1),))
    assert formulas.forms.formula(cast, ()) == polynomial(N + 1)
