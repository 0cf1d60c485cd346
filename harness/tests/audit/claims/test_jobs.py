"""`samebits audit claims` as a command: processes, a tree from its declaration to the table, wrong requests."""

import functools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.claims import jobs
from samebits.audit.claims.jobs import ClaimJob, passed_tests, run_jobs
from samebits.cli import claims_run, pipeline
from samebits.cli.audit import ClaimsOptions
from samebits.cli.claims_run import ClaimInputs, judge_claims
from samebits.cli.pipeline import run_command
from samebits.errors import CouldNotRun
from samebits.schema.document_claim import Documented
from tests.support.invoke import samebits
from tests.support.real_tree import write_real_pair


def test_which_tests_passed(tmp_path: Path) -> None:
    file = tmp_path / "tests.xml"
    file.write_text(
        '<testsuites><testsuite><testcase name="test_a[1]"/><testcase name="test_a[2]"><failure/></testcase>'
        '<testcase name="test_b"><properties/></testcase><testcase name="test_c"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    assert passed_tests(file) == {"test_a": False, "test_b": True, "test_c": False}
    file.write_text("cut")
    with pytest.raises(CouldNotRun, match="what pytest wrote cannot be read"):
        passed_tests(file)


def test_a_process_that_cannot_run_and_one_that_is_stopped(tmp_path: Path) -> None:
    def run(job: ClaimJob, stop: threading.Event) -> Any:
        if job.kind == "check":
            raise CouldNotRun("no such interpreter")
        while not stop.is_set():
            time.sleep(0.01)
        raise CouldNotRun("stopped")

    jobs = [
        ClaimJob(kind=kind, subject="rope", words=(kind,), file=tmp_path / kind)
        for kind in ("check", "compile", "tests")
    ]
    stop, seen = threading.Event(), []
    for done in run_jobs(jobs, 1, stop, run):
        seen.append((done.job.kind, done.ended, done.why))
        stop.set()
    assert seen[0] == ("check", None, "no such interpreter")
    assert [why for _, _, why in seen[1:]] != ["no such interpreter"] * 2 and len(seen) == 3


REFERENCE = """
    import jax.numpy as jnp


    def gather(x):
        return x[jnp.arange(x.shape[0])[::-1]] * 0.5
    """
OPTIMIZED = """
    import jax.numpy as jnp


    def turned(x):
        return jnp.flip(x, axis=0) * 0.5


    def quarter(x):
        return jnp.flip(x, axis=0) * 0.25
    """


def write_tree(root: Path, says: str, optimized: str = "turned", tests: str = "") -> Path:
    claim = f'documented=(Documented(id="9.1", document="a pull request", says="{says}", saves="gathers"{tests}),),'
    write_real_pair(root, variants=(optimized,), extra=claim, reference=REFERENCE, optimized=OPTIMIZED)
    suite = root / "suites" / "test_reorder.py"
    suite.write_text(suite.read_text().replace(" Arg,", " Arg, Documented,", 1) + "\n\ndef test_it():\n    pass\n")
    return root


def test_an_end_from_outside_ends_the_jobs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI systems cancel with SIGTERM: what ended is written, and no process and no folder is left."""
    started, temporary = tmp_path / "started", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    code = f"import os, time; open({str(started)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    monkeypatch.setattr(jobs, "_command_line", lambda job: [sys.executable, "-c", code])
    monkeypatch.setattr(pipeline, "exit_without_waiting", lambda code: None)
    claim = Documented(id="9.1", document="a page", says="it lists", command=("list",), prints="twice")
    inputs = ClaimInputs(pairs={}, tree=tmp_path, model="toy", of_model=(claim,))
    monkeypatch.setattr(claims_run, "_claims_of", lambda *asked: inputs)

    def cancel() -> None:
        while not (started.exists() and started.read_text().endswith("\n")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=cancel, daemon=True).start()
    chosen = ClaimsOptions(root=tmp_path, no_cache=True, json=tmp_path / "r.json")
    assert run_command(functools.partial(judge_claims, chosen), chosen) == 3
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["interrupted"]
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.slow
def test_a_tree_from_its_declaration_to_the_table(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, "no gather any more", tests=', finding="on cpu", tests=("test_it",)')
    file, report = tmp_path / "claims.json", tmp_path / "claims.md"
    ended = samebits("audit", "claims", "--root", tree, "--json", file, "--markdown", report, "--no-cache")
    document = json.loads(file.read_text())
    (one,) = document["results"]
    assert (ended.code, one["holds"], one["shown_by"]) == (0, "holds in part", {"test_it": True}), ended
    assert {(one["direction"], one["ratio"]) for one in one["savings"]} == {("forward", 0), ("gradient", 1)}
    assert "| 9.1 | no gather any more | reorder: turned | same bits" in report.read_text()
    assert "1 claim in 1 row" in ended.out and document["environment"]["versions"]["jax"]


@pytest.mark.slow
def test_a_fault_in_the_tree_fails_its_row(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, "half of the work", optimized="quarter")
    ended = samebits("audit", "claims", "--root", tree, "--no-cache")
    assert ended.code == 1 and "FAILS: does not hold" in ended.out and "witness: quarter" in ended.out


def test_wrong_requests(tmp_path: Path) -> None:
    write_real_pair(tmp_path, variants=("turned",))
    for words, message in (
        ((), "this tree declares no claims"),
        (("reorder",), "pair 'reorder' declares no claims; write documented=(Documented(...),)"),
        (("reordr",), "pair 'reordr' is unknown; did you mean reorder?"),
    ):
        ended = samebits("audit", "claims", *words, "--root", tmp_path)
        assert (ended.code, ended.out) == (2, "") and message in ended.err and ended.err.count("\n") == 1
    tree = write_tree(tmp_path / "other", "smaller")
    ended = samebits("audit", "claims", "--root", tree, "--claim", "9.2")
    assert ended.code == 2 and "--claim 9.2: expected some of 9.1; did you mean '9.1'?" in ended.err
    ended = samebits("audit", "claims", "--root", tree, "--list")
    assert (ended.code, ended.out.count("\n")) == (0, 2) and ended.out.startswith(
        "samebits compile reorder --target cpu:8"
    )
