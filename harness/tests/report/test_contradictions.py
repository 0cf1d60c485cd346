"""Documents that contradict themselves are rejected in one line by every command that reads them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import RequestError
from samebits.report.any_document import read_any_document
from samebits.report.contradictions import edited, holds_wrongly, require_consistent
from samebits.report.document import to_json
from samebits.report.prove import ProofDocument
from tests.support.blank import blank
from tests.support.documents import different, document, result
from tests.support.findings import finding
from tests.support.invoke import samebits

GOOD = document(result(), different(), result(leaf="x", verdict="different", exempt=True))
WRONG = result(verdict="different")
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
        (document(WRONG), "'out' of 'multiply' on data2, forward is 'different' and ok"),
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
    file.write_text(to_json(document(WRONG)), encoding="utf-8")
    good.write_text(to_json(document(result())), encoding="utf-8")
    line = edited(file, WRONG, "is 'different' and ok")
    for words in (("report", file), ("diff", file, good), ("diff", good, file)):
        ended = samebits(*words)
        assert (ended.code, ended.lines) == (2, [f"samebits: {line}"])


def test_what_a_check_writes_passes() -> None:
    require_consistent(Path("r.json"), GOOD)
    summary = replace(GOOD.summary, verdicts={**GOOD.summary.verdicts, "proved": 0})  # an older version may write zeros
    require_consistent(Path("r.json"), replace(GOOD, summary=summary))
    assert [holds_wrongly(row) for row in (*GOOD.results, WRONG)] == [None, None, None, "is 'different' and ok"]
