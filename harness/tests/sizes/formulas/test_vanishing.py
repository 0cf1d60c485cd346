"""Normal forms of formulas with symbolic sizes, and which of them are shown to be equal."""

from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import pytest

from samebits.sizes.formulas.formula import (
    Formula,
    NoFormula,
    Size,
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
from samebits.sizes.formulas.summands import bindings, counted, from_zero, simplified
from samebits.sizes.formulas.vanishing import (
    MOST_PLACES,
    Vanishing,
    cut_to_fit,
    open_fact,
    resolved,
    unrolled,
    without_denominators,
)
from samebits.sizes.places.equality import same
from samebits.sizes.places.facts import (
    Element,
    Facts,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    at_least,
    below,
    equal,
)
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import ON_LINE

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


SIZE = Size(variable("n"))
X = Element("x", (of(0),))


def over(power: int, *others: tuple[Element, Fraction], bound: tuple[str, ...] = ()) -> Formula:
    return Formula((Summand(powers=(*others, (SIZE, Fraction(power))), bound=bound),))


def test_each_summand_is_multiplied_by_all_denominators() -> None:
    ring = FormulaRing(Space({"n": 1}))
    formula = ring.add(over(-2, (X, Fraction(1))), over(0, (X, Fraction(2))))
    product = without_denominators(ring, formula)
    assert product is not None
    assert ring.subtract(product, ring.multiply(formula, over(2))).summands == ()


def test_without_a_denominator_there_is_nothing_to_do() -> None:
    ring = FormulaRing(Space({"n": 1}))
    assert without_denominators(ring, over(1, (X, Fraction(1)))) is None
    space = Space({"n": 1})
    name = next(iter(space.index("k", variable("n")).variables))
    inside = Formula((Summand(powers=((Size(variable(name) + 1), Fraction(-1)),), bound=(name,)),))
    assert without_denominators(FormulaRing(space), inside) is None


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "rounding"), (1, "different")])
def test_quotients_over_other_denominators_are_compared(wrong: int, verdict: str) -> None:
    def apart(x: jnp.ndarray) -> jnp.ndarray:
        return x / (1 + x * x) + 1 / (2 + x * x)

    def together(x: jnp.ndarray) -> jnp.ndarray:
        square = x * x
        return (x * (2 + square) + 1 + square + wrong) / ((1 + square) * (2 + square))

    (proof,) = prove_all_sizes(apart, together, ON_LINE)
    assert proof.verdict == verdict, proof.reason


def _sum_of_x(places: int) -> tuple[FormulaRing, Formula]:
    space = Space({"n": 1})
    name = next(iter(space.index("k", of(places)).variables))
    return FormulaRing(space), Formula(
        (Summand(powers=((Element("x", (variable(name),)), Fraction(1)),), bound=(name,)),)
    )


def test_each_place_is_a_summand() -> None:
    ring, formula = _sum_of_x(3)
    written = unrolled(ring, formula)
    assert written is not None
    assert {s.powers[0][0] for s in written.summands} == {Element("x", (of(place),)) for place in range(3)}


def test_places_where_facts_do_not_hold_are_left_out() -> None:
    ring, formula = _sum_of_x(3)
    (summand,) = formula.summands
    some = Formula((Summand(powers=summand.powers, bound=summand.bound, facts=(below(variable("k"), of(2)),)),))
    written = unrolled(ring, some)
    assert written is not None and len(written.summands) == 2


def test_many_places_are_not_written_out() -> None:
    assert unrolled(*_sum_of_x(MOST_PLACES + 1)) is None
    assert unrolled(FormulaRing(Space({"n": 1})), Formula((Summand(),))) is None


@pytest.mark.parametrize("wrong", ["another place", "a place twice", "a place left out"])
def test_sums_that_are_written_out_otherwise_are_not_the_same(wrong: str) -> None:
    places = {"another place": (0, 1, 3), "a place twice": (0, 1, 1), "a place left out": (0, 1)}[wrong]
    right, other = (
        lambda x, places=places: sum(jnp.cos(x[::-1] * place) for place in places) for places in ((0, 1, 2), places)
    )

    def summed(x: object) -> object:
        return jnp.cos(x[None, ::-1] * jnp.arange(3)[:, None]).sum(0)  # type: ignore[index]

    (proof,) = prove_all_sizes(summed, right, ON_LINE)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(summed, other, ON_LINE)
    assert proof.verdict == "different"


