"""`samebits audit claims`: makes a row for each claim. jax runs only in the processes that it starts."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import click

from samebits.audit.claims.jobs import ClaimJob, FinishedJob, claim_jobs, command_job, passed_tests, run_jobs
from samebits.audit.claims.row import ClaimEvidence, ClaimRow, claim_row, command_claim_row
from samebits.cli.audit import ClaimsOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.supervision import importing
from samebits.errors import COULD_NOT_TELL, CouldNotRun, RequestError, SamebitsError
from samebits.host.environment import Environment
from samebits.host.own_output import own_stdout
from samebits.host.subprocesses import ProcessResult
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.report.check import Document
from samebits.report.claims import ClaimsDocument, Ran, summarise
from samebits.report.compile import CompileDocument
from samebits.report.document import read_as
from samebits.schema.document_claim import Documented
from samebits.schema.pair import Pair
from samebits.schema.result import Problem
from samebits.schema.validate import expected

ORDER = ("command", "compile", "check", "tests")
"""What takes long starts first."""


@dataclass(kw_only=True, slots=True)
class JobResults:
    """What the jobs gave so far, by pair.

    Args:
        evidence: of `check`, `compile` and tests.
        commands: what was run.
        ended: how the commands of the model's claims ended, by the command.
        environment: of the first check.
        compilers: by target.
        timings: of all jobs.
    """

    evidence: dict[str, ClaimEvidence] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    ended: dict[str, ProcessResult] = field(default_factory=dict)
    environment: Environment | None = None
    compilers: dict[str, str | None] = field(default_factory=dict)
    timings: list[Ran] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimInputs:
    """The claims to judge, by pair, and those of the model."""

    pairs: dict[str, tuple[Pair, tuple[Documented, ...]]]
    tree: Path
    model: str
    of_model: tuple[Documented, ...]


@dataclass(frozen=True, kw_only=True)
class ClaimsCommand(Command[ClaimInputs, FinishedJob, ClaimsDocument]):
    """Judge claims.

    Args:
        chosen: the options.
        gathered: what the jobs gave so far.
    """

    chosen: ClaimsOptions
    gathered: JobResults = field(default_factory=JobResults)

    on_interrupt = "interrupted; what ended so far is shown"
    handles_signals = True

    def load(self, run: CommandRun) -> ClaimInputs:
        """The claims that the request names.

        Raises:
            RequestError: there are none.
        """
        return _claims_of(self.chosen, run)

    def execute(self, run: CommandRun, inputs: ClaimInputs, results: list[FinishedJob]) -> None:
        """Run the jobs on several processes, and read what they wrote while it is there."""
        stop = threading.Event()
        with tempfile.TemporaryDirectory(prefix="samebits-claims-") as folder, contextlib.ExitStack() as opened:
            jobs = self.jobs(inputs, Path(folder))
            bar = opened.enter_context(run.progress("claims", Counter(job.kind for job in jobs)))
            # Closed before the report is shown, which ends this process without waiting: its children would go on.
            ended = opened.enter_context(
                contextlib.closing(run_jobs(jobs, self.chosen.workers or os.cpu_count() or 1, stop))
            )
            try:
                for finished in ended:
                    results.append(finished)
                    bar.add(finished.job.kind, finished.seconds, words=finished.job.shown)
                    _gather(finished, self.gathered, run)
            except KeyboardInterrupt:
                stop.set()
                raise

    def jobs(self, inputs: ClaimInputs, folder: Path) -> list[ClaimJob]:
        """What has to run, the longest first; their files lie in the folder."""
        chosen = self.chosen
        root = ("--root", str(chosen.root)) if chosen.root is not None else ()
        jobs = [
            job
            for name, (pair, claims) in inputs.pairs.items()
            for job in claim_jobs(pair, name, claims, folder, root, cached=not chosen.no_cache)
        ]
        jobs += [command_job(inputs.model, claim, folder, inputs.tree) for claim in inputs.of_model]
        return sorted(jobs, key=lambda job: (ORDER.index(job.kind), -job.weight))

    def document(self, run: CommandRun, inputs: ClaimInputs, results: list[FinishedJob]) -> ClaimsDocument:
        """A row per claim."""
        rows = _rows(inputs, self.gathered)
        return ClaimsDocument(
            environment=self.gathered.environment,
            compilers=dict(sorted(self.gathered.compilers.items())),
            results=tuple(rows),
            commands=tuple(sorted(self.gathered.timings, key=lambda timing: -timing.seconds)),
            problems=tuple(run.problems),
            summary=summarise(rows, run.seconds, run.interrupted),
        )

    def show(self, run: CommandRun, inputs: ClaimInputs, document: ClaimsDocument) -> None:
        """Print the page; where nothing could be judged, the problems say why."""
        if document.results:
            super().show(run, inputs, document)


def list_jobs(command: ClaimsCommand) -> int:
    """Print what would run, and run nothing; the exit code."""
    inputs = command.load(CommandRun())
    for job in command.jobs(inputs, Path(tempfile.gettempdir()) / "samebits-claims"):
        click.echo(job.shown, file=own_stdout())
    return 0


def _claims_of(chosen: ClaimsOptions, run: CommandRun) -> ClaimInputs:
    """Return the claims asked for, by pair.

    Raises:
        RequestError: there are none, with the known ones.
    """
    named, ids, root = chosen.pairs, chosen.claim, chosen.root
    pairs: dict[str, tuple[Pair, tuple[Documented, ...]]] = {}
    known: list[str] = []
    tree = root or default_root()
    for name in dict.fromkeys(named) or names(tree):
        try:
            with importing(name):
                pair = load(Locator(name=name, root=None if ":" in name or root is None else str(root)))
        except SamebitsError as error:
            run.problem(Problem(pair=name, message=str(error), exit_code=error.exit_code))
            continue
        known += [claim.id for claim in pair.documented]
        mine = tuple(claim for claim in pair.documented if _takes(claim.id, ids))
        if mine:
            pairs[name] = (pair, mine)
        elif named and not pair.documented:
            raise RequestError(f"pair '{name}' declares no claims; write documented=(Documented(...),)")
    model, of_model = _of_model(tree) if not named else ("", ())
    known += [claim.id for claim in of_model]
    of_model = tuple(claim for claim in of_model if _takes(claim.id, ids))
    if not pairs and not of_model:
        if run.problems:
            return ClaimInputs(pairs={}, tree=tree, model=model, of_model=())
        if not known:
            raise RequestError("this tree declares no claims; write documented=(Documented(...),) in a pair")
        raise RequestError(f"--claim {ids[0]}: {expected(ids[0], sorted(set(known)))}")
    return ClaimInputs(pairs=pairs, tree=tree, model=model, of_model=of_model)


def _of_model(tree: Path) -> tuple[str, tuple[Documented, ...]]:
    from samebits.train.load import FOLDER, load_model

    if not (tree / FOLDER / "__init__.py").is_file():
        return "", ()
    model = load_model(tree)
    return model.name, model.documented


def _takes(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _gather(finished: FinishedJob, gathered: JobResults, run: CommandRun) -> None:
    """Put what a job gave where its rows look for it."""
    job, name = finished.job, finished.job.subject
    code = None if finished.ended is None else finished.ended.code
    gathered.timings.append(Ran(command=job.shown, exit_code=code, seconds=round(finished.seconds, 1)))
    if job.kind != "command":
        gathered.commands.setdefault(name, []).append(job.shown)
    try:
        if finished.ended is None:
            raise CouldNotRun(finished.why)
        if job.kind == "command":
            gathered.ended[job.shown] = finished.ended
            return
        before = gathered.evidence.get(name, ClaimEvidence())
        if job.kind == "tests":
            gathered.evidence[name] = ClaimEvidence(
                before.results, before.programs, before.comparisons, passed_tests(job.file)
            )
        elif job.kind == "check":
            checked = read_as(job.file, Document)
            gathered.environment = gathered.environment or checked.environment
            run.problems += checked.problems
            gathered.evidence[name] = ClaimEvidence(checked.results, before.programs, before.comparisons, before.tests)
        else:
            compiled = read_as(job.file, CompileDocument)
            run.problems += compiled.problems
            gathered.compilers.update({program.target: program.compiler for program in compiled.results})
            programs, comparisons = before.programs, before.comparisons
            gathered.evidence[name] = ClaimEvidence(
                before.results,
                (*programs, *compiled.results),
                (*comparisons, *compiled.comparisons),
                before.tests,
            )
    except (CouldNotRun, RequestError) as error:
        last = "" if finished.ended is None else f": {finished.ended.last}"
        message = f"`{job.shown}` gave nothing to read ({error}){last}"
        run.problem(Problem(pair=name, message=message, exit_code=COULD_NOT_TELL))


def _rows(inputs: ClaimInputs, gathered: JobResults) -> list[ClaimRow]:
    rows = [
        claim_row(
            claim,
            name,
            pair.variant_names,
            gathered.evidence.get(name, ClaimEvidence()),
            gathered.commands.get(name, ()),
        )
        for name, (pair, claims) in inputs.pairs.items()
        for claim in claims
    ]
    for claim in inputs.of_model:
        shown = " ".join(("samebits", *claim.command))
        rows.append(command_claim_row(claim, inputs.model, gathered.ended.get(shown), shown))
    return sorted(rows, key=lambda claim: (_by_number(claim.id), claim.subject))


def _by_number(text: str) -> list[tuple[int, str]]:
    """`3922.10a` after `3922.9`, and words after numbers."""
    parts = []
    for word in text.split("."):
        digits = word[: len(word) - len(word.lstrip("0123456789"))]
        parts.append((int(digits) if digits else 10**9, word))
    return parts
