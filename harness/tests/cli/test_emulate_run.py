"""Checks on emulated processors: the table, its exit codes and messages, with documents in place of an emulator."""

from __future__ import annotations

import platform
import re
import shutil
from dataclasses import replace
from typing import Any

import pytest

from samebits.cli import emulate_run
from samebits.cli.check_subprocess import CheckArguments, check_elsewhere
from samebits.cli.emulate_run import NATIVE, columns, gravest, run_on, table
from samebits.errors import CouldNotRun, RequestError
from samebits.programs.plan import Request
from samebits.report.document import Document
from tests.support.documents import document, result
from tests.support.invoke import samebits

AGAIN = CheckArguments(pairs=("rope",), request=Request(meshes=("data1",), directions=("forward",)))
HOLDS = replace(result(), bits="a")
MOVED = replace(HOLDS, bits="b")
BREAKS = replace(MOVED, verdict="rounding", ok=False, mismatches=3)


def found(**by_processor: Any) -> list[emulate_run.Column]:
    """The columns where each processor gives these results, or raises."""

    def run(again: CheckArguments, processor: str) -> Document:
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
    monkeypatch.setattr(emulate_run, "check_elsewhere", lambda again, **given: seen.append(given))
    run_on(AGAIN, "Haswell", 60)
    run_on(AGAIN, NATIVE)
    assert seen[0]["before"] == ("qemu-x86_64", "-cpu", "Haswell")
    assert seen[0]["variables"] == {
        "SAMEBITS_PROCESSOR": "Haswell, emulated",
        "OPENBLAS_CORETYPE": None,  # the host's kernels are illegal instructions there
        "NPY_ENABLE_CPU_FEATURES": None,
    }
    assert seen[1] == {"seconds": None}
    assert AGAIN.words() == ["check", "rope", "--mesh", "data1", "--direction", "forward"]


def shell(script: str) -> tuple[str, ...]:
    """What stands in for an emulator; the last of its arguments is the file of the document."""
    return ("sh", "-c", script, "sh")


ENDED = {
    "nothing said": ("exit 7", "ended without a document, with exit code 7: no message"),
    "last words": (
        "echo first >&2; echo 'qemu: uncaught target signal 4' >&2; exit 4",
        "ended without a document, with exit code 4: qemu: uncaught target signal 4",
    ),
    "a warning of the emulator alone": (
        "echo 'the reason' >&2; echo \"qemu-x86_64: warning: TCG doesn't support it\" >&2; exit 1",
        "ended without a document, with exit code 1: the reason",
    ),
    "a flag that XLA rejects": (
        "echo 'Unknown flag in XLA_FLAGS: --no' >&2; echo aborted >&2; exit 6",
        "ended without a document, with exit code 6: Unknown flag in XLA_FLAGS: --no",
    ),
    "a document of another schema": (
        'echo later >&2; for last; do :; done; echo "{}" > "$last"; exit 1',
        r'its document cannot be used: .*check\.json: expected a document with "schema": "samebits/1", got None; '
        "it ended with exit code 1: later",
    ),
    "too slow": ("echo compiling >&2; exec sleep 60", "did not end within 1 s: compiling"),
}


@pytest.mark.parametrize("what", ENDED)
def test_a_process_that_writes_no_document_says_why(what: str) -> None:
    script, why = ENDED[what]
    with pytest.raises(CouldNotRun) as raised:
        check_elsewhere(AGAIN, before=shell(script), seconds=1 if what == "too slow" else 60)
    assert re.fullmatch(why, str(raised.value)), raised.value


def test_a_missing_program_says_so() -> None:
    with pytest.raises(CouldNotRun, match="/no/emulator: No such file or directory"):
        check_elsewhere(AGAIN, before=("/no/emulator",))


def test_a_variable_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    tell = shell('echo "${OPENBLAS_CORETYPE-none}, $MORE" >&2; exit 1')
    with pytest.raises(CouldNotRun, match=r"exit code 1: none, more$"):
        check_elsewhere(AGAIN, before=tell, variables={"OPENBLAS_CORETYPE": None, "MORE": "more"})


def test_an_emulated_processor_is_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from samebits.audit.snapshots.record import processor_here
    from samebits.host import environment

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
        emulate_run.require_emulator()


def test_a_whole_tree_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulate_run, "require_emulator", lambda: None)
    ended = samebits("emulate")
    assert (ended.code, "name the pairs to emulate" in ended.err) == (2, True)
