"""Documents of all commands are read by their `command`; wrong ones get one line; shards become one document."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from samebits.errors import RequestError
from samebits.report.any_document import join_heads, join_shards, read_any_document
from samebits.report.check import Document, SideSource
from samebits.report.contradictions import edited, holds_wrongly, require_consistent
from samebits.report.document import to_json
from samebits.report.golden import GoldenListDocument
from samebits.report.html.sections import section_of
from samebits.report.json_schema import RECORDS
from samebits.report.prove import ProofDocument
from tests.support.blank import blank
from tests.support.documents import different, document, result
from tests.support.findings import finding
from tests.support.invoke import samebits

OLDER = Path(__file__).parent / "older"
"""A document that the first commit with pairs wrote, shortened to two results."""

REQUEST = {"pairs": ["norm"], "full": False}


def shard(number: int, *, request: dict[str, Any] | None = None) -> Document:
    row = result(mesh=f"data{number}") if number != 2 else different(mesh="data2")
    return replace(document(row), shard=f"{number}/2", request=request or REQUEST)


def test_a_check_comes_back(tmp_path: Path) -> None:
    file, written = tmp_path / "check.json", document(result(), different())
    file.write_text(to_json(written))
    assert read_any_document(file) == written


def test_a_golden_document_is_the_record_of_its_command(tmp_path: Path) -> None:
    file, written = tmp_path / "golden.json", GoldenListDocument(environment=None, results=())
    file.write_text(to_json(written))
    assert read_any_document(file) == written


def test_every_command_is_known() -> None:
    commands = [command for kind in RECORDS for command in get_args(get_type_hints(kind)["command"])]
    assert len(commands) == len(set(commands)) >= len(RECORDS)


def test_a_document_of_the_first_version_opens() -> None:
    read = read_any_document(OLDER / "check_of_the_first_pairs.json")
    assert isinstance(read, Document)
    assert [row.ruling.verdict for row in read.results] == ["bitwise", "bitwise"]
    assert section_of(read).page.state == "passed"


def test_a_document_without_the_newer_keys_opens(tmp_path: Path) -> None:
    raw = json.loads(to_json(document(result(), different())))
    for key in ("request", "shard", "shake", "snapshot"):
        del raw[key]
    for row in raw["results"]:
        for key in ("named", "shaken", "run"):
            del row[key]
        del row["comparison"]["differences"], row["ruling"]["machine"], row["proof"]["assumptions"]
    file = tmp_path / "older.json"
    file.write_text(json.dumps(raw))
    read = read_any_document(file)
    assert isinstance(read, Document)
    assert [row.ruling.verdict for row in read.results] == ["bitwise", "different"]


WRONG: tuple[tuple[str, Callable[[str], str], str], ...] = (
    ("empty", lambda text: "", "is empty; expected a document that --json FILE wrote"),
    ("cut off", lambda text: text[:200], "Input data was truncated (the file may be cut off)"),
    ("another schema", lambda text: text.replace("samebits/2", "samebits/9"), "got 'samebits/9'"),
    ("a list", lambda text: "[]", "got 'list'"),
    ("no JSON", lambda text: "<html>", "not a samebits/2 document"),
    (
        "another command",
        lambda text: text.replace('"check"', '"chess"'),
        "is 'chess'; expected one of list",
    ),
    ("a wrong type", lambda text: text.replace('"pairs": [', '"pairs": 3, "x": ['), "Expected `array`, got `int`"),
    ("an unknown key", lambda text: text.replace('"pairs"', '"x": 1, "pairs"', 1), "the key $.x is unknown"),
)


@pytest.mark.parametrize(("name", "change", "message"), WRONG, ids=[name for name, _, _ in WRONG])
def test_a_wrong_file_gets_one_line(name: str, change: Callable[[str], str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(change(to_json(document(result()))))
    with pytest.raises(RequestError) as caught:
        read_any_document(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shards_become_one_document(tmp_path: Path) -> None:
    ((name, joined),) = join_shards([(tmp_path / "1.json", shard(1)), (tmp_path / "2.json", shard(2))])
    assert isinstance(joined, Document)
    assert (name, joined.shard, joined.problems) == ("2 shards", None, ())
    assert [row.place.mesh for row in joined.results] == ["data1", "data2"]
    assert (joined.summary.cases, joined.summary.failed) == (2, 1)


def test_the_text_of_a_source_comes_from_the_shard_that_fails(tmp_path: Path) -> None:
    texts = (None, "return x", None)
    sources = [SideSource(side="multiply", file="a.py", first=1, last=2, text=text) for text in texts]
    heads = [replace(document(result()).pairs[0], sources=(source,)) for source in sources]
    (head,) = join_heads(heads)
    assert head.sources == (sources[1],)


def test_a_missing_shard_is_a_problem(tmp_path: Path) -> None:
    ((_, joined),) = join_shards([(tmp_path / "1.json", shard(1))])
    assert isinstance(joined, Document)
    assert [problem.message for problem in joined.problems] == ["shard 2/2 is missing; give its document too"]


def test_documents_of_several_commands_stay_apart(tmp_path: Path) -> None:
    golden = GoldenListDocument(environment=None, results=())
    documents = [(tmp_path / "a.json", document(result())), (tmp_path / "b.json", golden)]
    assert [name for name, _ in join_shards(documents)] == ["a.json", "b.json"]


def test_shards_of_different_requests_are_rejected(tmp_path: Path) -> None:
    other = shard(2, request={**REQUEST, "full": True})
    with pytest.raises(RequestError, match=r"1\.json and .*2\.json are of different requests: full False and True"):
        join_shards([(tmp_path / "1.json", shard(1)), (tmp_path / "2.json", other)])


def test_a_file_that_is_given_twice_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"a\.json: is given twice"):
        join_shards([(tmp_path / "a.json", document(result())), (tmp_path / "." / "a.json", document(result()))])


GOOD = document(result(), different(), result(leaf="x", verdict="different", exempt=True))
BELOW = result(verdict="different")
PROOF = finding(
    "prove",
    variant="fast",
    mesh="data2",
    direction="forward",
    leaf="out",
    verdict="different",
    required="bitwise",
    ok=True,
)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (document(result(), different(leaf="out")), "'out' of 'multiply' on data2, forward is there twice"),
        (document(BELOW), "'out' of 'multiply' on data2, forward is 'different' and ok"),
        (
            document(result(verdict="rounding", required="bitwise")),
            "'out' of 'multiply' on data2, forward is 'rounding' and ok, where 'bitwise' is required",
        ),
        (document(result(verdict="skipped")), "'out' of 'multiply' on data2, forward is 'skipped' and ok"),
        (
            replace(GOOD, summary=replace(GOOD.summary, failed=3)),
            "its summary says failed 3, and its rows come to 1",
        ),
        (replace(GOOD, results=GOOD.results[:2]), "its summary says cases 3, and its rows come to 2"),
        (
            replace(GOOD, summary=replace(GOOD.summary, verdicts={"bitwise": 3})),
            "its summary says bitwise 3, and its rows are bitwise 1, different 2",
        ),
        (blank(ProofDocument, results=(PROOF,)), "'out' of 'fast' on data2, forward is 'different' and ok"),
    ],
)
def test_a_document_that_contradicts_itself(wrong: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(to_json(wrong), encoding="utf-8")
    with pytest.raises(RequestError) as error:
        read_any_document(file)
    assert str(error.value) == f"{file}: {message}: it was edited; check again"


def test_commands_say_it_in_one_line(tmp_path: Path) -> None:
    file, good = tmp_path / "wrong.json", tmp_path / "good.json"
    file.write_text(to_json(document(BELOW)), encoding="utf-8")
    good.write_text(to_json(document(result())), encoding="utf-8")
    line = edited(file, BELOW, "is 'different' and ok")
    for words in (("report", file), ("diff", file, good), ("diff", good, file)):
        ended = samebits(*words)
        assert (ended.code, ended.lines) == (2, [f"samebits: {line}"])


def test_what_a_check_writes_passes() -> None:
    require_consistent(Path("r.json"), GOOD)
    summary = replace(GOOD.summary, verdicts={**GOOD.summary.verdicts, "proved": 0})  # an older version may write zeros
    require_consistent(Path("r.json"), replace(GOOD, summary=summary))
    assert [holds_wrongly(row) for row in (*GOOD.results, BELOW)] == [None, None, None, "is 'different' and ok"]
