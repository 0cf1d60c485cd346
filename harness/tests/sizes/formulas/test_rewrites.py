"""Products with other indices and fewer facts: the same sums, and nothing where a law does not hold."""

import itertools
import operator as op
from collections.abc import Callable
from fractions import Fraction

import pytest

from samebits.sizes.formulas.formula import Formula, Summand
from samebits.sizes.formulas.normal_form import NormalForms, compared, equal_answers
from samebits.sizes.formulas.signs import never_negative, possible, says_negative
from samebits.sizes.formulas.summands import merged
from samebits.sizes.formulas.vanishing import with_other_indices, with_quotient
from samebits.sizes.places.equality import same
from samebits.sizes.places.facts import (
    Element,
    Fact,
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

M, N, T = variable("m"), variable("n"), variable("t[]")
ZERO = Number("float32", b"", "0.0")


def x(place: Polynomial) -> Element:
    return Element("x", (place,))


def applied(operation: str, *operands: Source) -> Term:
    return Term(f"{operation}[]:float32", operands)


@pytest.fixture
def space() -> Space:
    space = Space({"m": 1, "n": 1})
    space.value_of(Element("t", ()))
    return space


def summand(*facts: Fact, place: Polynomial, bound: tuple[str, ...], factor: int = 1) -> Summand:
    return Summand(Fraction(factor), powers=((x(place), Fraction(1)),), bound=bound, facts=facts)


def shown(space: Space, first: Summand, second: Summand, known: Facts = ()) -> bool:
    return NormalForms(space, same).vanishing.equal(Formula((first,)), Formula((second,)), known)


def _windows(space: Space) -> tuple[Summand, Summand, Polynomial]:
    """The elements `s` below 4 with `(t - s) % m == i`, once by their place and once by the turn round `m`."""
    i, s = space.index("i", M), space.index("s", of(4))
    turns = space.index("q", space.divide(of(3), M)[0] + 2)
    by_place = summand(equal(space.divide(T - s, M)[1], i), place=s, bound=("s",))
    start = space.divide(T + 1, M)[1]
    place = turns * M + start - i - 1
    by_turn = summand(at_least(place, 0), below(place, 4), place=place, bound=("q",))
    return by_place, by_turn, place


def test_a_remainder_is_an_equation_with_its_quotient(space: Space) -> None:
    by_place, by_turn, _ = _windows(space)
    opened = with_quotient(space, by_place)
    assert opened is not None and len(opened.bound) == 1 and opened.bound[0] not in space.ranges
    assert shown(space, by_place, by_turn)


def test_windows_that_are_not_the_same_are_not_shown(space: Space) -> None:
    by_place, _, place = _windows(space)
    later = summand(at_least(place, 1), below(place, 4), place=place, bound=("q",))
    moved = summand(at_least(place, 0), below(place, 3), place=place + 1, bound=("q",))
    for other in (later, moved):
        assert not shown(space, by_place, other)
    # A turn fewer is too few where the window is longer than what is left of the last one.
    fewer = space.index("u", space.divide(of(3), M)[0] + 1)
    shorter = fewer * M + space.divide(T + 1, M)[1] - variable("i") - 1
    assert not shown(space, by_place, summand(at_least(shorter, 0), below(shorter, 4), place=shorter, bound=("u",)))


def test_a_value_that_no_remainder_has_is_a_fact(space: Space) -> None:
    s = space.index("s", of(4))
    beyond = summand(equal(space.divide(T - s, M)[1], M), place=s, bound=("s",))
    forms = NormalForms(space, same)
    assert forms.vanishing.vanishes(Formula((beyond,)), ())
    assert not forms.vanishing.vanishes(
        Formula((summand(equal(space.divide(T - s, M)[1], M - 1), place=s, bound=("s",)),)), ()
    )
    opened = with_quotient(space, beyond)
    assert opened is not None and any(fact.polynomial.constant == -1 for fact in opened.facts)


def test_an_index_that_is_zero_is_no_index(space: Space) -> None:
    s = space.index("s", N)
    single = summand(at_least(0, s), place=s, bound=("s",))
    assert shown(space, single, summand(place=of(0), bound=()))
    (other,) = with_other_indices(space, [], [single], ()) or []
    assert other.bound == ()
    two = summand(at_least(1, s), place=s, bound=("s",))
    assert with_other_indices(space, [], [two], ()) is None
    assert not shown(space, two, summand(place=of(0), bound=()))


def test_a_digit_counts_from_the_end(space: Space) -> None:
    whole, high, low = space.index("a", M * N), space.index("h", M), space.index("l", N)
    first = summand(place=whole, bound=("a",))
    assert shown(space, first, summand(place=(M - 1 - high) * N + low, bound=("h", "l")))
    assert not shown(space, first, summand(place=(M - high) * N + low, bound=("h", "l")))
    assert not shown(space, first, summand(at_least(high, 1), place=(M - 1 - high) * N + low, bound=("h", "l")))
    assert not shown(space, first, summand(place=(M - 1 - high) * N + low + 1, bound=("h", "l")))


def test_inequalities_are_known_of_products_too(space: Space) -> None:
    p, q = variable("p"), variable("q")
    apart = (at_least(q, p + 1), at_least(p * N + N - 1, q * N))
    assert space.contradicts(apart)
    assert not space.contradicts((at_least(q, p), at_least(p * N + N - 1, q * N)))
    assert not space.contradicts((at_least(q, p + 1), at_least(p * N + N, q * N)))


def test_bounds_of_an_index_are_those_of_a_size_that_is_a_number(space: Space) -> None:
    i = space.index("i", M)
    assert space.contradicts((equal(M, 1), at_least(i, 1)))
    assert not space.contradicts((equal(M, 2), at_least(i, 1)))


def test_two_cases_that_make_up_one_are_merged(space: Space) -> None:
    s = space.index("s", N)
    answer = space.value_of(Term("is_finite[]:bool", (x(of(0)),)), of(2))

    def cases(*facts: Fact, factors: tuple[int, ...] = (1, 1, 1)) -> tuple[Summand, ...]:
        pairs = zip(facts, factors, strict=False)
        return merged(space, [summand(fact, place=s, bound=("s",), factor=factor) for fact, factor in pairs])

    everywhere = (summand(place=s, bound=("s",)),)
    assert cases(equal(answer, 0), equal(answer, 1)) == everywhere
    assert cases(below(s, 5), at_least(s, 5)) == everywhere
    assert cases(below(s, 5), equal(s, 5), at_least(s, 6)) == everywhere
    assert len(cases(below(s, 5), at_least(s, 4))) == 2, "both stand at 4"
    assert len(cases(below(s, 5), at_least(s, 6))) == 2, "neither stands at 5"
    assert len(cases(equal(s, 0), equal(s, 1))) == 2, "an index is no answer of yes or no"
    assert len(cases(equal(answer, 0), equal(answer, 1), factors=(1, 2))) == 2


def test_numbers_that_are_never_negative(space: Space) -> None:
    power = applied("exp", x(of(0)))
    total: Source = Reduction("sum", "float32", ("s",), (MapPiece((), applied("exp", x(space.index("s", N)))),))
    for source in (power, total, applied("mul", power, total), applied("div", total, power), applied("abs", x(of(0)))):
        assert never_negative(source)
    for source in (x(of(0)), applied("sub", total, power), applied("neg", power), applied("log", power), Integer(N)):
        assert not never_negative(source)
    largest = Reduction("max", "float32", ("s",), (MapPiece((), power),))
    assert not never_negative(largest), "of nothing it is -inf"


@pytest.mark.parametrize(
    ("operation", "zero_first", "answer"), [("ge", False, 1), ("lt", False, 0), ("le", True, 1), ("gt", True, 0)]
)
def test_signs_decide_comparisons(space: Space, operation: str, zero_first: bool, answer: int) -> None:
    power = applied("exp", x(of(0)))
    operands: tuple[Source, ...] = (ZERO, power) if zero_first else (power, ZERO)
    known = space.value_of(Term(f"{operation}[]:bool", operands), of(2))
    pieces = [MapPiece((equal(known, value), equal(T, 3)), x(of(value))) for value in (0, 1)]
    assert possible(space, pieces) == [MapPiece((equal(T, 3),), x(of(answer)))]
    assert says_negative(space, (equal(known, 1 - answer),))
    turned = space.value_of(Term(f"{operation}[]:bool", operands[::-1]), of(2))
    assert not any(says_negative(space, (equal(turned, value),)) for value in (0, 1))
    other = Term(f"{operation}[]:bool", (x(of(0)), ZERO))
    assert not says_negative(space, (equal(space.value_of(other, of(2)), 1 - answer),))


def test_answers_are_equal_of_equal_operands_alone(space: Space) -> None:
    one = Number("float32", b"", "1.0")
    total, other = applied("add", x(of(0)), x(of(1))), applied("add", x(of(1)), x(of(0)))
    forms = NormalForms(space, same)

    def equations(first: Term, second: Term) -> int:
        names = [space.value_of(term, of(2)) for term in (first, second)]
        facts = tuple(equal(name, 1) for name in names)
        return len(
            equal_answers(
                space, facts, (), lambda a, b: forms.vanishing.equal(forms.formula(a, ()), forms.formula(b, ()), ())
            )
        )

    assert equations(Term("lt[]:bool", (total, one)), Term("lt[]:bool", (other, one))) == 1
    assert equations(Term("lt[]:bool", (total, one)), Term("le[]:bool", (other, one))) == 0
    assert equations(Term("lt[]:bool", (total, one)), Term("lt[]:bool", (one, other))) == 0
    assert equations(Term("lt[]:bool", (total, one)), Term("lt[]:bool", (applied("add", other, one), one))) == 0


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize(("order", "holds"), [("gt", op.gt), ("ge", op.ge), ("lt", op.lt), ("le", op.le)])
def test_a_comparison_chooses_the_extreme(
    space: Space, kind: str, swapped: bool, answer: int, order: str, holds: Callable[[int, int], bool]
) -> None:
    """At all numbers with that answer, the operand that is chosen is the extreme one."""
    operands = x(M), x(N)
    comparison = Term(f"{order}[]:bool", operands[::-1] if swapped else operands)
    fact = equal(space.value_of(comparison), answer)
    chosen = compared(space, (fact,), applied(kind, *operands))
    assert chosen is not None
    for numbers in itertools.product(range(3), repeat=2):
        if holds(*(numbers[::-1] if swapped else numbers)) == bool(answer):
            assert numbers[chosen] == (max if kind == "max" else min)(numbers)
    assert compared(space, (fact,), applied(kind, x(M), x(M + N))) is None
    assert compared(space, (), applied(kind, *operands)) is None


@pytest.mark.parametrize("less", [None, "0.0", "1.0", "2.0", "0.5"])
@pytest.mark.parametrize(("order", "holds"), [("gt", op.gt), ("ge", op.ge), ("lt", op.lt), ("le", op.le)])
@pytest.mark.parametrize("factor", [1, -1])
@pytest.mark.parametrize("more", range(-4, 5))
def test_the_sign_of_a_size_is_that_of_the_integer(
    space: Space, order: str, holds: Callable[[float, float], bool], less: str | None, more: int, factor: int
) -> None:
    """What is said of `m + more - less` and 0, or of `-m` in the place of m, is so for every m from 1 on."""
    number: Source = Term("int32 to float32", (Integer(M * factor + more),))
    if less is not None:
        number = applied("sub", number, Number("float32", b"", less))
    answer = space.value_of(Term(f"{order}[]:bool", (number, ZERO)))
    answers = {holds(factor * m + more - float(less or 0), 0) for m in range(1, 9)}
    for said in (0, 1):
        if says_negative(space, (equal(answer, said),)):
            assert bool(said) not in answers
    if less != "0.5" and len(answers) == 1 and factor * (more - float(less or 0)) >= 0:
        assert says_negative(space, (equal(answer, 1 - answers.pop()),))
