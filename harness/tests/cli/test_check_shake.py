"""A check in a process of its own, with scripts in place of the interpreter that write no document."""

import re
import sys
from pathlib import Path

import pytest

from samebits.cli.check import CheckOptions
from samebits.cli.check_run import check_elsewhere
from samebits.errors import CouldNotRun

AGAIN = CheckOptions(pairs=("rope",), mesh=("data1",), direction=("forward",), shake=True, fresh=True).again()

ENDED = {
    "nothing said": ("exit 7", "ended without a document, with exit code 7: no message"),
    "last words": (
        "echo first >&2; echo 'killed by signal 4' >&2; exit 4",
        "ended without a document, with exit code 4: killed by signal 4",
    ),
    "a flag that XLA rejects": (
        "echo 'Unknown flag in XLA_FLAGS: --no' >&2; echo aborted >&2; exit 6",
        "ended without a document, with exit code 6: Unknown flag in XLA_FLAGS: --no",
    ),
    "a document of another schema": (
        'echo later >&2; for last; do :; done; echo "{}" > "$last"; exit 1',
        r'its document cannot be used: .*check\.json: expected a document with "schema": "samebits/2", got None; '
        "it ended with exit code 1: later",
    ),
    "what it is given": (
        'echo "$MORE $3 $4 $5 $6 $7 $8" >&2; exit 1',
        "ended without a document, with exit code 1: more check rope --mesh data1 --direction forward",
    ),
}


@pytest.mark.parametrize("what", ENDED)
def test_a_process_that_writes_no_document_says_why(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, why = ENDED[what]
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{script}\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with pytest.raises(CouldNotRun) as raised:
        check_elsewhere(AGAIN, {"MORE": "more"})
    assert re.fullmatch(why, str(raised.value)), raised.value


def test_the_same_check_has_all_that_decides_its_results() -> None:
    chosen = CheckOptions(
        pairs=("rope",),
        sizes=("rows=4",),
        full=True,
        no_assumptions=True,
        root=Path("tree"),
        in_process=True,
        shake=True,
    )
    assert chosen.again() == [
        *("check", "rope", "--no-assumptions", "--root", "tree", "--full", "--sizes", "rows=4", "--in-process")
    ]
