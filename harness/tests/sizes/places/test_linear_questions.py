"""Answers of z3 that a process remembers: right for each question, and the same whatever was asked before."""

from collections.abc import Iterator

import pytest

from samebits.sizes.places import linear_questions
from samebits.sizes.places.facts import Facts, at_least, below, equal
from samebits.sizes.places.linear_questions import LinearQuestions, _contradictory, _Solver
from samebits.sizes.places.polynomial import of, variable

M, X = variable("m"), variable("x")


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
