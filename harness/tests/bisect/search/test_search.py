"""The searches on invented histories and models, where the culprit is known, with their journal: no git, no jax."""

import itertools
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.bisect.search.history import first_failing, least_runs
from samebits.bisect.search.minimal_sets import minimal_sets
from samebits.bisect.search.shrink import smallest
from samebits.bisect.search.trials import (
    Judgement,
    NothingFails,
    SearchJournal,
    SearchSpace,
    Trials,
    TriedPoint,
    ambiguous,
    failed,
    passed,
    ranges,
    space_of_sets,
    untestable,
)
from samebits.errors import CouldNotRun, RequestError
from samebits.host.isolation import take_notes
from tests.bisect.histories import first_of_line

SAME = settings(derandomize=True, deadline=None, max_examples=200)


def line(culprit: int, broken: frozenset[int] = frozenset()) -> Callable[[int], Judgement]:
    """A history in which `culprit` introduced the failure, and `broken` do not build."""

    def judge(number: int) -> Judgement:
        if number in broken:
            return untestable("does not build")
        return failed("step 1: loss") if number >= culprit else passed()

    return judge


@given(st.integers(1, 300), st.data())
@SAME
def test_the_culprit_of_a_line_is_found_within_the_bound(n: int, data: st.DataObject) -> None:
    """Commits 1 to n, 0 is good: at most ceil(log2 n) + 3 runs, both ends among them."""
    culprit = data.draw(st.integers(1, n))
    trials = Trials(line(culprit))
    trials.ends(0, n)
    found = first_of_line(n, trials)
    assert found.culprits == (culprit,)
    assert trials.runs <= math.ceil(math.log2(n)) + 3
    assert trials.runs <= least_runs(n) + 1
    assert trials.repeats == 2, "both ends are run twice"


@given(st.integers(2, 60), st.data())
@SAME
def test_untestable_points_are_named_where_they_hide_the_culprit(n: int, data: st.DataObject) -> None:
    """Whatever does not build: the culprit is among the answers, and every other answer is untestable."""
    culprit = data.draw(st.integers(1, n))
    broken = frozenset(data.draw(st.sets(st.integers(1, n - 1)))) - {n}
    trials = Trials(line(culprit, broken))
    trials.ends(0, n)
    found = first_of_line(n, trials)
    # What cannot be told apart: the culprit, and the untestable points just before the first that fails.
    first = next(i for i in range(culprit, n + 1) if i not in broken)
    last = next(i for i in range(culprit - 1, -1, -1) if i not in broken)
    assert found.culprits == tuple(range(last + 1, first + 1))
    assert set(found.skipped) <= broken


def test_a_stretch_of_untestable_points_is_left_quickly() -> None:
    """Fifty of a hundred do not build, and the culprit is far from them: not all of them are tried."""
    trials = Trials(line(90, frozenset(range(25, 75))))
    trials.ends(0, 100)
    found = first_of_line(100, trials)
    assert found.culprits == (90,)
    assert trials.runs <= 14


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], int]:
    """A history with merges: point n - 1 descends from all that matter."""
    n = draw(st.integers(2, 40))
    parents = {0: ()} | {
        i: tuple(sorted(draw(st.sets(st.integers(max(0, i - 4), i - 1), min_size=1, max_size=2)))) for i in range(1, n)
    }
    return parents, draw(st.integers(0, n - 1))


@pytest.mark.slow
@given(graphs())
@SAME
def test_a_history_with_merges_is_followed(made: tuple[dict[int, tuple[int, ...]], int]) -> None:
    """What descends from the culprit fails."""
    parents, culprit = made
    tip = max(parents)
    fails = {culprit}
    for point in range(culprit + 1, tip + 1):
        if any(parent in fails for parent in parents[point]):
            fails.add(point)
    if tip not in fails:
        return
    reached, todo = set(), [tip]
    while todo:
        point = todo.pop()
        if point not in reached:
            reached.add(point)
            todo += parents[point]
    found = first_failing(parents, tip, lambda point: "fail" if point in fails else "pass")
    assert found.culprits == (culprit,)


def sets_of(*culprits: set[str]) -> Callable[[frozenset[str]], bool]:
    return lambda chosen: any(culprit <= chosen for culprit in culprits)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 31])
