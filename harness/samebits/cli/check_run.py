"""A check from its request to its exit code. Imports jax: to be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax

from samebits.check.contract_audit import DeclarationAudit, judge_declaration, only_seen_note
from samebits.check.judge import where
from samebits.cli.check_shake import repeats_note, shake_by_flags, shake_problems, shake_summary
from samebits.cli.check_subprocess import Again
from samebits.cli.common import COULD_NOT_TELL, say, write_text
from samebits.cli.found_results import Findings, load_pairs, problem_of, start_backend
from samebits.cli.interrupt import Stop, leave_now, undisturbed
from samebits.cli.select_pairs import plans
from samebits.cli.snapshot_run import hold_against_snapshots
from samebits.engine.sweep import sweep
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.host.isolation import take_notes
from samebits.programs.plan import LoadedPair, Request
from samebits.report.document import Document, PairHead, encode
from samebits.report.live import Progress
from samebits.report.markdown import markdown
from samebits.report.terminal import console, show, show_head
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import USUAL, Effort
from samebits.schema.result import Result, exit_code, summarise


def run_check(
    asked: Sequence[str],
    request: Request,
    *,
    root: Path | None,
    workers: int,
    no_skips: bool,
    json: Path | None,
    markdown_to: Path | None,
    effort: Effort = USUAL,
) -> int:
    """Run a request, show it, write it.

    Args:
        asked: names of pairs, or `module:PAIR`; empty means the whole tree.
        request: the filters.
        root: the tree, or None for the current one.
        workers: how many processes.
        no_skips: whether a skipped result fails the run.
        json, markdown_to: files to write, known to be writable.
        effort: how hard each point is tried.

    Returns:
        The exit code.

    Raises:
        RequestError: nothing can be run as asked.
    """
    begin, found, stop, out = time.perf_counter(), Findings(), Stop(), console()
    failed: dict[str, str] = {}
    with stop.listening():
        declared = load_pairs(asked, root, found)
        seen = start_backend()
        loaded, problems, left_out = plans(declared, request, len(jax.devices()))
        for problem in problems:
            found.problem(problem)
        found.notes += [*left_out, *(note for item in loaded for note in _unfit(item, seen))]
        if loaded:
            show_head(out, seen.lines())
        with contextlib.suppress(KeyboardInterrupt):
            _sweep(loaded, workers, effort, found, Progress(out, _totals(loaded)), stop)
            if effort.shake and not stop.asked:
                again = Again(pairs=tuple(asked), request=request, root=root, workers=workers, assuming=effort.assuming)
                found.results, failed = shake_by_flags(again, found.results, seen)
    with undisturbed():
        _order(found.results, loaded)
        if not stop.asked:
            _judge_declarations(loaded, found)
        verdicts = hold_against_snapshots(found, loaded, seen)
        shake = shake_summary(found.results, seen.platform, failed) if effort.shake else None
        for problem in shake_problems(found.results):
            found.problem(problem)
        found.notes += repeats_note(effort.repeats)
        found.notes += take_notes()
        code = exit_code(found.results, found.problems, no_skips=no_skips, interrupted=stop.asked)
        skips = sum(result.verdict == "skipped" for result in found.results)
        if no_skips and skips:
            found.notes.append(f"--no-skips: the {skips} skipped results fail this run")
        document = replace(
            _document(loaded, found, seen, time.perf_counter() - begin, stop.asked), shake=shake, snapshot=verdicts
        )
        if not _write(document, json, markdown_to):
            code = code or COULD_NOT_TELL
        if loaded:
            show(out, document)
        if stop.asked:
            leave_now(code)
    return code


def _sweep(
    loaded: Sequence[LoadedPair], workers: int, effort: Effort, found: Findings, progress: Progress, stop: Stop
) -> None:
    results = sweep(loaded, workers=workers, effort=effort, on_problem=found.problem)
    with progress, contextlib.closing(results):
        for result in results:
            found.results.append(result)
            progress.add(result)
            if stop.asked:
                return


def _order(results: list[Result], loaded: Sequence[LoadedPair]) -> None:
    """Into the order of the plan: workers end in any order, and the same command gives the same document."""
    order = {
        (item.pair.name, *where(point).values()): (first, second)
        for first, item in enumerate(loaded)
        for second, point in enumerate(item.plan.points)
    }
    results.sort(key=lambda r: order[r.pair, r.variant, r.case, r.dtype, r.mesh, r.mode, r.direction])


def _judge_declarations(loaded: Sequence[LoadedPair], found: Findings) -> None:
    broken, only_seen = {problem.pair for problem in found.problems}, 0
    for item in loaded:
        if item.locator.name in broken:
            continue
        results = [result for result in found.results if result.pair == item.pair.name]
        try:
            judged = judge_declaration(item.pair, item.plan, results)
        except SamebitsError as error:
            judged = DeclarationAudit([], [problem_of(item.locator, error)])
        found.notes += judged.notes
        only_seen += judged.only_seen
        for problem in judged.problems:
            found.problem(problem)
    found.notes += only_seen_note(only_seen)


def _document(
    loaded: Sequence[LoadedPair], found: Findings, seen: Environment, seconds: float, interrupted: bool
) -> Document:
    return Document(
        environment=seen,
        pairs=tuple(
            PairHead(
                pair=item.pair.name,
                reference=item.pair.reference_name,
                variants=item.pair.variant_names,
                selected=item.plan.selected,
                product=item.plan.product,
                unfit=item.plan.unfit,
            )
            for item in loaded
        ),
        results=tuple(found.results),
        problems=tuple(found.problems),
        summary=summarise(
            found.results,
            selected=sum(item.plan.selected for item in loaded),
            product=sum(item.plan.product for item in loaded),
            seconds=seconds,
            notes=tuple(found.notes),
            interrupted=interrupted,
        ),
    )


def _write(document: Document, json: Path | None, markdown_to: Path | None) -> bool:
    """Write the files asked for; whether all could be written, a full disk being what is left to go wrong."""
    well = True
    for path, text in ((json, encode), (markdown_to, markdown)):
        if path is not None:
            try:
                write_text(path, text(document))
            except OSError as error:
                say(f"{path}: could not be written: {error.strerror or error}")
                well = False
    return well


def _totals(loaded: Sequence[LoadedPair]) -> Counter[tuple[str, str]]:
    return Counter((item.pair.name, point.variant) for item in loaded for point in item.plan.points)


def _unfit(item: LoadedPair, seen: Environment) -> list[str]:
    """A note on meshes that were left out because they need more devices than there are."""
    if not item.plan.unfit:
        return []
    needs = {mesh: MeshSpec.parse(mesh).devices for mesh in item.plan.unfit}
    hint = f"; --devices {max(needs.values())} runs them" if seen.platform == "cpu" else ""
    listed = ", ".join(f"{mesh} needs {count} devices" for mesh, count in needs.items())
    return [f"{item.pair.name}: not run, for there are {seen.devices}: {listed}{hint}"]
