"""Pairs whose code ends, blocks or fills its process cost their own points; the honest ones beside them are whole."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import ROOT, shell_environment
from tests.support.failing_device import write_failing_pair
from tests.support.findings import flat_rows
from tests.support.foreign import write_pair

BAD = {
    "aborts": "    os.abort()",
    "sleeps": "    time.sleep(100_000)",
    "eats": "    held = []\n    while True:\n        held.append(b'x' * 50_000_000)",
}

PAIR = """
import os, time
from samebits import Arg, Case, Pair

def plain(x):
    return x + x

def fast(x):
{body}
    return 2 * x

PAIR = Pair(
    name="{name}",
    reference=plain,
    variants={{"fast": fast}},
    args={{"x": Arg(shape=("n",))}},
    cases=(Case(id="c", sizes={{"n": 8}}),),
    meshes=("none",),
    modes=("auto",),
    dtypes=("float32",),
    gradients=False,
)
"""


def _write(tree: Path, **bodies: str) -> None:
    (tree / "suites").mkdir(parents=True, exist_ok=True)
    for name, body in bodies.items():
        (tree / "suites" / f"test_{name}.py").write_text(PAIR.format(name=name, body=body))


def _check(tree: Path, *words: str, limit: float = 300) -> tuple[int, dict[str, list[dict[str, object]]], str]:
    document = tree.parent / "check.json"
    ran = subprocess.run(
        [sys.executable, "-m", "samebits", "check", *words, "--json", str(document)],
        cwd=tree,
        env=shell_environment(),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert document.exists(), ran.stderr
    rows: dict[str, list[dict[str, object]]] = {}
    for row in flat_rows(json.loads(document.read_text())):
        rows.setdefault(row["pair"], []).append(row)
    return ran.returncode, rows, ran.stdout + ran.stderr


def _require_errors(rows: dict[str, list[dict[str, object]]], seconds: int = 15) -> None:
    reasons = {name: str(row["reason"]) for name in BAD for row in rows[name] if row["verdict"] == "error"}
    assert "while tracing: SIGABRT; it was at " in reasons["aborts"]
    assert f"while tracing: more than {seconds} s; it was at " in reasons["sleeps"]
    assert "while tracing: " in reasons["eats"] and "that a process may hold" in reasons["eats"]
    for name in BAD:
        verdicts = {str(row["variant"]): row["verdict"] for row in rows[name]}
        assert verdicts == {"plain": "bitwise", "fast": "error"} or verdicts == {"plain": "proved", "fast": "error"}
        assert f"test_{name}.py:" in reasons[name], reasons[name]


@pytest.mark.slow
def test_three_bad_pairs_cost_three_rows(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _write(tree, **BAD, honest="    pass")
    code, rows, said = _check(tree, "--workers", "2", "--timeout", "15", "--memory", "1500M")
    assert code == 3, said
    _require_errors(rows)
    assert {row["ok"] for row in rows["honest"]} == {True} and len(rows["honest"]) == 2
    assert "Fatal Python error" not in said


@pytest.mark.slow
def test_a_failed_device_costs_its_own_pair(tmp_path: Path) -> None:
    """On one worker process, which is replaced: what runs after it has a device that works."""
    tree = tmp_path / "tree"
    for name in ("a_good", "c_good"):
        write_pair(tree, name, extra="gradients=False,")
    write_failing_pair(tree, "b_bad")
    code, rows, said = _check(tree, "--workers", "1")
    assert code == 3 and {row["ok"] for name in ("a_good", "c_good") for row in rows[name]} == {True}, said
    reasons = {str(row["variant"]): str(row["reason"]) for row in rows["b_bad"] if row["verdict"] == "error"}
    assert list(reasons) == ["fast"] and "while running: device cpu:0 failed: " in reasons["fast"], reasons


@pytest.mark.slow
def test_a_killed_check_goes_on(tmp_path: Path) -> None:
    """The journal of a run in which one item is never done holds all others; with --resume they are not run again."""
    tree = tmp_path / "tree"
    _write(tree, sleeps=BAD["sleeps"], honest="    pass")
    journal = tmp_path / "journal"
    run = ("--workers", "1", "--journal", str(journal))
    code, first, _ = _check(tree, *run, "--timeout", "15")
    assert code == 3 and journal.read_bytes().count(b"\n") == 5
    code, second, said = _check(tree, *run, "--resume", "--timeout", "14")
    assert code == 3 and "resumed: 3 of the 4 items in the journal of the interrupted run count" in said
    assert second["honest"] == first["honest"], "these rows are as they were, times included"
    assert "more than 14 s" in str(second["sleeps"][-1]["reason"]), "a lost item runs again"


@pytest.mark.slow
def test_three_bad_pairs_beside_all_built_in_ones(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in ("reference_impls", "optimized_impls", "suites"):
        shutil.copytree(ROOT / folder, tree / folder)
    _write(tree, **BAD)
    code, rows, said = _check(tree, "--timeout", "90", "--memory", "4G", limit=1800)
    assert code == 3, said
    _require_errors(rows, 90)
    honest = {name: own for name, own in rows.items() if name not in BAD}
    assert len(honest) == 27 and all(row["ok"] for own in honest.values() for row in own)
