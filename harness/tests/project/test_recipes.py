"""The loops of comparing.md over nights and over emulated processors, with a script in place of the emulator."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.host.written import Written
from samebits.report.document import to_json
from tests.project.pages import DOCS, blocks
from tests.support.documents import ENVIRONMENT, document, result
from tests.support.foreign import write_pair
from tests.support.invoke import Ended, samebits

NIGHTS, PROCESSORS = (
    block.text
    for block in blocks((DOCS / "guides" / "comparing.md").read_text(encoding="utf-8"), "comparing.md")
    if block.mark("run by") is not None
)
PROGRAMS = {
    "samebits": 'echo "${SAMEBITS_PROCESSOR-here}|$*" >> commands',
    "python": 'shift 2; exec samebits "$@"',
    "qemu-x86_64": 'echo "$2 ${OPENBLAS_CORETYPE-unset}" >> emulated; shift 2; exec "$@"',
}
"""What the recipes find on the path; commands are written down."""


def run(recipe: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Ended]:
    """Run a recipe in a folder, and its commands in this process, each on the processor that it is for."""
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    variables = {"PATH": f"{folder}:/usr/bin:/bin", "OPENBLAS_CORETYPE": "Haswell"}
    ended = subprocess.run(["sh", "-c", recipe], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    monkeypatch.chdir(folder)
    done = []
    for line in (folder / "commands").read_text(encoding="utf-8").splitlines():
        processor, words = line.split("|")
        with monkeypatch.context() as patch:
            if processor != "here":
                patch.setenv("SAMEBITS_PROCESSOR", processor)
            done.append(samebits(*words.split()))
    return done


def test_each_night_is_compared_with_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is where it happened, with what else changed there."""
    newer = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"})
    lower = result(verdict="rounding", required="rounding")
    (tmp_path / "nights").mkdir()
    for day, row, here in ((1, result(), ENVIRONMENT), (2, result(), ENVIRONMENT), (3, lower, newer)):
        night = replace(document(row), environment=here, written=Written(time=f"2026-01-{day:02}T00:00:00Z"))
        (tmp_path / "nights" / f"2026-01-{day:02}.json").write_text(to_json(night), encoding="utf-8")
    first, second = run(NIGHTS, tmp_path, monkeypatch)
    assert "no change" in first.out and "bitwise -> rounding" not in first.out
    assert "bitwise -> rounding" in second.out and "jax 0.10.2 -> 0.12.0" in second.out


def test_a_check_runs_natively_and_on_each_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is recorded as an environment of its own, and the emulator gets none of the host's kernels."""
    write_pair(tmp_path, "twice")
    what = "grouped_matmul optimizer_state --direction forward --dtype float32 --mode auto"
    assert PROCESSORS.startswith(f'what="{what}"\n')
    ran = run(PROCESSORS.replace(what, "twice --in-process"), tmp_path, monkeypatch)
    assert [ended.code for ended in ran] == [0] * 7
    names = ("IvyBridge", "Haswell", "EPYC")
    assert (tmp_path / "emulated").read_text() == "".join(f"{name} unset\n" for name in names)
    for name, compared in zip(names, ran[2::2], strict=True):
        there = json.loads((tmp_path / f"{name}.json").read_text())
        assert there["environment"]["instruction_sets"] == [f"{name}, emulated"]
        assert f"-> {name}, emulated" in compared.out and "no change" in compared.out
