"""`samebits check`: what each request makes of a point that labels prove."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from samebits.check.contract_audit import proof_notes
from samebits.cli import main, pipeline
from samebits.cli.check import CheckOptions
from samebits.cli.check_run import check_elsewhere
from samebits.errors import CouldNotRun
from samebits.schema.finding import Finding
from tests.support.findings import finding


@pytest.mark.parametrize(
    ("options", "sparing"),
    [
        ([], True),
        (["--workers", "1"], True),
        (["--full"], False),
        (["--mesh", "context4"], False),
        (["--direction", "forward"], False),
        (["--repeat", "3"], False),
        (["--shake"], False),
    ],
)
def test_only_a_request_for_whole_pairs_is_sparing(
    options: list[str], sparing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for by name, or more thoroughly than usual, is executed."""
    efforts: list[Any] = []

    def run_command(command: Any, files: object) -> int:
        efforts.append(command.args[1].effort)
        return 0

    monkeypatch.setattr(pipeline, "run_command", run_command)
    done = CliRunner().invoke(main, ["check", "rms_norm", *options])
    assert done.exit_code == 0, done.output
    assert [effort.sparing for effort in efforts] == [sparing]


def _proved(pair: str, leaf: str, **more: Any) -> Finding:
    return finding(
        pair=pair,
        variant="v",
        case="c",
        dtype="float32",
        mesh="data4",
        mode="auto",
        direction="forward",
        leaf=leaf,
        verdict="proved",
        required="proved",
        ok=True,
        **more,
    )


def test_results_without_execution_are_counted_in_a_note() -> None:
    rows = [_proved("p", leaf, proof_alone=alone) for leaf, alone in (("a", True), ("b", False), ("c", True))]
    assert proof_notes(rows[1:2], all_sizes=False) == []
    (note,) = proof_notes(rows, all_sizes=False)
    assert note.startswith("2 of 3 proved results were not executed: the compiler was checked at other points")
    (note,) = proof_notes(rows, all_sizes=True)
    assert note.startswith("2 of 3 proved results were not executed: the compiler was checked at one point at least")


def test_results_for_every_size_are_counted_in_a_note() -> None:
    """The pair is named once, with the command that prints the sizes."""
    sizes: dict[str, Any] = {"moved": "all", "here": "these", "turned": "all"}
    places = (("moved", "a"), ("moved", "b"), ("here", "a"), ("turned", "a"))
    rows = [_proved(pair, leaf, sizes=sizes[pair]) for pair, leaf in places]
    assert proof_notes(rows, all_sizes=False) == [
        "3 of 4 proved results hold for every size, not only for those of their cases (moved, turned); "
        "`samebits prove moved --all-sizes` says for which"
    ]


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
