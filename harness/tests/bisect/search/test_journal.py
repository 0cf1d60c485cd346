"""The journal of a search: one that was killed goes on, the file of another is refused, and one can do without."""

import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.bisect.search.trials import Judgement, SearchJournal, Trials, passed
from samebits.errors import RequestError
from samebits.host.isolation import take_notes
from tests.bisect.histories import first_of_line
from tests.bisect.search.test_search import line


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
