"""`samebits report`, and `--html` of a command: a page from documents, and what wrong requests get."""

import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.report.document import to_json
from tests.support.documents import different, document, result
from tests.support.foreign import PLANTED, write_pair
from tests.support.invoke import samebits


@pytest.fixture
def check(tmp_path: Path) -> Path:
    file = tmp_path / "check.json"
    file.write_text(to_json(document(result(), different())))
    return file


def test_the_page_is_beside_the_first_file(check: Path) -> None:
    ended = samebits("report", check)
    assert (ended.code, ended.lines) == (0, [])
    page = check.with_suffix(".html").read_text()
    assert page.startswith("<!doctype html>")
    assert "norm/multiply: 1 of 2 results: different" in page
    assert "check.json: check: failed: norm/multiply: 1 of 2 results: different" in ended.out


def test_html_is_written_by_the_command_itself(tmp_path: Path) -> None:
    write_pair(tmp_path / "tree", "twice", optimized=PLANTED)
    page = tmp_path / "check.html"
    ended = samebits("check", "--root", tmp_path / "tree", "--html", page)
    assert ended.code == 1, ended.out
    assert 'class="banner is-failed"' in page.read_text()
    assert "samebits check twice" in page.read_text()


def test_several_documents_are_one_page(check: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.json"
    second.write_text(to_json(document(result())))
    ended = samebits("report", second, check, "--html", tmp_path / "all.html")
    assert ended.code == 0
    page = (tmp_path / "all.html").read_text()
    assert page.index(">check.json<") < page.index(">second.json<")  # what failed first


def test_shards_are_one_tab(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.json" for number in (1, 2)]
    for number, file in enumerate(files, 1):
        part = replace(document(result(mesh=f"data{number}")), shard=f"{number}/2", request={"pairs": ["norm"]})
        file.write_text(to_json(part))
    samebits("report", *files, "--html", tmp_path / "whole.html")
    page = (tmp_path / "whole.html").read_text()
    assert page.count('<section class="document"') == 1
    assert "2 shards" in page


def test_open_shows_the_page(check: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: shown.append(address))
    ended = samebits("report", check, "--open")
    assert shown == [check.with_suffix(".html").resolve().as_uri()]
    assert ended.lines == [f"samebits: no browser could be started; open {check.with_suffix('.html')} yourself"]


def test_a_missing_file_is_a_wrong_request(tmp_path: Path) -> None:
    ended = samebits("report", tmp_path / "no.json")
    assert (ended.code, ended.lines) == (
        2,
        [f"samebits: {tmp_path}/no.json: cannot be read: No such file or directory"],
    )
    assert not (tmp_path / "no.html").exists()


def test_the_old_name_of_diff_names_the_new_one(check: Path) -> None:
    ended = samebits("report", "diff", check, check)
    line = "samebits: `samebits report diff OLD NEW` is `samebits diff OLD NEW` now, with the same options"
    assert (ended.code, ended.lines) == (2, [line])


def test_a_target_that_cannot_be_written(check: Path, tmp_path: Path) -> None:
    ended = samebits("report", check, "--html", tmp_path / "missing" / "page.html")
    assert ended.code == 2
    assert ended.lines[0].endswith(f"the folder '{tmp_path}/missing' does not exist; create it first")
    ended = samebits("report", check, "--html", check)
    assert (ended.code, ended.lines) == (2, [f"samebits: --html {check}: is one of the documents; give another file"])


def test_html_and_json_are_two_files(tmp_path: Path) -> None:
    ended = samebits("list", "--json", tmp_path / "x", "--html", tmp_path / "x")
    assert (ended.code, ended.lines) == (2, [f"samebits: --json and --html both name {tmp_path}/x; give two files"])


def test_shards_of_two_requests_are_a_wrong_request(tmp_path: Path) -> None:
    files = [tmp_path / "1.json", tmp_path / "2.json"]
    for number, file in enumerate(files, 1):
        part = replace(document(result()), shard=f"{number}/2", request={"pairs": [str(number)]})
        file.write_text(to_json(part))
    ended = samebits("report", *files)
    assert ended.code == 2
    assert "are of different requests: pairs ['1'] and ['2']" in ended.lines[0]
