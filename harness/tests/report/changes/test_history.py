"""Documents through time: their order, which results moved, where and why; what never moved is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.changes.documents import document_rows
from samebits.report.changes.history import CommandHistory, Dated, history_of
from samebits.schema.result import Result
from tests.support.documents import ENVIRONMENT, document, result

NEWER = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"})


def night(
    day: int, *rows: Result, commit: str | None = None, dirty: bool = False, here: Environment = ENVIRONMENT
) -> Dated:
    written = Written(time=f"2026-01-{day:02}T00:00:00Z", commit=commit, dirty=dirty)
    rows = rows or (result(),)
    return Dated(
        file=f"{day}.json", command="check", written=written, environment=here, rows=document_rows(document(*rows))
    )


def only(documents: Sequence[Dated], commits: Sequence[str] = ()) -> CommandHistory:
    (history,) = history_of("nights", documents, commits).results
    return history


LOWER = result(verdict="rounding")


def test_times_order_documents() -> None:
    history = only([night(3), night(1), night(2)])
    assert (history.order, [point.file for point in history.documents]) == ("time", ["1.json", "2.json", "3.json"])
    assert (history.results, history.unchanged) == ((), 1)


def test_commits_order_documents_where_all_are_known() -> None:
    nights = [night(1, commit="c"), night(2, commit="a"), night(3, commit="b"), night(4, commit="a")]
    history = only(nights, ["a", "b", "c"])
    assert (history.order, [point.file for point in history.documents]) == (
        "commit",
        ["2.json", "4.json", "3.json", "1.json"],
    )
    assert only(nights, ["a", "b"]).order == "time", "one commit is not known"
    assert only([night(1, commit="a"), night(2, commit="a")], ["a"]).order == "time"


def test_a_move_names_the_package() -> None:
    history = only([night(1), night(2), night(3, LOWER, here=NEWER), night(4, LOWER, here=NEWER)])
    (row,) = history.results
    assert row.verdicts == ("bitwise", "bitwise", "rounding", "rounding")
    (move,) = row.moves
    assert (move.at, move.since, move.worse, move.because) == (2, 1, True, ("jax 0.10.2 -> 0.12.0",))
    assert [len(point.environments) for point in history.documents] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        ({"commit": "a" * 40}, {"commit": "b" * 40}, ("commit aaaaaaaaaaaa -> bbbbbbbbbbbb",)),
        ({"commit": "a"}, {"commit": "a", "dirty": True}, ("uncommitted changes of the tree",)),
        ({"commit": "a"}, {"commit": "a"}, ()),
    ],
)
def test_a_move_names_the_commit(before: Any, after: Any, because: tuple[str, ...]) -> None:
    (row,) = only([night(1, **before), night(2, LOWER, **after)]).results
    assert row.moves[0].because == because


def test_what_was_not_made_is_no_move() -> None:
    skipped = result(verdict="skipped", ok=False)
    other = result(leaf="other")
    history = only([night(1), night(2, other), night(3, skipped), night(4, result()), night(5, LOWER)])
    (row,) = history.results
    assert row.verdicts == ("bitwise", None, "skipped", "bitwise", "rounding")
    assert [(move.since, move.at) for move in row.moves] == [(3, 4)]
    (row,) = only([night(1), night(2, other), night(3, LOWER)]).results
    assert [(move.since, move.at) for move in row.moves] == [(0, 2)]


def test_a_failure_that_is_fixed_moves_twice() -> None:
    broken = result(verdict="different", ok=False)
    (row,) = only([night(1), night(2, broken), night(3)]).results
    assert row.failed == (1,)
    assert [move.worse for move in row.moves] == [True, False]


def test_an_exemption_is_a_move_too() -> None:
    broken = result(verdict="different", ok=False)
    (row,) = only([night(1, broken), night(2, replace(broken, ok=True, exempt=True))]).results
    assert [(move.before, move.after, move.worse) for move in row.moves] == [("different", "different", False)]


def test_moved_bits_of_the_reference_are_counted() -> None:
    history = only([night(1, result(bits="1")), night(2, result(bits="2")), night(3, result(bits="2"))])
    assert [point.moved for point in history.documents] == [0, 1, 0]


def test_commands_are_apart_and_single_ones_are_named() -> None:
    other = replace(night(1), command="prove", file="p.json")
    history = history_of("nights", [night(1), night(2, LOWER), other], skipped=["x.json: is empty"])
    assert [row.command for row in history.results] == ["check"]
    assert history.notes == ("alone of their command, and not compared: p.json (prove)",)
    assert history.skipped == ("x.json: is empty",)


@pytest.mark.parametrize(
    ("documents", "skipped", "there"),
    [
        ([], (), "no document could be read"),
        ([night(1)], (), "it has 1.json (check)"),
    ],
)
def test_nothing_to_compare_is_an_error(documents: list[Dated], skipped: tuple[str, ...], there: str) -> None:
    with pytest.raises(CouldNotRun) as error:
        history_of("nights", documents, skipped=skipped)
    assert str(error.value) == (f"'nights': nothing to compare: {there}; a history needs two documents of one command")


def test_files_of_which_none_can_be_read_are_a_wrong_request() -> None:
    with pytest.raises(RequestError) as error:
        history_of("nights", [], skipped=("x.json: is empty", "y.json: is empty"))
    assert str(error.value) == "'nights': no document could be read; the first: x.json: is empty"
