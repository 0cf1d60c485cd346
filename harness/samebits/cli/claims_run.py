"""The work of `samebits audit claims`: makes a row for each claim. jax runs only in the processes that it starts."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import click

from samebits.audit.claims.jobs import ClaimJob, FinishedJob, claim_jobs, command_job, passed_tests, run_jobs
from samebits.audit.claims.row import ClaimEvidence, ClaimRow, claim_row, command_claim_row
from samebits.cli.audit import ClaimsOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.select_pairs import load_pairs
from samebits.errors import COULD_NOT_TELL, CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.own_output import own_stdout
from samebits.host.subprocesses import ProcessResult
from samebits.programs.catalogue import default_root
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
        ended: how the commands of the model's claims ended, by the command.
        environment: of the first check.
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


def judge_claims(chosen: ClaimsOptions, run: CommandRun) -> ClaimsDocument:
    """Make a row for each claim: run what it needs in several processes, and read what they wrote."""
    inputs, gathered, stop = _claims_of(chosen, run), JobResults(), threading.Event()
    with (
        run.partial("interrupted; what ended so far is shown"),
        tempfile.TemporaryDirectory(prefix="samebits-claims-") as folder,
        contextlib.ExitStack() as opened,
    ):
        jobs = _jobs(chosen, inputs, Path(folder))
        bar = opened.enter_context(run.progress("claims", Counter(job.kind for job in jobs)))
        # Closed before the report is shown, which ends this process without waiting: its children would go on.
        ended = opened.enter_context(contextlib.closing(run_jobs(jobs, chosen.workers or os.cpu_count() or 1, stop)))
        try:
            for finished in ended:
                bar.add(finished.job.kind, finished.seconds, words=finished.job.shown)
                _gather(finished, gathered, run)
        except KeyboardInterrupt:
            stop.set()
            raise
    rows = _rows(inputs, gathered)
    run.page = bool(rows)  # where nothing could be judged, the problems say why
    return ClaimsDocument(
        environment=gathered.environment,
        compilers=dict(sorted(gathered.compilers.items())),
        results=tuple(rows),
        commands=tuple(sorted(gathered.timings, key=lambda timing: -timing.seconds)),
        problems=tuple(run.problems),
        summary=summarise(rows, run.seconds, run.interrupted),
    )


def list_jobs(chosen: ClaimsOptions) -> int:
    """Print what would run, and run nothing; return the exit code."""
    inputs = _claims_of(chosen, CommandRun())
    for job in _jobs(chosen, inputs, Path(tempfile.gettempdir()) / "samebits-claims"):
        click.echo(job.shown, file=own_stdout())
    return 0


def _jobs(chosen: ClaimsOptions, inputs: ClaimInputs, folder: Path) -> list[ClaimJob]:
    """Return what has to run, the longest first; their files lie in the folder."""
    root = ("--root", str(chosen.root)) if chosen.root is not None else ()
    jobs = [
        job
        for name, (pair, claims) in inputs.pairs.items()
        for job in claim_jobs(pair, name, claims, folder, root, cached=not chosen.no_cache)
    ]
    jobs += [command_job(inputs.model, claim, folder, inputs.tree) for claim in inputs.of_model]
    return sorted(jobs, key=lambda job: (ORDER.index(job.kind), -job.weight))


def _claims_of(chosen: ClaimsOptions, run: CommandRun) -> ClaimInputs:
    """Return the claims asked for, by pair."""
    ids, tree = chosen.claim, chosen.root or default_root()
    pairs: dict[str, tuple[Pair, tuple[Documented, ...]]] = {}
    known: list[str] = []
    for locator, pair in load_pairs(chosen.pairs, chosen.root, run):
        known += [claim.id for claim in pair.documented]
        mine = tuple(claim for claim in pair.documented if _takes(claim.id, ids))
        if mine:
            pairs[locator.name] = (pair, mine)
        elif chosen.pairs and not pair.documented:
            raise RequestError(f"pair '{locator.name}' declares no claims; write documented=(Documented(...),)")
    model, of_model = _of_model(tree) if not chosen.pairs else ("", ())
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
    from samebits.train.request import FOLDER, load_model

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
            gathered.evidence[name] = replace(before, tests=passed_tests(job.file))
        elif job.kind == "check":
            checked = read_as(job.file, Document)
            gathered.environment = gathered.environment or checked.environment
            run.problems += checked.problems
            gathered.evidence[name] = replace(before, results=checked.results)
        else:
            compiled = read_as(job.file, CompileDocument)
            run.problems += compiled.problems
            gathered.compilers.update({program.target: program.compiler for program in compiled.results})
            gathered.evidence[name] = replace(
                before,
                programs=(*before.programs, *compiled.results),
                comparisons=(*before.comparisons, *compiled.comparisons),
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
    """Return a key that sorts `3922.10a` after `3922.9`, and words after numbers."""
    parts = []
    for word in text.split("."):
        digits = word[: len(word) - len(word.lstrip("0123456789"))]
        parts.append((int(digits) if digits else 10**9, word))
    return parts
