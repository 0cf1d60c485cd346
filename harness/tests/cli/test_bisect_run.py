"""Ctrl-C and SIGTERM in a bisection: what was judged so far is shown and written, and the same command continues."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.bisect.search.trials import Judgement, SearchFinding, failed, passed
from samebits.bisect.session import Search, Session
from samebits.cli import pipeline
from samebits.cli.bisect import PairsOptions
from samebits.cli.bisect_run import search_cause
from samebits.cli.pipeline import run_command
from samebits.host import environment
from tests.support.blank import blank

environment.prepare()


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted command ends its process without waiting for the compilations that run."""
    monkeypatch.setattr(pipeline, "exit_without_waiting", lambda code: None)


def interrupted(folder: Path, points: int, fresh: bool = False, number: signal.Signals = signal.SIGINT) -> int:
    """A search of numbers, the first of which fails, that is interrupted after so many."""

    def judge(point: int) -> Judgement:
        if point == points:
            os.kill(os.getpid(), number)
        return passed("holds") if point else failed("differs")

    def search(session: Session) -> SearchFinding:
        trials = session.trials("numbers", judge, searched={})
        for point in range(points + 1):
            trials(point)
        raise AssertionError

    session = Session(journal=folder / "journal", fresh=fresh)
    return searched("numbers", search, session, PairsOptions(json=folder / "r.json", markdown=folder / "r.md"))


def searched(what: str, search: Search, session: Session, chosen: PairsOptions) -> int:
    return run_command(lambda run: search_cause(chosen, what, search, session, run, cached=False), chosen)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_points_judged_before_an_interrupt_are_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """CI systems cancel with SIGTERM."""
    assert interrupted(tmp_path, 2, number=number) == 3
    out, err = capsys.readouterr()
    assert "samebits: interrupted; what was judged so far is shown" in err
    assert "interrupted, 2 points judged; the same command continues from the journal" in out
    finding = json.loads((tmp_path / "r.json").read_text())["finding"]
    assert (finding["interrupted"], finding["found"]) == (True, False)
    assert [trial["outcome"] for trial in finding["trials"]] == ["fail", "pass"]
    assert "\n\ninterrupted, 2 points judged;" in (tmp_path / "r.md").read_text()
    assert interrupted(tmp_path, 3) == 3, "it goes on where it was"
    again = json.loads((tmp_path / "r.json").read_text())["finding"]
    assert [trial["remembered"] for trial in again["trials"]] == [True, True, False]


def test_a_fresh_search_continues_without_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert interrupted(tmp_path, 1, fresh=True) == 3
    assert "1 point judged; the same command without --fresh continues" in capsys.readouterr().out


def test_an_interrupt_before_the_first_judgement_is_written_too(tmp_path: Path) -> None:
    def search(session: Session) -> SearchFinding:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError

    assert searched("numbers", search, Session(), PairsOptions(json=tmp_path / "r.json")) == 3
    finding = json.loads((tmp_path / "r.json").read_text())["finding"]
    assert (finding["interrupted"], finding["sentence"]) == (True, "interrupted before anything was judged")


def test_what_is_searched_is_in_the_document(tmp_path: Path) -> None:
    """In words of the command line; not where, and not with which workers."""
    chosen = blank(PairsOptions)
    chosen = replace(chosen, config="moe", choices=("norm=fast", "rope=fast"), in_process=True, root=tmp_path, most=3)
    chosen = replace(chosen, json=tmp_path / "r.json")
    nothing = SearchFinding(what="pairs", found=False, sentence="nothing fails")
    assert searched("pairs", lambda session: nothing, Session(), chosen) == 0
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["asked"] == "--config moe --choice norm=fast --choice rope=fast"