def test_a_single_culprit_is_found_within_the_bound(n: int) -> None:
    """ceil(log2 n) + 1 sets name it beside both ends; one more proves that there is no other."""
    names = [f"part{i}" for i in range(n)]
    for culprit in names:
        looked: list[frozenset[str]] = []

        def fails(chosen: frozenset[str], culprit: str = culprit, looked: list[frozenset[str]] = looked) -> bool:
            looked.append(chosen)
            return culprit in chosen

        found = minimal_sets(names, fails)
        assert (found.minimal, found.whole, found.contradictions) == ((frozenset({culprit}),), True, ())
        alone = next((i for i, chosen in enumerate(looked, 1) if chosen == {culprit}), 0)
        assert 2 + alone <= math.ceil(math.log2(n)) + 3
        assert len(looked) <= math.ceil(math.log2(n)) + 2
        assert len(looked) == len(set(looked))


def test_two_of_twelve_cost_at_most_sixty_runs() -> None:
    """Every two of twelve."""
    names = [f"part{i}" for i in range(12)]
    worst = 0
    for two in itertools.combinations(names, 2):
        trials: Trials[frozenset[str]] = Trials(
            lambda chosen, two=two: failed("x") if set(two) <= chosen else passed(),  # type: ignore[misc]
            key=lambda chosen: " ".join(sorted(chosen)),
        )
        trials.ends(frozenset(), frozenset(names))
        found = minimal_sets(names, trials.fails)
        assert (found.minimal, found.whole) == ((frozenset(two),), True)
        worst = max(worst, trials.runs + trials.repeats)
    assert worst <= 60


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=3), min_size=1, max_size=4))
@SAME
def test_all_minimal_sets_are_found(culprits: list[set[str]]) -> None:
    """Overlapping ones, one within another: exactly those of which no other is a part."""
    wanted = {frozenset(a) for a in culprits if not any(b < a for b in culprits)}
    found = minimal_sets("abcdefgh", sets_of(*culprits), most=10_000)
    assert (set(found.minimal), found.whole) == (wanted, True)


def test_a_change_that_heals_is_seen_as_a_contradiction() -> None:
    """The second alone fails; with the first it does not, unless c is there."""
    found = minimal_sets("abc", lambda chosen: "b" in chosen and ("a" not in chosen or "c" in chosen))
    assert frozenset("b") in found.minimal
    assert (frozenset("b"), frozenset("ab")) in found.contradictions or len(found.contradictions) == 0


def test_the_limit_of_looks_is_said() -> None:
    """Many sets, few looks."""
    found = minimal_sets("abcdefgh", sets_of({"a", "b"}, {"c", "d"}, {"e", "f"}), most=12)
    assert not found.whole


def test_shrinking_stops_at_the_smallest_that_still_fails() -> None:
    """At least two in the one direction, three in the other."""
    start = (8, 16)

    def smaller(point: tuple[int, int]) -> list[tuple[int, int]]:
        a, b = point
        return [(i, b) for i in range(1, a)] + [(a, j) for j in range(1, b)]

    assert smallest(start, smaller, lambda point: point[0] >= 2 and point[1] >= 3) == (2, 3)
    assert smallest(start, smaller, lambda point: False) == start


# --- ends, flakiness, signatures -------------------------------------------------------------------------------------


def test_a_search_without_a_good_end_verifies_the_bad_one() -> None:
    """It is run twice, and its failure is the one that counts."""
    trials = Trials(line(3))
    assert trials.end(5).signature == trials.signature == "step 1: loss"
    assert (trials.runs, trials.repeats) == (1, 1)
    with pytest.raises(NothingFails, match="the bad end, 2, passes"):
        Trials(line(3)).end(2)


def test_a_good_end_that_fails_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^the good end, 5, fails already: step 1: loss; give one that passes$"):
        Trials(line(3)).ends(5, 9)


def test_a_bad_end_that_passes_leaves_nothing_to_search() -> None:
    with pytest.raises(NothingFails, match=r"^the bad end, 2, passes: nothing fails; there is nothing to search for$"):
        Trials(line(3)).ends(0, 2)


def test_an_end_that_does_not_build_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^the bad end, 9, cannot be judged: does not build; give one that can$"):
        Trials(line(3, frozenset({9}))).ends(0, 9)


def test_an_end_that_does_not_repeat_is_refused() -> None:
    answers = iter([failed("step 1: loss"), passed()])
    with pytest.raises(
        CouldNotRun, match="does not repeat: fail step 1: loss, pass in 2 runs; nothing can be searched"
    ):
        Trials[int](lambda point: next(answers)).ends(0, 1)


