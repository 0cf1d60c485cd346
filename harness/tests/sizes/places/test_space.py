"""Sizes and indices as polynomials, simple facts and questions to z3: what is shown of them holds at numbers."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import NotCovered
from samebits.sizes.places import linear_questions
from samebits.sizes.places import space as space_module
from samebits.sizes.places.demand import constant, is_number
from samebits.sizes.places.equality import same
from samebits.sizes.places.evaluation import element_of
from samebits.sizes.places.facts import Element, Fact, Facts, Integer, at_least, below, complement, equal
from samebits.sizes.places.linear_questions import LinearQuestions, _contradictory, _Solver
from samebits.sizes.places.polynomial import Polynomial, dimension, is_not_negative, largest, of, variable
from samebits.sizes.places.solving import solve
from samebits.sizes.places.space import CutIndex, Divisions, SimpleFacts, Space

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


ROW, COLUMN = map(variable, "ij")
LOWEST = {"m": 1, "n": 1}


def _box() -> tuple[dict[str, Polynomial], SimpleFacts]:
    ranges = {"i": M, "j": N}
    return ranges, SimpleFacts(ranges, LOWEST)


def _holds(facts: Facts, numbers: dict[str, int]) -> bool:
    values = [(fact.kind, fact.polynomial.value(numbers)) for fact in facts]
    return all(value >= 0 if kind == "not_negative" else value == 0 for kind, value in values)


SMALL = st.integers(-3, 3)


@st.composite
def _facts(draw: st.DrawFn) -> Fact:
    polynomial = of(draw(SMALL))
    for part in (ROW * N + COLUMN, ROW * N, ROW, COLUMN, M * N, N):
        polynomial = polynomial + part * draw(SMALL)
    return draw(st.sampled_from((Fact("not_negative", polynomial), Fact("zero", polynomial))))


@given(st.lists(_facts(), max_size=3), st.integers(1, 4), st.integers(1, 4), st.data())
def test_simple_facts_say_the_same(facts: list[Fact], m: int, n: int, data: st.DataObject) -> None:
    numbers = {"m": m, "n": n, "i": data.draw(st.integers(0, m - 1)), "j": data.draw(st.integers(0, n - 1))}
    _, box = _box()
    for _ in range(2):  # the second time from memory
        simple = box.simplified(tuple(facts))
        assert _holds(tuple(facts), numbers) == (simple is not None and _holds(simple, numbers))


def test_weights_are_left_out() -> None:
    _, box = _box()
    whole = ROW * N + COLUMN
    assert box.simplified((at_least(whole, N * 2),)) == (at_least(ROW, 2),)
    assert box.simplified((equal(whole, N * 2 + 1 - 1),)) == (equal(ROW, 2), equal(COLUMN, 0))
    assert box.simplified((below(whole, M * N),)) == ()
    assert box.simplified((at_least(whole, M * N),)) is None


def test_a_range_that_is_promised_later_counts() -> None:
    ranges, box = _box()
    fact = at_least(variable("t"), 0)
    assert box.simplified((fact,)) == (fact,)
    ranges["t"] = N
    box.look_again()
    assert box.simplified((fact,)) == ()
    assert box.is_not_negative(N - 1 - variable("t"))


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Each test starts without answers, and leaves none."""
    _contradictory.cache_clear()
    yield
    _contradictory.cache_clear()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limit of each question that z3 gets."""
    seen: list[int] = []
    ask = _Solver.is_unsatisfiable

    def noted(self: _Solver, known: Facts, never: tuple[Facts, ...], steps: int) -> bool | None:
        seen.append(steps)
        return ask(self, known, never, steps)

    monkeypatch.setattr(_Solver, "is_unsatisfiable", noted)
    return seen


def _questions(size: int = 4, lowest: int = 1) -> LinearQuestions:
    return LinearQuestions({"x": M * size}, {"m": lowest})


def test_another_proof_asks_no_question_again(limits: list[int]) -> None:
    facts = (at_least(X, M * 4),)
    assert _questions().contradict(facts)
    assert _questions().contradict(facts)
    assert len(limits) == 1


def test_other_ranges_are_other_questions() -> None:
    facts = (at_least(X, M * 4),)
    assert _questions(4).contradict(facts)
    assert not _questions(5).contradict(facts)


def test_other_lowest_sizes_are_other_questions() -> None:
    facts = (equal(M, 1),)
    assert not _questions(lowest=1).contradict(facts)
    assert _questions(lowest=2).contradict(facts)


def test_what_never_holds_is_part_of_a_question() -> None:
    facts, never = (at_least(X, M),), ((at_least(X, M),),)
    for questions in (_questions(), _questions()):  # of one proof, and of the next
        assert not questions.contradict(facts)
        assert questions.contradict(facts, never)
        assert not questions.contradict(facts, ((below(X, M),),))


def test_a_question_of_many_steps_is_asked_alone(limits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_questions, "FEW_STEPS", 1)
    facts = (at_least(X * 3, M * 7 + 1), at_least(M * 7 - 2, X * 3 + of(1)), at_least(X, 2))
    assert _questions().contradict(facts)
    assert limits == [1, linear_questions.STEPS]


def test_a_question_that_reaches_the_limit_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_questions, "FEW_STEPS", 1)
    monkeypatch.setattr(linear_questions, "STEPS", 1)
    assert not _questions().contradict((at_least(X * 3, M * 7 + 1), at_least(M * 7 - 2, X * 3), at_least(X, 2)))
