"""Ctrl-C at any moment is one line and exit code 3: in every import, in every process, without a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.cli import pipeline
from samebits.host.interrupts import Interrupted, Stop
from tests.support.foreign import write_pair
from tests.support.invoke import clean_environment

SITE = '''
import os, signal, sys

class Interrupts:
    """Sends Ctrl-C as a terminal does once a module is imported, in the process that is meant, and only once."""

    def find_spec(self, name, path=None, target=None):
        worker = "--multiprocessing-fork" in sys.argv or "spawn_main" in " ".join(sys.orig_argv)
        if name == os.environ["SENDS_AT"] and worker == (os.environ["SENDS_IN"] == "worker"):
            try:
                os.close(os.open(os.environ["SENT"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return None
            os.killpg(os.getsid(0), signal.SIGINT)  # a worker may have a group of its own by now
        return None

sys.meta_path.insert(0, Interrupts())
'''
"""Of a sitecustomize.py, which each Python process imports before anything else."""

EARLY = "samebits: interrupted before anything was checked\n"

LATE = r"samebits: every result so far is in \S+; the same command with --resume goes on from there\n"


def interrupted(tmp_path: Path, module: str, process: str) -> subprocess.CompletedProcess[str]:
    """A check that gets Ctrl-C, as a terminal sends it, when a process imports a module."""
    tree, site = tmp_path / "tree", tmp_path / "site"
    tree.mkdir()
    site.mkdir()
    write_pair(tree, "a_pair")
    (site / "sitecustomize.py").write_text(SITE)
    environment = clean_environment(SENDS_AT=module, SENDS_IN=process, SENT=str(tmp_path / "sent"))
    paths = os.pathsep.join([str(site), environment["PYTHONPATH"]])
    words = ("check", "--root", tree, "--fresh", "--workers", "2", "--journal", tmp_path / "journal", "--json")
    # A shell without job control starts what stands before `&` with the signal ignored, and children inherit that; a
    # handler they do not inherit. Not `preexec_fn`: it forks this process, in which jax may have threads.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(
            [sys.executable, "-m", "samebits", *map(str, words), str(tmp_path / "r.json")],
            env={**environment, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    out, err = running.communicate(timeout=120)
    assert (tmp_path / "sent").exists(), "no process of this kind has imported the module"
    return subprocess.CompletedProcess((), running.returncode, out, err)


@pytest.mark.parametrize("module", ["samebits.cli.options", "samebits.cli.check_run", "jax", "jax._src.interpreters"])
def test_before_anything_ran_it_is_one_line(tmp_path: Path, module: str) -> None:
    ended = interrupted(tmp_path, module, "command")
    assert (ended.returncode, ended.stderr) == (3, EARLY)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("module", ["jax", "jax._src.interpreters", "samebits.check.run_points"])
def test_while_a_worker_imports_it_is_one_line(tmp_path: Path, module: str) -> None:
    """The worker says nothing: a handler of its own would come too late for its imports."""
    ended = interrupted(tmp_path, module, "worker")
    assert ended.returncode == 3
    assert re.fullmatch(LATE, ended.stderr), ended.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["summary"]["interrupted"] is True
    assert ended.stdout.splitlines()[-1].startswith("interrupted; ")
    assert (tmp_path / "journal").exists()


def test_nothing_to_report_has_an_end_of_its_own() -> None:
    assert Interrupted(3).code == 3 and issubclass(Interrupted, SystemExit)


def test_reports_are_written_as_a_whole() -> None:
    with pipeline.signals_ignored():
        os.kill(os.getpid(), signal.SIGINT)


def test_outside_of_a_command_nothing_has_arrived() -> None:
    pipeline.require_not_interrupted()
    assert not Stop().asked
