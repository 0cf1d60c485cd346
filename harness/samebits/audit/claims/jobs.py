"""Runs the commands that support claims (`check`, `compile` and tests of each pair, and other commands) in parallel.

Workers are processes, because libtpu compiles only one program at a time in each process. Each command is run as a user
would type it, and writes its document to a file; commands that load jax share a long-lived process.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import ParseError

from junitparser import JUnitXml, JUnitXmlError

from samebits.errors import CouldNotRun
from samebits.host.subprocesses import ProcessResult, run_process, samebits_environment
from samebits.schema.document_claim import Documented
from samebits.schema.pair import Pair

Kind = Literal["check", "compile", "tests", "command"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimJob:
    """One command to run.

    Args:
        kind: what it runs.
        subject: the pair or model that it belongs to.
        words: the words after `samebits` or `pytest`.
        file: the document that it writes.
        tree: the folder that it runs in; None for the current one.
        weight: the expected amount of work, relative to jobs of the same kind.
    """

    kind: Kind
    subject: str
    words: tuple[str, ...]
    file: Path
    tree: Path | None = None
    weight: int = 0

    @property
    def shown(self) -> str:
        """The command line, for a reader."""
        return " ".join(("pytest" if self.kind == "tests" else "samebits", *self.words))


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedJob:
    """A job that has ended; if it could not run, `ended` is None and `why` gives the reason."""

    job: ClaimJob
    ended: ProcessResult | None
    seconds: float
    why: str = ""


Run = Callable[[ClaimJob, threading.Event], ProcessResult]


def claim_jobs(
    pair: Pair, name: str, claims: Sequence[Documented], folder: Path, more: Sequence[str], *, cached: bool
) -> list[ClaimJob]:
    """Return the commands that support the claims about a pair: its check, its compiled programs, its tests.

    Args:
        pair, name: the declaration, and its name in a command.
        claims: the requested claims.
        folder: the folder for documents.
        more: words to add to every command, such as `--root TREE`.
        cached: whether to use the cache of compiled programs.
    """
    valued = [claim for claim in claims if not claim.compiled_only]
    jobs = [_job("check", name, ("check", name, *_variant_words(valued)), folder, more)] if valued else []
    compiled = [claim for claim in claims if claim.saves or claim.real]
    if compiled:
        whole = any(not claim.real for claim in compiled)
        wanted = {case for claim in compiled for case in claim.real}
        real = [compiled_case for compiled_case in pair.compiled if whole or compiled_case.case.id in wanted]
        kept = () if cached else ("--no-cache",)
        # One process per target: libtpu compiles one program at a time in each.
        for target in dict.fromkeys(target for compiled_case in real for target in compiled_case.targets):
            cases = [
                word
                for compiled_case in real
                if target in compiled_case.targets
                for word in ("--case", compiled_case.case.id)
            ]
            words = (
                "compile",
                name,
                "--target",
                target,
                *_variant_words(compiled),
                *cases,
                *_direction_words(compiled),
                *kept,
            )
            sides = sum(
                len(compiled_case.case.variants or pair.variant_names)
                for compiled_case in real
                if target in compiled_case.targets
            )
            jobs.append(_job("compile", name, words, folder, more, target, sides))
    tests = tuple(dict.fromkeys(test for claim in claims for test in claim.tests))
    if tests:
        jobs.append(
            ClaimJob(
                kind="tests",
                subject=name,
                words=tuple(f"{_shown_path(pair.origin)}::{test}" for test in tests),
                file=folder / f"{name}.tests.xml",
            )
        )
    return jobs


def _variant_words(claims: Sequence[Documented]) -> list[str]:
    """Return the sides that claims are about, as words of a command; empty if a claim is about all sides."""
    every = any(not claim.variants for claim in claims)
    sides = () if every else tuple(dict.fromkeys(side for claim in claims for side in claim.variants))
    return [word for side in sides for word in ("--variant", side)]


def _direction_words(claims: Sequence[Documented]) -> list[str]:
    """Return the directions that claims are about, as words of a command; empty if a claim is about both."""
    chosen = {direction for claim in claims for direction in claim.directions}
    both = any(not claim.directions for claim in claims) or len(chosen) > 1
    return [] if both else [word for direction in chosen for word in ("--direction", direction)]


def _shown_path(path: str) -> str:
    """Return a path relative to the current folder if it is inside, else unchanged."""
    inside = Path(path).is_relative_to(Path.cwd())
    return str(Path(path).relative_to(Path.cwd())) if inside else path


def command_job(subject: str, claim: Documented, folder: Path, tree: Path) -> ClaimJob:
    """Return the command that shows a claim of the model; it runs in the model's tree."""
    file = folder / f"{claim.id}.command.json"
    return ClaimJob(kind="command", subject=subject, words=claim.command, file=file, tree=tree)


