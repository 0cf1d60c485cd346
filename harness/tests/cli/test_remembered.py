"""`samebits check` remembers: the same document at once, and every planted fault is seen with a cache that is warm."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.faults.fault import Fault, all_faults
from samebits.schema.result import VERDICTS
from tests.support.findings import flat_rows
from tests.support.foreign import AXES, FORWARD, write_pair
from tests.support.invoke import REPOSITORY, Ended, clean_environment, command
from tests.support.planted_edits import FOLDERS, edited, locator_of, source_of
from tests.support.rope_tree import FAULT, OPTIMIZED, write_tree

SAMPLE = 12


def check(tree: Path, *words: str) -> tuple[Ended, dict[str, Any]]:
    """A check in a process of its own, with a cache that lies beside the tree."""
    import subprocess

    file = tree.parent / "check.json"
    environment = clean_environment(SAMEBITS_CACHE_DIR=str(tree.parent / "caches"), SAMEBITS_CACHE_LIMIT="100MB")
    ended = subprocess.run(
        command("check", *words, "--workers", "1", "--json", file),
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    document = json.loads(file.read_text())
    return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr), document


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    results = [{**row, "seconds": 0, "remembered": None} for row in flat_rows(document)]
    return {**document, "results": results, "summary": {**document["summary"], "seconds": 0}, "written": None}


def remembered(document: dict[str, Any]) -> list[str]:
    return [row["remembered"] for row in flat_rows(document) if row["remembered"] is not None]


@pytest.mark.slow
def test_the_same_document_until_something_changes(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    cold, first = check(tree)
    warm, second = check(tree)
    assert (cold.code, warm.code) == (0, 0)
    assert (len(remembered(first)), len(remembered(second))) == (0, len(flat_rows(first)))
    assert timeless(first) == timeless(second)
    day = remembered(second)[0][:10]
    sentence = (
        f"{len(first['results'])} results remembered, from {day} on this environment; check --fresh runs them again"
    )
    assert sentence in warm.out.splitlines()
    assert "remembered" not in cold.out
    path = tree / "optimized_impls" / "rope.py"
    path.write_text(OPTIMIZED.replace(*FAULT))
    planted, third = check(tree)
    assert planted.code == 1 and {row["variant"] for row in flat_rows(third) if row["remembered"]} == {"complex_form"}
    path.write_text(OPTIMIZED)
    again, fourth = check(tree)
    assert (again.code, timeless(fourth)) == (0, timeless(first))
    assert len(remembered(fourth)) == len(flat_rows(first))
    path.write_text("# moved\n" + OPTIMIZED)
    edited_again, fifth = check(tree)
    assert (edited_again.code, timeless(fifth)["results"]) == (0, timeless(first)["results"])
    assert len(remembered(fifth)) == len(flat_rows(first)), "by their programs"


CALLS_BACK = """
    import jax
    import numpy as np


    def fast(x):
        return jax.pure_callback(lambda y: np.asarray(y) * np.float32(2), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    """


@pytest.mark.slow
def test_what_calls_back_into_python_runs_each_time(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write_pair(tree, "called", optimized=CALLS_BACK, axes=AXES.replace("data2", "none"), extra=FORWARD)
    for _ in range(2):
        ended, document = check(tree)
        assert ended.code == 0, ended.out + ended.err
        assert not any(row["variant"] == "fast" for row in flat_rows(document) if row["remembered"])
        assert any("calls back into Python" in note for note in document["summary"]["notes"])


STARTS_A_PROGRAM = """
    import subprocess
    from pathlib import Path

    TABLE = Path(__file__).with_name("table.txt")


    def fast(x):
        return x * float(subprocess.run(["cat", TABLE], capture_output=True, check=True).stdout)
    """


@pytest.mark.slow
def test_what_cannot_be_compared_is_traced(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write_pair(tree, "started", optimized=STARTS_A_PROGRAM)
    table = tree / "optimized_impls" / "table.txt"
    table.write_text("2")
    assert check(tree)[0].code == 0
    warm, document = check(tree)
    assert warm.code == 0 and len(remembered(document)) == len(flat_rows(document))
    table.write_text("3")
    planted, document = check(tree)
    assert planted.code == 1 and not any(row["variant"] == "fast" for row in flat_rows(document) if row["remembered"])


LATE = """
    import os
    import sys


    def fast(x):
        folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "kernels")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        import late_kernel

        return x * late_kernel.SCALE
    """


@pytest.mark.slow
def test_a_module_that_only_the_worker_finds(tmp_path: Path) -> None:
    """The driver, whose path lacks its folder, knows of it by what the worker process read."""
    tree = tmp_path / "tree"
    write_pair(tree, "late", optimized=LATE)
    kernel = tree / "kernels" / "late_kernel.py"
    kernel.parent.mkdir()
    kernel.write_text("SCALE = 2\n")
    assert check(tree)[0].code == 0
    warm, document = check(tree)
    assert warm.code == 0 and len(remembered(document)) == len(flat_rows(document))
    kernel.write_text("SCALE = 3\n")
    planted, document = check(tree)
    assert planted.code == 1 and not any(row["variant"] == "fast" for row in flat_rows(document) if row["remembered"])


FAULTS = [fault for fault in all_faults(REPOSITORY) if fault.old and ":" not in fault.pair and not fault.slow]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS[:: max(len(FAULTS) // SAMPLE, 1)], ids=lambda fault: fault.name)
def test_a_fault_is_caught_with_a_warm_cache(fault: Fault, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in FOLDERS:
        shutil.copytree(REPOSITORY / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    request = fault.request
    words = [fault.pair, "--variant", *(request.variants or (fault.side,))[:1]]
    for option in ("case", "dtype", "mesh", "mode", "direction"):
        for name in getattr(request, f"{option}{'e' if option == 'mesh' else ''}s"):
            words += [f"--{option}", name]
    words += ["--full"] if request.full else []
    honest, before = check(tree, *words)
    assert honest.code == 0, honest.err
    path = source_of(fault, locator_of(fault, tree))
    assert path.is_relative_to(tree)
    path.write_text(edited(fault, path.read_text()))
    planted, after = check(tree, *words)
    _, fresh = check(tree, "--fresh", *words)
    assert flat_rows(timeless(after)) == timeless(fresh)["results"]
    verdicts = {row["verdict"] for row in flat_rows(after) if not row["ok"]}
    # Equal bits beyond a contract are lost without a failure, where no snapshot holds them.
    assert planted.code in (1, 2) or timeless(before)["results"] != flat_rows(timeless(after)), planted.out
    # An exception is what the edited function raises beside the honest file; here the file itself is edited.
    assert planted.code != 1 or fault.verdict in verdicts or (verdicts and fault.verdict not in VERDICTS)
