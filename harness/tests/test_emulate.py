"""Checks on emulated processors: the table, its exit codes and messages, with documents in place of an emulator."""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace
from typing import Any

import pytest

from harness.cli import emulating
from harness.cli.elsewhere import Again, check_elsewhere
from harness.cli.emulating import NATIVE, columns, gravest, run_on, table
from harness.errors import CouldNotRun, RequestError
from harness.report.document import Document
from harness.selection import Request
from harness.tests.documents import document, result
from harness.tests.invoke import samebits

AGAIN = Again(pairs=("rope",), request=Request(meshes=("data1",), directions=("forward",)))
HOLDS = replace(result(), bits="a")
MOVED = replace(HOLDS, bits="b")
BREAKS = replace(MOVED, verdict="rounding", ok=False, mismatches=3)


def found(**by_processor: Any) -> list[emulating.Column]:
    """The columns where each processor gives these results, or raises."""

    def run(again: Again, processor: str) -> Document:
        given = by_processor[processor]
        if isinstance(given, Exception):
            raise given
        return document(*given)

    return columns(AGAIN, [name for name in by_processor if name != NATIVE], run)


def test_a_table_of_pair_by_processor() -> None:
    rows = table(found(native=[HOLDS], Haswell=[HOLDS], IvyBridge=[MOVED], EPYC=[BREAKS]))
    assert rows[0] == ["pair", "native", "Haswell", "IvyBridge", "EPYC"]
    assert rows[1] == [HOLDS.pair, "1 hold", "1 hold", "1 hold (1 moved)", "1 of 1 fail (1 moved)"]
    assert rows[2][0] == "seconds"


@pytest.mark.parametrize(
    ("there", "code"),
    [
        ([HOLDS], 0),
        ([MOVED], 0),
        ([BREAKS], 1),
        (CouldNotRun("ended with exit code 132: no message"), 3),
        ([replace(HOLDS, verdict="skipped", ok=False)], 3),
    ],
)
def test_a_contract_that_breaks_on_one_processor_fails(there: Any, code: int) -> None:
    assert gravest(found(native=[HOLDS], Haswell=[HOLDS], EPYC=there)) == code


def test_a_difference_outweighs_what_could_not_run() -> None:
    columns_found = found(native=[HOLDS], Haswell=CouldNotRun("took too long"), EPYC=[BREAKS])
    assert gravest(columns_found) == 1
    assert table(columns_found)[1][2] == "could not run"


def test_the_emulator_runs_the_same_check_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated process reads the host's /proc/cpuinfo, so its processor is named by a variable."""
    seen: list[Any] = []
    monkeypatch.setattr(emulating, "check_elsewhere", lambda again, **given: seen.append(given))
    run_on(AGAIN, "Haswell", 60)
    run_on(AGAIN, NATIVE)
    assert seen[0]["before"] == ("qemu-x86_64", "-cpu", "Haswell")
    assert seen[0]["variables"] == {"SAMEBITS_PROCESSOR": "Haswell, emulated"}
    assert seen[1] == {"seconds": None}
    assert AGAIN.words() == ["check", "rope", "--mesh", "data1", "--direction", "forward"]


def test_a_process_that_writes_no_document_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(pairs=("no_such_pair",), request=Request())
    with pytest.raises(CouldNotRun, match="/no/emulator: No such file or directory"):
        check_elsewhere(again, before=("/no/emulator",))
    with pytest.raises(CouldNotRun, match=r"did not end within 0 s"):
        check_elsewhere(again, seconds=0.01)


def test_an_emulated_processor_is_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness import environment
    from harness.snapshots.record import processor_here

    here = environment.capture()
    monkeypatch.setenv("SAMEBITS_PROCESSOR", "Haswell, emulated")
    assert processor_here(here).model == "Haswell, emulated"


def test_a_missing_emulator_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    ended = samebits("emulate", "rope")
    assert (ended.code, ended.lines) == (
        2,
        ["samebits: qemu-x86_64 is not installed; on Debian and Ubuntu: apt-get install qemu-user"],
    )
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(RequestError, match="this machine is aarch64"):
        emulating.require_emulator()


def test_a_whole_tree_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulating, "require_emulator", lambda: None)
    ended = samebits("emulate")
    assert (ended.code, "name the pairs to emulate" in ended.err) == (2, True)