def _job(
    kind: Kind, name: str, words: tuple[str, ...], folder: Path, more: Sequence[str], mark: str = "", weight: int = 0
) -> ClaimJob:
    file = folder / f"{'.'.join((name, kind, mark)).replace(':', '.')}.json"
    return ClaimJob(kind=kind, subject=name, words=(*words, *more), file=file, weight=weight)


def run_jobs(
    jobs: Sequence[ClaimJob], workers: int, stop: threading.Event, run: Run | None = None
) -> Generator[FinishedJob]:
    """Run jobs in parallel, and yield each as it ends.

    Args:
        jobs: the longest first, so that workers finish at about the same time.
        workers: how many run at once.
        stop: when set, running jobs are ended and the others are not started.
        run: runs one job; tests replace it.
    """
    # Worker processes are closed last, after the threads that use them have finished.
    with contextlib.ExitStack() as opened, ThreadPoolExecutor(workers, thread_name_prefix="claims") as pool:
        run = run or _Workers(opened).run
        waiting: set[Future[FinishedJob]] = {pool.submit(_run, job, stop, run) for job in jobs}
        try:
            while waiting:
                # With a timeout, so that Ctrl-C reaches the main thread.
                ended, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        finally:
            stop.set()


def _run(job: ClaimJob, stop: threading.Event, run: Run) -> FinishedJob:
    begin = time.perf_counter()
    if stop.is_set():
        return FinishedJob(job=job, ended=None, seconds=0.0, why="stopped before it began")
    try:
        ended = run(job, stop)
    except CouldNotRun as error:
        return FinishedJob(job=job, ended=None, seconds=time.perf_counter() - begin, why=str(error))
    return FinishedJob(job=job, ended=ended, seconds=time.perf_counter() - begin)


class _Workers:
    """One worker process per thread and kind of command: its first command fixes devices and flags."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self._opened = opened
        self._local = threading.local()

    def run(self, job: ClaimJob, stop: threading.Event) -> ProcessResult:
        """Run a job: `check` and `compile` in a long-lived worker, other commands in a process of their own."""
        if job.kind not in ("check", "compile") or job.tree is not None:
            return run_process(_command_line(job), job.tree or Path.cwd(), samebits_environment(os.environ), None, stop)
        kind, worker = getattr(self._local, "worker", ("", None))
        if worker is None or kind != job.kind:
            if worker is not None:
                worker.close()
            worker = CommandWorker()
            self._local.worker = (job.kind, worker)
            self._opened.callback(worker.close)
        return worker.run((*job.words, "--json", str(job.file)), stop)


def _command_line(job: ClaimJob) -> list[str]:
    if job.kind == "tests":
        quiet = (
            "-q",
            "-o",
            "junit_family=xunit1",
            "-m",
            "",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            f"--junitxml={job.file}",
        )
        return [sys.executable, "-m", "pytest", *quiet, *job.words]
    return [sys.executable, "-m", "samebits", *job.words, "--json", str(job.file)]


COMMAND = (sys.executable, "-m", "samebits", "audit", "worker")
"""Reads one line of JSON per command (`words`, and the files `out` and `err`), and answers with one line (`code`)."""


class CommandWorker:
    """A worker process; it is started for the first command, and again after a command that ended it.

    Args:
        command: the command line of the process; tests replace it.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], stop: threading.Event) -> ProcessResult:
        """Run one command.

        Returns:
            The exit code and output of the command; if the command ended the process, the exit code of the process.

        Raises:
            CouldNotRun: the process cannot be started, or was stopped.
        """
        process = self._started()
        with tempfile.TemporaryDirectory(prefix="samebits-worker-") as folder:
            files = {name: str(Path(folder, name)) for name in ("out", "err")}
            for file in files.values():
                Path(file).touch()
            code = self._answer(process, json.dumps({"words": list(words), **files}), stop)
            out, err = (Path(file).read_text(encoding="utf-8", errors="replace") for file in files.values())
        return ProcessResult(code=code, out=out, err=err)

    def close(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process.wait()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    env=samebits_environment(os.environ),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise CouldNotRun(f"'{self._command[0]}' cannot be started: {error.strerror or error}") from None
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], request: str, stop: threading.Event) -> int:
        assert process.stdin is not None and process.stdout is not None
        line = b""
        # If the process has already ended, the pipe is closed and reading from it returns nothing.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                while not ready.select(0.1):
                    if stop.is_set():
                        self.close()
                        raise CouldNotRun("stopped")
            line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            return code
        return int(json.loads(line)["code"])


def passed_tests(file: Path) -> dict[str, bool]:
    """Test functions by name: whether every case of each ran and passed; one that was skipped did not.

    Raises:
        CouldNotRun: the file cannot be read.
    """
    try:
        suites = JUnitXml.fromfile(str(file))
    except (OSError, ParseError, JUnitXmlError) as error:
        raise CouldNotRun(f"what pytest wrote cannot be read: {error}") from None
    passed: dict[str, bool] = {}
    for suite in suites:
        for case in suite:
            function = str(case.name).partition("[")[0]
            passed[function] = passed.get(function, True) and case.is_passed
    return passed
