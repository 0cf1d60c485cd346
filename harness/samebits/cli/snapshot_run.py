"""Snapshots of verdicts: held against each check, and accepted on request. Imports jax."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import jax

from samebits.audit.snapshots.accept import AcceptedVerdicts, accept_verdicts
from samebits.audit.snapshots.files import FOLDER
from samebits.audit.snapshots.hold import SnapshotComparison, compare_to_snapshots
from samebits.audit.snapshots.record import processor_here
from samebits.cli.common import problem_line, say, write_text
from samebits.cli.found_results import Findings, load_pairs, start_backend
from samebits.cli.select_pairs import plans
from samebits.engine.sweep import sweep
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.programs.catalogue import default_root
from samebits.programs.plan import LoadedPair, Request
from samebits.report.snapshots import AcceptDocument, encode_accepted, show_accepted_verdicts
from samebits.report.terminal import console, show_head
from samebits.schema.result import Problem
from samebits.train.golden.accept import permit_in
from samebits.train.golden.record import Surroundings


def hold_against_snapshots(found: Findings, loaded: Sequence[LoadedPair], seen: Environment) -> SnapshotComparison:
    """Hold the results of a check against the snapshots of its pairs, in their trees."""
    pairs = {
        item.pair.name: Path(item.locator.root) if item.locator.root is not None else default_root()
        for item in loaded
        if ":" not in item.locator.name
    }
    found.results, verdicts, problems = compare_to_snapshots(
        found.results, pairs, Surroundings.of(seen), processor_here(seen)
    )
    for problem in problems:
        found.problem(problem)
    found.notes += verdicts.notes()
    return verdicts


def run_accept(
    asked: Sequence[str],
    request: Request,
    *,
    root: Path | None,
    workers: int,
    json: Path | None,
    reason: str,
    author: str | None,
) -> int:
    """Check pairs and accept what they give here.

    Returns:
        The exit code: 0 when all are accepted, else the gravest of 1 (a result fails), 2 and 3.

    Raises:
        RequestError: nothing may be accepted now, or nothing can be run as asked.
    """
    tree, found = root or default_root(), Findings()
    allowed = permit_in(tree, tree / FOLDER, things="verdicts", reason=reason, author_given=author)
    declared = load_pairs(asked, root, found)
    seen, to = start_backend(), console()
    here, processor = Surroundings.of(seen), processor_here(seen)
    loaded, problems, _ = plans(declared, request, len(jax.devices()))
    for problem in problems:
        found.problem(problem)
    show_head(to, seen.lines())
    done: list[AcceptedVerdicts] = []
    for item in loaded:
        with contextlib.closing(sweep([item], workers=workers, on_problem=found.problem)) as results:
            seen_here = list(results)
        if any(problem.pair == item.locator.name for problem in found.problems):
            continue
        try:
            done.append(accept_verdicts(item.pair.name, tree, seen_here, here, processor, allowed))
        except SamebitsError as error:
            failing = any(result.failed and result.verdict != "error" for result in seen_here)
            code = 1 if failing else error.exit_code
            found.problems.append(Problem(pair=item.pair.name, message=str(error), exit_code=code))
            say(problem_line(found.problems[-1]))
    show_accepted_verdicts(to, done)
    if json is not None:
        document = AcceptDocument(environment=here, results=tuple(done), problems=tuple(found.problems))
        write_text(json, encode_accepted(document))
    codes = {problem.exit_code for problem in found.problems}
    return next((code for code in (1, 2, 3) if code in codes), 0)