def test_an_end_that_fails_twice_otherwise_does_not_repeat() -> None:
    answers = iter([failed("step 1: loss"), failed("step 2: loss")])
    with pytest.raises(CouldNotRun, match="does not repeat: fail step 1: loss, fail step 2: loss in 2 runs"):
        Trials[int](lambda point: next(answers)).ends(0, 1)


def test_flaky_points_are_ambiguous_and_skipped() -> None:
    """Point 4 fails every second time; 6 introduced the failure."""
    flips = itertools.cycle([failed("step 1: loss"), passed()])

    def judge(point: int) -> Judgement:
        return next(flips) if point == 4 else line(6)(point)

    trials = Trials(judge, repeat=2)
    trials.ends(0, 8)
    found = first_of_line(8, trials)
    assert (found.culprits, found.skipped) == ((6,), (4,))
    assert [trial.outcome for trial in trials.tried if trial.point == "4"] == ["ambiguous"]


def test_another_failure_is_not_the_one_that_is_searched() -> None:
    """Points 3 to 5 fail otherwise: not the culprit, although they fail."""

    def judge(point: int) -> Judgement:
        return failed("step 9: loss") if 3 <= point <= 5 else line(6)(point)

    trials = Trials(judge)
    trials.ends(0, 8)
    found = first_of_line(8, trials)
    assert found.culprits == (3, 4, 5, 6)
    assert {t.detail for t in trials.tried if t.outcome == "ambiguous"} == {"another failure: step 9: loss"}


def test_ambiguous_judgements_are_skipped() -> None:
    trials = Trials[int](lambda point: ambiguous("no answer") if point == 4 else line(7)(point))
    trials.ends(0, 8)
    assert first_of_line(8, trials).culprits == (7,)


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


class Killed(Exception):
    pass


@given(st.integers(1, 60), st.data())
@settings(derandomize=True, deadline=None, max_examples=40)
def test_a_killed_search_goes_on_where_it_was(n: int, data: st.DataObject) -> None:
    """Killed after any number of runs, its last line torn: nothing is run again but what was torn."""
    culprit, alive = data.draw(st.integers(1, n)), data.draw(st.integers(0, 8))
    with tempfile.TemporaryDirectory() as folder:
        path, count = Path(folder) / "journal.jsonl", itertools.count()

        def mortal(point: int) -> Judgement:
            if next(count) >= alive:
                raise Killed
            return line(culprit)(point)

        def search(judge: Callable[[int], Judgement]) -> tuple[tuple[int, ...], int]:
            trials = Trials(judge, journal=SearchJournal(path, "what"))
            trials.ends(0, n)
            return first_of_line(n, trials).culprits, trials.runs + trials.repeats

        whole, total = None, 0
        try:
            search(mortal)
        except Killed:
            kept = len(path.read_text().splitlines()) - 1 if path.exists() else 0
            assert kept == alive
            if path.exists():
                with path.open("a") as file:
                    file.write('{"key": "5", "outco')
        after: list[int] = []

        def recorded(point: int) -> Judgement:
            after.append(point)
            return line(culprit)(point)

        whole, total = search(recorded)
        assert whole == (culprit,)
        assert len(after) == max(0, total - alive)


def test_the_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    SearchJournal(path, "one").add("a", passed())
    with pytest.raises(RequestError, match="belongs to another search; give another file, or remove it to start over"):
        SearchJournal(path, "two")
    path.write_text("no json\n")
    with pytest.raises(RequestError, match="is not a journal of a bisection; give another file, or remove it"):
        SearchJournal(path, "one")


def test_a_search_whose_journal_cannot_be_written_goes_on(tmp_path: Path) -> None:
    """As where the cache folder is read-only; here a file is in its place, which root cannot write into either."""
    (tmp_path / "cache").write_text("")
    take_notes()
    trials = Trials(line(3), journal=SearchJournal(tmp_path / "cache" / "bisect" / "journal.jsonl", "what"))
    trials.ends(0, 4)
    assert first_of_line(4, trials).culprits == (3,)
    (text,) = take_notes()
    assert text.endswith("cannot be written (Not a directory): this search cannot be continued later")


def test_a_remembered_point_is_marked_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        trials = Trials(line(3), journal=SearchJournal(path, "what"))
        trials.ends(0, 4)
        first_of_line(4, trials)
    assert all(trial.remembered for trial in trials.tried)
    assert trials.runs == 4
    assert all(json.loads(text) for text in path.read_text().splitlines())
