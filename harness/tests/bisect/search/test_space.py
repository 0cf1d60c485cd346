"""What a report can draw of a search: its candidates, what each point takes of them, and which are left after it."""

import msgspec
import pytest

from samebits.bisect.search.history import first_failing
from samebits.bisect.search.minimal_sets import minimal_sets
from samebits.bisect.search.trials import (
    Judgement,
    NothingFails,
    SearchSpace,
    Trials,
    TriedPoint,
    failed,
    passed,
    ranges,
    space_of_sets,
    untestable,
)

NAMES = ("moe", "norm", "rope", "loss")


def judge_line(number: int) -> Judgement:
    """Point 6 introduced the failure; 4 does not build."""
    return untestable("does not build") if number == 4 else failed("x") if number >= 6 else passed()


def test_positions_become_ranges() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == ((0, 2), (5, 5), (7, 8))
    assert ranges([]) == ()


def test_every_point_of_a_history_says_what_is_left() -> None:
    trials = Trials(judge_line)
    trials.space = SearchSpace(
        candidates=tuple(f"commit {n}" for n in range(1, 9)), taken=lambda n: (n - 1,) if n else ()
    )
    trials.ends(0, 8)
    graph = {number: (number - 1,) for number in range(1, 9)}
    first = first_failing(graph, 8, trials, trials.narrowed)
    assert first.culprits == (6,)
    rows = trials.finding(found=True, sentence="")
    assert rows.candidates[5] == "commit 6"
    shown = [(trial.point, trial.taken, trial.left) for trial in rows.trials]
    assert shown[:2] == [("8", (7,), None), ("0", (), None)], "the ends narrow nothing"
    assert shown[-1][2] == ((5, 5),), "the culprit alone is left after the last point"
    assert ("4", (3,), ((0, 7),)) in shown, "a point that does not build leaves all that was left before it"
    sizes = [sum(last - first + 1 for first, last in left) for _, _, left in shown[2:] if left is not None]
    assert sizes == sorted(sizes, reverse=True)


def test_a_history_says_how_many_points_are_left() -> None:
    """At the least, as each run halves the candidates; nothing before the first, and nothing for what is remembered."""
    said: list[int | None] = []
    trials = Trials[int](lambda n: failed("x") if n >= 6 else passed(), judged=lambda seconds, left: said.append(left))
    trials.ends(0, 16)
    parents = {number: (number - 1,) if number > 1 else () for number in range(1, 17)}
    assert first_failing(parents, 16, trials, trials.narrowed).culprits == (6,)
    assert said == [None, None, None, 2, 1, 0]
    trials(6)
    assert len(said) == 6


def test_both_sides_of_a_merge_can_be_left() -> None:
    graph = {"a": (), "b": ("a",), "c": ("a",), "d": ("b",), "e": ("c",), "m": ("d", "e")}
    trials = Trials[str](lambda name: failed("x") if name in ("e", "m") else passed())
    trials.ends("start", "m")
    first_failing(graph, "m", trials, trials.narrowed)
    assert [trial.left for trial in trials.tried if trial.point == "d"] == [((2, 2), (4, 5))]


def test_a_set_says_which_candidates_it_takes() -> None:
    def judge(point: frozenset[str]) -> Judgement:
        return failed("loss") if "rope" in point else passed()

    trials = Trials(judge, key=lambda point: " ".join(sorted(point)))
    trials.space = space_of_sets(NAMES)
    trials.ends(frozenset(), frozenset(NAMES))
    minimal_sets(list(NAMES), trials.fails)
    taken = {trial.taken: trial.outcome for trial in trials.tried}
    assert taken[0, 1, 2, 3] == "fail" and taken[()] == "pass" and taken[(2,)] == "fail"


def test_a_search_that_finds_nothing_keeps_its_points() -> None:
    trials = Trials(judge_line)
    with pytest.raises(NothingFails) as nothing:
        trials.ends(0, 3)
    assert [(trial.point, trial.outcome, trial.looks) for trial in nothing.value.tried] == [("3", "pass", 2)]


def test_points_of_an_older_document_open() -> None:
    old = {"number": 1, "point": "a", "outcome": "pass", "signature": "", "detail": "", "looks": 1, "remembered": False}
    trial = msgspec.convert({**old, "seconds": 0.5}, TriedPoint, strict=True)
    assert (trial.taken, trial.left, dict(trial.measures)) == ((), None, {})
