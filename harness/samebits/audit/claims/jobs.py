"""Runs the commands that support claims (`check`, `compile` and tests of each pair, and other commands) in parallel.

Each is a process, because libtpu compiles only one program at a time in each. It is run as a user would type it, and
writes its document to a file.
"""

from __future__ import annotations

import os
import sys
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
        subject: the pair or model that it belongs to.
        words: the words after `samebits` or `pytest`.
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
    """Return the commands that support the claims about a pair: its check, its compiled programs, its tests."""
    valued = [claim for claim in claims if not claim.compiled_only]
    jobs = [_job("check", name, ("check", name, *_variant_words(valued)), folder, more)] if valued else []
    compiled = [claim for claim in claims if claim.saves or claim.real]
    if compiled:
        whole = any(not claim.real for claim in compiled)
        wanted = {case for claim in compiled for case in claim.real}
        real = [shape for shape in pair.compiled if whole or shape.case.id in wanted]
        kept = () if cached else ("--no-cache",)
        # One process per target: libtpu compiles one program at a time in each.
        for target in dict.fromkeys(target for shape in real for target in shape.targets):
            cases = [shape.case for shape in real if target in shape.targets]
            words = ["compile", name, "--target", target, *_variant_words(compiled)]
            words += [word for case in cases for word in ("--case", case.id)]
            sides = sum(len(case.variants or pair.variant_names) for case in cases)
            words += [*_direction_words(compiled), *kept]
            jobs.append(_job("compile", name, tuple(words), folder, more, target, sides))
    tests = tuple(dict.fromkeys(test for claim in claims for test in claim.tests))
    if tests:
        words = [f"{_shown_path(pair.origin)}::{test}" for test in tests]
        jobs.append(ClaimJob(kind="tests", subject=name, words=tuple(words), file=folder / f"{name}.tests.xml"))
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


def _process(job: ClaimJob, stop: threading.Event) -> ProcessResult:
    return run_process(_command_line(job), job.tree or Path.cwd(), samebits_environment(os.environ), None, stop)


def run_jobs(
    jobs: Sequence[ClaimJob], workers: int, stop: threading.Event, run: Run = _process
) -> Generator[FinishedJob]:
    """Run jobs in parallel, and yield each as it ends; once `stop` is set, running ones end and no other starts."""
    with ThreadPoolExecutor(workers, thread_name_prefix="claims") as pool:
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


def _command_line(job: ClaimJob) -> list[str]:
    if job.kind == "tests":
        quiet = ["-q", "-o", "junit_family=xunit1", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist"]
        return [sys.executable, "-m", "pytest", *quiet, f"--junitxml={job.file}", *job.words]
    return [sys.executable, "-m", "samebits", *job.words, "--json", str(job.file)]


def passed_tests(file: Path) -> dict[str, bool]:
    """Test functions by name: whether every case of each ran and passed; one that was skipped did not."""
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
