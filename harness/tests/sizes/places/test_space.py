"""Sizes and indices as polynomials: what is shown of them holds at numbers, and what cannot be shown is not said."""

import itertools

import numpy as np
import pytest

from samebits.errors import NotCovered
from samebits.sizes.places import space as space_module
from samebits.sizes.places.demand import constant, is_number
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import element_of
from samebits.sizes.places.facts import Element, Integer, at_least, below, complement, equal
from samebits.sizes.places.linear_questions import LinearQuestions
from samebits.sizes.places.polynomial import dimension, is_not_negative, largest, of, variable
from samebits.sizes.places.solving import solve
from samebits.sizes.places.space import CutIndex, Divisions, Space

M, N, X, Y = map(variable, "mnxy")
NUMBERS = [
    dict(zip("mnxy", values, strict=True)) for values in itertools.product((1, 2, 5), (1, 3), (-4, 0, 7), (2, 9))
]


def _space() -> Space:
    return Space({"m": 1, "n": 1})


def test_polynomials_are_in_normal_form() -> None:
    assert (M + N) * (M - N) == M * M - N * N
    assert str(M * 2 - N + 1) == "2*m - n + 1"
    assert (M * N * 2).quotient(N) == M * 2
    assert (M * N + 1).quotient(N) is None


@pytest.mark.parametrize("divisor", [M, M * 2, M * N, of(3)])
def test_polynomial_division_holds_at_numbers(divisor: object) -> None:
    p = M * M * N * 5 - M * X * 3 + Y - 4
    whole, rest = p.divided(of(divisor))  # type: ignore[arg-type]
    assert all(whole.value(at) * of(divisor).value(at) + rest.value(at) == p.value(at) for at in NUMBERS)  # type: ignore[arg-type]


def test_bounds_know_signs_and_nothing_more() -> None:
    ranges, lowest = {"x": M}, {"m": 1, "n": 1}
    assert is_not_negative(M - 1 - X, ranges, lowest)
    assert not is_not_negative(M - 2 - X, ranges, lowest)
    assert not is_not_negative(X - 1, ranges, lowest)
    assert largest(X * 2, ranges, lowest) == M * 2 - 2


def test_printed_dimensions_are_read_back() -> None:
    assert dimension("2*m*n^2 - 3", lambda name, values: of(0)) == M * N * N * 2 - 3
    with pytest.raises(NotCovered):
        dimension("m if n else 1", lambda name, values: of(0))


def test_divisions_are_those_of_numbers() -> None:
    divisions = Divisions({})
    for p in (X, -X - 1, X + M * 3, X * 2 - 5):
        high, low = divisions.divide(p, M)
        for at in NUMBERS:
            known = dict(at)
            for name, facts in divisions.definitions.items():
                divided = facts[0].polynomial.substitute({name: of(0)})
                text, _, _ = name.rpartition("//" if "//" in name else "%")
                value = dimension(text, lambda name, values: of(0)).value(at)
                known[name] = value // at["m"] if "//" in name else value % at["m"]
                assert divided is not None
            assert (high.value(known), low.value(known)) == divmod(p.value(at), at["m"])


def test_mirrored_remainders_share_their_variables() -> None:
    divisions = Divisions({})
    _, low = divisions.divide(X, M)
    _, mirrored = divisions.divide(-X - 1, M)
    assert mirrored == M - 1 - low


def test_facts_that_exclude_each_other() -> None:
    space = _space()
    x = space.index("x", M)
    assert space.contradicts((at_least(x, M),))
    assert space.contradicts((equal(x, 2), below(M, 3)))
    assert not space.contradicts((equal(x, 2), below(M, 4)))
    assert space.covered_by([(at_least(x, 1),), (equal(x, 0),)])
    assert not space.covered_by([(at_least(x, 2),), (equal(x, 0),)])


def test_what_could_not_be_shown_is_asked_again_after_a_promise() -> None:
    space, ids = _space(), Element("ids", (of(0),))
    value = space.value_of(ids)
    assert not space.contradicts((at_least(value, M),))
    space.promise_below(ids, M)
    assert space.contradicts((at_least(value, M),))


def test_more_conditions_than_the_limit_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "MOST_CONJUNCTIONS", 2)
    space = _space()
    x = space.index("x", M)
    for number in (0, 1, 0, 1):  # those that are known already do not count again
        assert not space.contradicts((equal(x, number), below(M, 9)))
    with pytest.raises(NotCovered, match="more than 2 conditions on indices, the limit for one output"):
        space.contradicts((equal(x, 2), below(M, 9)))


def test_a_complement_covers_the_rest() -> None:
    space = _space()
    x, y = space.index("x", M), space.index("y", N)
    facts = (at_least(x, 1), equal(y, 0))
    assert space.covered_by([facts, *complement(facts)])
    assert not space.covered_by([facts, *complement(facts)[1:]])


def test_a_question_without_an_answer_is_no_proof() -> None:
    questions = LinearQuestions({}, {"m": 1})
    assert not questions.contradict((equal(M * M, 2),))


def test_an_index_is_cut_where_it_must_be() -> None:
    space = _space()
    x = space.index("x", M * N)
    with pytest.raises(CutIndex) as request:
        space.divide(x, N)
    space.cut(request.value)
    high, low = space.divide(space.current(x), N)
    assert str(high) == "x.high"
    assert str(low) == "x.low"


def test_a_divisor_that_may_be_zero_is_not_covered() -> None:
    with pytest.raises(NotCovered):
        _space().divide(X, M - 1)


def test_an_inverse_needs_one_solution() -> None:
    space = _space()
    x, y = space.index("x", M), space.index("y", N)
    place = space.index("place", M * N)
    with pytest.raises(CutIndex) as request:
        solve(space, ("x", "y"), (equal(x * N + y, place),), ())
    space.cut(request.value)
    solution = solve(space, ("x", "y"), (equal(x * N + y, space.current(place)),), ())
    assert solution is not None
    assert {name: str(value) for name, value in solution[1].items()} == {"x": "place.high", "y": "place.low"}
    assert solve(space, ("x", "y"), (equal(x + y, space.current(place)),), ()) is None


def test_elements_are_equal_only_at_equal_places() -> None:
    space = _space()
    x = space.index("x", M)
    first, second = Element("a", (x,)), Element("a", (x + 1,))
    assert same(space, (), first, first)
    assert not same(space, (), first, second)
    assert not same(space, (), first, Element("b", (x,)))
    assert same(space, (equal(x, 0),), first, Element("a", (x * 2,)))


def test_constants_by_place() -> None:
    space = _space()
    x = space.index("x", of(3))
    (line,) = element_of(space, np.array([4, 6, 8]), (x,), ())
    assert line.source == Integer(x * 2 + 4)
    pieces = element_of(space, np.array([4, 6, 9]), (x,), ())
    assert [piece.source for piece in pieces] == [Integer(of(n)) for n in (4, 6, 9)]


def test_a_negative_zero_is_no_zero() -> None:
    assert is_number(constant(np.float32(0.0)), 0)
    assert not is_number(constant(np.float32(-0.0)), 0)
