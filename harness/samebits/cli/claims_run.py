"""A run of `samebits claims`, from its request to its exit code; jax runs in the processes that it starts alone."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import click

from samebits.audit.claims.jobs import ClaimJob, FinishedJob, claim_jobs, command_job, run_jobs
from samebits.audit.claims.junit import passed_tests
from samebits.audit.claims.row import ClaimEvidence, ClaimRow, claim_row, command_claim_row
from samebits.cli.common import problem_line, say, write_text
from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.host.environment import Environment
from samebits.host.subprocesses import ProcessResult
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.report.claims import ClaimsDocument, Ran, encode_claims, exit_code, summarise
from samebits.report.claims_tables import claims_markdown, show_claims
from samebits.report.compile import CompileDocument
from samebits.report.document import Document, read_as
from samebits.report.terminal import console
from samebits.schema.document_claim import Documented
from samebits.schema.pair import Pair
from samebits.schema.result import Problem
from samebits.schema.validate import expected

ORDER = ("command", "compile", "check", "tests")
"""What takes long starts first."""


@dataclass(kw_only=True, slots=True)
class _Found:
    """What the jobs gave so far, by pair."""

    evidence: dict[str, ClaimEvidence] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    ended: dict[str, ProcessResult] = field(default_factory=dict)
    environment: Environment | None = None
    compilers: dict[str, str | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)

    def problem(self, name: str, message: str, code: int = 3) -> None:
        """Keep a problem and say it at once."""
        self.problems.append(Problem(pair=name, message=message, exit_code=code))
        say(problem_line(self.problems[-1]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    pairs: dict[str, tuple[Pair, tuple[Documented, ...]]]
    tree: Path
    model: str
    of_model: tuple[Documented, ...]


def run_claims(
    asked: Sequence[str],
    ids: Sequence[str],
    *,
    root: Path | None,
    more: Sequence[str],
    cached: bool,
    listing: bool,
    lanes: int,
    json: Path | None,
    markdown_to: Path | None,
) -> int:
    """Run the claims, show them, write them.

    Args:
        asked: names of pairs, or `module:PAIR`; empty means all, and the model.
        ids: shell patterns of claims.
        root, more: the tree, and the words that name it in every command.
        cached: whether compiled programs are kept and looked up.
        listing: say what would run, and stop.
        lanes: processes at once.
        json, markdown_to: files to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        RequestError: no claim is asked for.
    """
    begin, found = time.perf_counter(), _Found()
    chosen = _chosen(asked, ids, root, found)
    with tempfile.TemporaryDirectory(prefix="samebits-claims-") as name:
        jobs = _jobs(chosen, Path(name), more, cached)
        if listing:
            for job in jobs:
                click.echo(job.shown)
            return 0
        interrupted = _run(jobs, lanes, found)
    rows = _rows(chosen, found)
    document = ClaimsDocument(
        environment=found.environment,
        compilers=dict(sorted(found.compilers.items())),
        results=tuple(rows),
        commands=tuple(sorted(found.ran, key=lambda one: -one.seconds)),
        problems=tuple(found.problems),
        summary=summarise(rows, time.perf_counter() - begin, interrupted),
    )
    if json is not None:
        write_text(json, encode_claims(document))
    if markdown_to is not None:
        write_text(markdown_to, claims_markdown(document))
    if rows:
        show_claims(console(), document)
    return exit_code(document)


def _chosen(asked: Sequence[str], ids: Sequence[str], root: Path | None, found: _Found) -> _Asked:
    """The claims asked for, by pair.

    Raises:
        RequestError: there are none, with the known ones.
    """
    pairs: dict[str, tuple[Pair, tuple[Documented, ...]]] = {}
    known: list[str] = []
    tree = root or default_root()
    for name in dict.fromkeys(asked) or names(tree):
        try:
            pair = load(Locator(name=name, root=None if ":" in name or root is None else str(root)))
        except SamebitsError as error:
            found.problem(name, str(error), error.exit_code)
            continue
        known += [claim.id for claim in pair.documented]
        mine = tuple(claim for claim in pair.documented if _takes(claim.id, ids))
        if mine:
            pairs[name] = (pair, mine)
        elif asked and not pair.documented:
            raise RequestError(f"pair '{name}' declares no claims; write documented=(Documented(...),)")
    model, of_model = _of_model(tree) if not asked else ("", ())
    known += [claim.id for claim in of_model]
    of_model = tuple(claim for claim in of_model if _takes(claim.id, ids))
    if not pairs and not of_model:
        if found.problems:
            return _Asked(pairs={}, tree=tree, model=model, of_model=())
        if not known:
            raise RequestError("this tree declares no claims; write documented=(Documented(...),) in a pair")
        raise RequestError(f"--claim {ids[0]}: {expected(ids[0], sorted(set(known)))}")
    return _Asked(pairs=pairs, tree=tree, model=model, of_model=of_model)


def _of_model(tree: Path) -> tuple[str, tuple[Documented, ...]]:
    from samebits.train.load import FOLDER, load_model

    if not (tree / FOLDER / "__init__.py").is_file():
        return "", ()
    model = load_model(tree)
    return model.name, model.documented


def _takes(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _jobs(chosen: _Asked, folder: Path, more: Sequence[str], cached: bool) -> list[ClaimJob]:
    jobs = [
        job
        for name, (pair, claims) in chosen.pairs.items()
        for job in claim_jobs(pair, name, claims, folder, more, cached=cached)
    ]
    jobs += [command_job(chosen.model, claim, folder, chosen.tree) for claim in chosen.of_model]
    return sorted(jobs, key=lambda job: (ORDER.index(job.kind), -job.weight))


def _run(jobs: Sequence[ClaimJob], lanes: int, found: _Found) -> bool:
    """Run all; whether it was interrupted."""
    stop, out, number = threading.Event(), console(), 0
    waiting = out.status("running", spinner="dots") if out.is_terminal else contextlib.nullcontext()
    try:
        with waiting as shown:
            for done in run_jobs(jobs, lanes, stop):
                number += 1
                if shown is not None:
                    shown.update(f"{number} of {len(jobs)} commands; {done.job.shown[:100]}: {done.seconds:.0f} s")
                _keep(done, found)
    except KeyboardInterrupt:
        stop.set()
        say("interrupted; what ended so far is shown")
        return True
    return False


def _keep(done: FinishedJob, found: _Found) -> None:
    """Put what a job gave where its rows find it."""
    job, name = done.job, done.job.subject
    code = None if done.ended is None else done.ended.code
    found.ran.append(Ran(command=job.shown, exit_code=code, seconds=round(done.seconds, 1)))
    if job.kind != "command":
        found.commands.setdefault(name, []).append(job.shown)
    try:
        if done.ended is None:
            raise CouldNotRun(done.why)
        if job.kind == "command":
            found.ended[job.shown] = done.ended
            return
        before = found.evidence.get(name, ClaimEvidence())
        if job.kind == "tests":
            found.evidence[name] = ClaimEvidence(
                before.results, before.programs, before.comparisons, passed_tests(job.file)
            )
        elif job.kind == "check":
            checked = read_as(job.file, Document)
            found.environment = found.environment or checked.environment
            found.problems += checked.problems
            found.evidence[name] = ClaimEvidence(checked.results, before.programs, before.comparisons, before.tests)
        else:
            compiled = read_as(job.file, CompileDocument)
            found.problems += compiled.problems
            found.compilers.update({one.target: one.compiler for one in compiled.results})
            programs, comparisons = before.programs, before.comparisons
            found.evidence[name] = ClaimEvidence(
                before.results,
                (*programs, *compiled.results),
                (*comparisons, *compiled.comparisons),
                before.tests,
            )
    except (CouldNotRun, RequestError) as error:
        last = "" if done.ended is None else f": {done.ended.last}"
        found.problem(name, f"`{job.shown}` gave nothing to read ({error}){last}")


def _rows(chosen: _Asked, found: _Found) -> list[ClaimRow]:
    rows = [
        claim_row(
            claim, name, pair.variant_names, found.evidence.get(name, ClaimEvidence()), found.commands.get(name, ())
        )
        for name, (pair, claims) in chosen.pairs.items()
        for claim in claims
    ]
    for claim in chosen.of_model:
        shown = " ".join(("samebits", *claim.command))
        rows.append(command_claim_row(claim, chosen.model, found.ended.get(shown), shown))
    return sorted(rows, key=lambda one: (_by_number(one.id), one.subject))


def _by_number(text: str) -> list[tuple[int, str]]:
    """`3922.10a` after `3922.9`, and words after numbers."""
    parts = []
    for word in text.split("."):
        digits = word[: len(word) - len(word.lstrip("0123456789"))]
        parts.append((int(digits) if digits else 10**9, word))
    return parts