A, B, C = (variable(name) for name in "abc")


def _space() -> tuple[Space, Any, Any]:
    space = Space({"a": 1, "b": 1, "c": 1})
    return space, space.index("k", A * B + C), space.index("i", A * B + C)


def _of(*facts: Any, powers: Any = ()) -> Summand:
    return Summand(powers=powers, bound=("k",), facts=facts)


def test_places_between_bounds_are_counted() -> None:
    space, k, i = _space()
    for facts, places in (
        ((), A * B + C),
        ((at_least(i, k),), i + 1),
        ((below(k, i),), i),
        ((at_least(k, i),), A * B + C - i),
    ):
        product = counted(space, _of(*facts), ())
        assert product is not None and (product.number, product.bound) == (places, ())
    both = counted(space, _of(at_least(k, 2), below(k, i)), (at_least(i, 5),))
    assert both is not None and both.number == i - 2


def test_where_there_may_be_no_place_that_is_said() -> None:
    space, k, i = _space()
    product = counted(space, _of(at_least(k, 2), below(k, i)), ())
    assert product is not None and product.facts == (at_least(i, 3),)


@pytest.mark.parametrize("why", ["two bounds", "twice the index", "another index", "in the product"])
def test_what_is_not_counted_stays(why: str) -> None:
    space, k, i = _space()
    j = space.index("j", A * B + C)
    facts: dict[str, Facts] = {
        "two bounds": (at_least(i, k), at_least(j, k)),
        "twice the index": (at_least(i, k * 2),),
        "another index": (at_least(space.value_of(Element("ids", (k,))), 1),),
        "in the product": (at_least(i, k),),
    }
    powers = ((Element("x", (k,)), Fraction(1)),) if why == "in the product" else ()
    assert counted(space, _of(*facts[why], powers=powers), ()) is None


def test_a_part_of_an_array_begins_at_zero() -> None:
    space, k, _ = _space()
    high, low = space.divisions.divide(k, B)
    element = Element("x", (high, low))
    part = from_zero(space, _of(below(k, A * B), powers=((element, Fraction(1)),)), ())
    assert part is not None and len(part.bound) == 2 and part.facts == ()
    ((read, _),) = part.powers
    assert isinstance(read, Element)
    assert [space.ranges[next(iter(p.variables))] for p in read.index] == [A, B]
    assert from_zero(space, _of(powers=((element, Fraction(1)),)), ()) is None, "the whole array has no such digits"
    assert from_zero(space, _of(below(k, A * B), powers=((Element("x", (k,)), Fraction(1)),)), ()) is None


BUFFER = Family(symbols={"a": 1, "b": 1, "c": 1}, args={"p": Shaped(("a", "b")), "q": Shaped(("c",))})


def _norm(p: Any, q: Any, *, lost: int = 0, twice: bool = False) -> Any:
    flat = jnp.concatenate([q, p.reshape(-1), *([q] if twice else [])])
    return jnp.square(flat[lost:] if lost else flat).sum()


def test_the_norm_of_a_buffer_is_that_of_its_parts() -> None:
    def of_parts(p: Any, q: Any) -> Any:
        return jnp.square(p).sum() + jnp.square(q).sum()

    for direction in ("forward", "gradient"):
        for proof in prove_all_sizes(of_parts, _norm, BUFFER, direction):
            assert proof.verdict == "rounding", proof.reason
    for wrong in ({"lost": 1}, {"twice": True}):
        (proof,) = prove_all_sizes(of_parts, lambda p, q, wrong=wrong: _norm(p, q, **wrong), BUFFER)
        assert proof.verdict == "different", wrong


@pytest.mark.slow
def test_counts_of_ones_are_places() -> None:
    line = Family(symbols={"n": 1}, args={"x": Shaped(("n",))})

    def counted_up(x: Any, first: float = 0.0) -> Any:
        return x * (jnp.cumsum(jnp.ones_like(x)) - 1 + first)

    (proof,) = prove_all_sizes(lambda x: x * jnp.arange(x.shape[0]), counted_up, line)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(lambda x: x * jnp.arange(x.shape[0]), lambda x: counted_up(x, 1.0), line)
    assert proof.verdict == "different", proof
