"""`samebits history` from the command line, over a folder of documents."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from samebits.host.git import head_commit
from samebits.host.written import Written
from samebits.report.document import to_json
from samebits.report.json_schema import schema
from samebits.report.list import Listing
from samebits.schema.result import Result
from tests.support.documents import document, result
from tests.support.invoke import samebits
from tests.support.toy_model import commit
from tests.support.toy_model import git as run_git

LOWER = result(verdict="rounding", required="rounding")


def write(folder: Path, name: str, row: Result, day: int | None = None, at: str | None = None) -> None:
    """A document of one day; without a day, as an older version wrote it."""
    written = None if day is None else Written(time=f"2026-01-{day:02}T00:00:00Z", commit=at)
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(to_json(replace(document(row), written=written)), encoding="utf-8")


def test_a_month_of_nights(tmp_path: Path) -> None:
    folder = tmp_path / "nights"
    write(folder, "b/1.json", result(), 1)
    write(folder, "a/2.json", LOWER, 2)
    files = [tmp_path / name for name in ("h.json", "h.md", "h.html")]
    ended = samebits("history", folder, "--json", files[0], "--markdown", files[1], "--html", files[2])
    assert (ended.code, ended.lines) == (0, []), ended.out
    assert "2 documents of check by time: 1 result changed, 0 never" in ended.out
    found = json.loads(files[0].read_text())
    jsonschema.validate(found, schema())
    assert [point["file"] for point in found["results"][0]["documents"]] == ["b/1.json", "a/2.json"]
    assert "bitwise -\\> rounding at document 2" in files[1].read_text()
    assert "bitwise -&gt; rounding at document 2" in files[2].read_text()


def test_commits_of_the_repository_order_documents(tmp_path: Path) -> None:
    tree, folder = tmp_path / "tree", tmp_path / "nights"
    tree.mkdir()
    run_git(tree, "init", "-q")
    commits = []
    for text in "12":
        (tree / "file").write_text(text)
        commit(tree)
        commits.append(head_commit(tree))
    write(folder, "old.json", result(), 9, commits[0])  # checked later
    write(folder, "new.json", LOWER, 1, commits[1])
    ended = samebits("history", folder, "--root", tree)
    assert "check, by commit" in ended.out
    assert f"moved at document 2: commit {commits[0][:12]} -> {commits[1][:12]}" in ended.out
    assert "check, by time" in samebits("history", folder, "--root", tmp_path).out


def test_documents_without_a_time_have_that_of_their_file(tmp_path: Path) -> None:
    for name, row, seconds in (("a.json", LOWER, 2_000_000), ("b.json", result(), 1_000_000)):
        write(tmp_path, name, row)
        os.utime(tmp_path / name, (seconds, seconds))
    out = samebits("history", tmp_path).out
    assert "1  b.json (1970-01-12 13:46)" in out and "2  a.json (1970-01-24 03:33)" in out


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    write(tmp_path, "1.json", result(), 1)
    write(tmp_path, "2.json", LOWER, 2)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "list.json").write_text(to_json(Listing(results=(), problems=())))
    ended = samebits("history", tmp_path)
    assert ended.code == 3
    assert f"skipped: {tmp_path}/empty.json: is empty" in ended.out
    assert f"skipped: {tmp_path}/other.json: expected a document" in ended.out
    assert "without verdicts, and not compared: list.json (list)" in ended.out
    assert "2 documents of check by time: 1 result changed, 0 never; 2 files skipped" in ended.out


@pytest.mark.parametrize(
    ("make", "code", "line"),
    [
        ("nothing", 2, "{0}: expected a folder with documents that --json FILE wrote"),
        ("folder", 2, "{0}: has no *.json; expected documents that --json FILE wrote"),
        (
            "one",
            3,
            "'{0}': nothing to compare: it has 1.json (check); a history needs two documents of one command",
        ),
    ],
)
def test_nothing_to_compare(make: str, code: int, line: str, tmp_path: Path) -> None:
    folder = tmp_path / "nights"
    if make != "nothing":
        folder.mkdir()
    if make == "one":
        write(folder, "1.json", result(), 1)
    ended = samebits("history", folder)
    assert (ended.code, ended.lines) == (code, [f"samebits: {line.format(folder)}"])


def test_a_run_writes_its_time_and_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write(tmp_path / "nights", "1.json", result(), 1)
    write(tmp_path / "nights", "2.json", result(), 2)
    samebits("history", tmp_path / "nights", "--root", tmp_path, "--json", tmp_path / "h.json")
    assert json.loads((tmp_path / "h.json").read_text())["written"] == {
        "time": "2023-11-14T22:13:20Z", "commit": None, "dirty": False,
    }  # fmt: skip
