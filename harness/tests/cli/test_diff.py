"""`samebits diff` from the command line, over documents that checks wrote."""

import json
from pathlib import Path

import jsonschema
import pytest
from junitparser.xunit2 import JUnitXml

from samebits.report.document import to_json
from samebits.report.json_schema import schema
from tests.support.documents import different, document, result
from tests.support.foreign import FORWARD, PLANTED, write_pair
from tests.support.invoke import samebits


def checked(root: Path, file: Path) -> Path:
    samebits("check", "--root", root, "--json", file)
    assert file.is_file()
    return file


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("documents")
    write_pair(folder / "base", "twice", extra=FORWARD)
    write_pair(folder / "branch", "twice", optimized=PLANTED, extra=FORWARD)
    return checked(folder / "base", folder / "base.json"), checked(folder / "branch", folder / "branch.json")


def test_a_branch_that_broke_a_pair(documents: tuple[Path, Path], tmp_path: Path) -> None:
    base, branch = documents
    files = [tmp_path / name for name in ("d.json", "d.md", "d.xml")]
    reports = ("--json", files[0], "--markdown", files[1], "--junitxml", files[2])
    ended = samebits("diff", base, branch, *reports, "--github", "--root", branch.parent / "branch")
    assert (ended.code, ended.lines) == (1, []), ended.out
    assert "2 results compared: new failure 1; 1 worse" in ended.out
    found = json.loads(files[0].read_text())
    jsonschema.validate(found, schema())
    assert {row["change"] for row in found["results"]} == {"new failure"}
    assert files[1].read_text().startswith("### samebits diff: worse")
    (suite,) = JUnitXml.fromfile(str(files[2]))
    assert suite.failures == 1
    (line,) = [line for line in ended.out.splitlines() if line.startswith("::")]
    assert "suites/test_twice.py,line=10,title=samebits%3A twice/fast%2C case small%3A new failure::" in line


def test_a_branch_that_changed_nothing(documents: tuple[Path, Path]) -> None:
    base, branch = documents
    for file in (base, branch):  # failures of the base are no failures of a branch that has them too
        ended = samebits("diff", file, file)
        assert ended.code == 0 and ended.out.rstrip().endswith("nothing is worse"), ended.out


def test_documents_without_a_common_result(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, row in zip(files, (result(pair="a"), different(pair="b")), strict=True):
        file.write_text(to_json(document(row)), encoding="utf-8")
    ended = samebits("diff", *files, "--github")
    line = (
        f"nothing is compared: {files[0]} has 1 results, {files[1]} 1, and they have none in common; were both made "
        "with the same pairs and filters?"
    )
    assert (ended.code, ended.lines) == (3, [f"samebits: {line}"])
    assert ended.out == f"::error title=samebits::{line}\n"


def test_a_file_that_is_no_document(documents: tuple[Path, Path], tmp_path: Path) -> None:
    gone, wrong = tmp_path / "gone.json", tmp_path / "wrong.json"
    wrong.write_text("[]")
    assert samebits("diff", gone, documents[1]).lines == [
        f"samebits: {gone}: cannot be read: No such file or directory"
    ]
    ended = samebits("diff", documents[0], wrong)
    line = f'samebits: {wrong}: expected a document with "schema": "samebits/2", got \'list\''
    assert (ended.code, ended.lines) == (2, [line])


@pytest.mark.parametrize(
    "words", [("diff", "a", "b"), ("run", "merge", "a", "b"), ("train", "--beside", "a")], ids=lambda w: w[0]
)
def test_a_document_is_not_replaced_by_the_report(words: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("{}")
    files = [str(tmp_path / word) if word in ("a", "b") else word for word in words]
    ended = samebits(*files, "--json", tmp_path / "a")
    assert (ended.code, (tmp_path / "a").read_text()) == (2, "{}")
    assert ended.lines == [f"samebits: --json {tmp_path / 'a'}: is one of the documents; give another file"]
