"""A history in a terminal and as Markdown: groups, the latest change first, and at most 60 lines of Markdown."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from samebits.report.changes.history import HistoryDocument, history_of
from samebits.report.changes.history_text import CAP, LINES, history_markdown, history_sentence, runs, show_history
from samebits.report.terminal import console
from samebits.schema.result import Result
from tests.report.changes.test_history import LOWER, NEWER, night
from tests.support.documents import result
from tests.support.invoke import REPOSITORY


def history(*nights: tuple[Result, ...], skipped: tuple[str, ...] = ()) -> HistoryDocument:
    return history_of("nights", [night(day, *rows) for day, rows in enumerate(nights, 1)], skipped=skipped)


def shown(document: HistoryDocument) -> list[str]:
    to = io.StringIO()
    show_history(console(to), document)
    return to.getvalue().splitlines()


def test_the_rows_and_what_moved_them() -> None:
    document = history_of(
        "nights", [night(1), night(2, LOWER, here=NEWER, commit="a" * 40)], skipped=["x.json: is empty"]
    )
    assert shown(document) == [
        "check, by time",
        "    1  1.json (2026-01-01 00:00): 1 result, 0 fail",
        "    2  2.json (2026-01-02 00:00, commit aaaaaaaaaaaa): 1 result, 0 fail; "
        "jax 0.10.2 -> 0.12.0, commit aaaaaaaaaaaa",
        "norm/multiply, out, case small, bfloat16, mesh data2 (auto): bitwise 1, rounding 1",
        "    moved at document 2: jax 0.10.2 -> 0.12.0, commit none -> aaaaaaaaaaaa",
        "skipped: x.json: is empty",
        "2 documents of check by time: 1 result changed, 0 never; 1 file skipped",
    ]
    assert shown(document)[-1] == history_sentence(document)


def test_results_that_went_the_same_way_are_one_line() -> None:
    meshes = [result(mesh=f"data{size}") for size in (2, 4)]
    lines = shown(history(tuple(meshes), tuple(replace(row, verdict="rounding") for row in meshes)))
    assert "norm/multiply, out, 2 results: case small, bfloat16, data2/4: bitwise 1, rounding 1" in lines


def test_the_example_of_the_guide() -> None:
    old = [result(mesh=f"data{size}") for size in (2, 4, 8)]
    new = [replace(row, verdict="rounding") for row in old]
    nights = [night(day, *old) for day in range(1, 13)] + [night(day, *new, here=NEWER) for day in range(13, 16)]
    guide = (REPOSITORY / "docs" / "guides" / "comparing.md").read_text(encoding="utf-8")
    example = guide.split("```text\n")[1].split("\n```")[0]
    assert shown(history_of("nights", nights))[-3:-1] == example.splitlines()


def test_absent_results_are_called_so() -> None:
    (row,) = history((result(),), (result(leaf="b"),), (LOWER,)).results[0].results
    assert runs(row) == "bitwise 1, absent 1, rounding 1"
    assert "at document 3 since document 1: nothing else that the documents record" in "\n".join(
        shown(history((result(),), (result(leaf="b"),), (LOWER,)))
    )


def test_long_histories_are_counted() -> None:
    rows = tuple(result(pair=f"p{number}") for number in range(CAP + 2))
    nights = [rows] * (CAP + 5) + [tuple(replace(row, verdict="rounding") for row in rows)]
    lines = shown(history(*nights))
    assert "  6 older documents not listed" in lines
    assert "2 more groups; --html FILE and --json FILE have all of them" in lines


@pytest.mark.parametrize("commands", [1, 2, 9])
def test_at_most_sixty_lines_of_markdown(commands: int) -> None:
    rows = tuple(result(pair=f"p{number}") for number in range(50))
    nights = [night(day, *rows) for day in range(1, 28)]
    nights.append(night(28, *(replace(row, verdict="rounding") for row in rows)))
    several = [replace(each, command=f"check{number}") for number in range(commands) for each in nights]
    text = history_markdown(history_of("nights", several, skipped=["x: is empty"] * 20))
    lines = text.splitlines()
    assert len(lines) <= LINES
    assert text.count("<details>") == text.count("</details>") >= 1
    assert "| p0/multiply | out |" in text and "bitwise 27, rounding 1" in text
