"""All pairs and a matrix of trainings in two processes of four devices, beside one process of eight."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from samebits.check.other_inputs import TOGETHER
from tests.support.findings import flat_rows
from tests.support.invoke import REPOSITORY, clean_environment, command

KEY = ("pair", "variant", "case", "dtype", "mesh", "mode", "direction", "leaf")

EQUAL_OR_ROUNDED = {"bitwise", "rounding"}
"""Gloo adds the parts of a sum over devices in another order than XLA within a process: bits that are equal in one
of the two may be rounded in the other. Proofs, expected errors and what is different do not depend on it."""

FOUR_DEVICES = {"embedding": "the reference alone has other bits in any process with four devices than with eight"}
"""Pairs whose reference has other bits on one device of a process with four devices than of one with eight."""

pytestmark = pytest.mark.slow


def run(*words: str | Path) -> None:
    ended = subprocess.run(
        command(*words),
        cwd=REPOSITORY,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=5400,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]


def rows(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    results = flat_rows(json.loads(path.read_text(encoding="utf-8")))
    return {tuple(row[name] for name in KEY): row for row in results}


def test_every_pair_has_the_verdicts_of_one_process(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    run("check", "--in-process", "--devices", "8", "--json", one)
    run("run", "launch", "-n", "2", "--devices", "4", "--", "check", "--json", two)
    alone, together = rows(one), rows(two)
    assert alone.keys() == together.keys()
    moved = {key for key in alone if alone[key]["verdict"] != together[key]["verdict"]}
    for key in sorted(moved):
        verdicts = {alone[key]["verdict"], together[key]["verdict"]}
        print(f"{'/'.join(key)}: {alone[key]['verdict']} in one process, {together[key]['verdict']} in two")
        assert verdicts == EQUAL_OR_ROUNDED, key
    for key, row in alone.items():
        assert (row["ok"], row["elements"]) == (together[key]["ok"], together[key]["elements"]), key
        assert row["bits"] == together[key]["bits"] or key[0] in FOUR_DEVICES, key
    assert TOGETHER in json.loads(two.read_text(encoding="utf-8"))["notes"]
    assert not any(row["verdict"] in ("error", "skipped") for row in together.values())


def test_a_matrix_has_the_bits_or_the_envelope_of_one_process(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    words = ("train", "--matrix", "hybrid", "--steps", "2")
    run(*words, "--in-process", "--json", one)
    run("run", "launch", "-n", "2", "--devices", "4", "--", *words, "--beside", one, "--json", two)
    beside = [c for c in json.loads(two.read_text(encoding="utf-8"))["comparisons"] if c["a"].endswith(" of one.json")]
    assert len(beside) == len(flat_rows(json.loads(one.read_text(encoding="utf-8"))))
    assert {comparison["verdict"] for comparison in beside} <= EQUAL_OR_ROUNDED
