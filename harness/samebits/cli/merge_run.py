"""The work of `samebits run merge`: shards come in, the document of the whole goes out. Imports jax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.cli.check import MergeOptions
from samebits.cli.check_run import CheckInputs, CheckTask, check_document, unfit_notes
from samebits.cli.pipeline import CommandRun
from samebits.cli.select_pairs import load_pairs, plans
from samebits.engine.check_work import key_of_point
from samebits.engine.run_work import EngineSettings
from samebits.host.isolation import note
from samebits.host.written import Written
from samebits.programs.plan import LoadedPair, Request
from samebits.report.check import Document
from samebits.report.contradictions import edited, holds_wrongly
from samebits.report.shards import (
    ShardFile,
    asked_for,
    missing_shards,
    other_environments,
    read_shard,
    require_same_request,
)
from samebits.schema.finding import Finding, point_of, where
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.result import Problem


def merge_shards(chosen: MergeOptions, run: CommandRun) -> Document:
    """Join the shards of a check: of the time and commit of the shard that began last."""
    files = [read_shard(path) for path in chosen.files]
    parts = require_same_request(files)
    wanted, here = files[0].request, files[0].document.environment
    task = CheckTask(
        pairs=asked_for(files[0], tuple[str, ...], wanted.get("pairs")),
        request=asked_for(files[0], Request, wanted),
        root=chosen.root,
        settings=EngineSettings(),
        no_skips=chosen.no_skips,
        effort=asked_for(files[0], Effort, wanted),
    )
    loaded = plans(run, load_pairs(task.pairs, task.root, run, task.request.sizes), task.request, here.devices)
    run.notes += [*unfit_notes(loaded, here), *other_environments(files)]
    run.page = bool(loaded)
    results = _joined(files, loaded, parts, run)
    document = check_document(task, CheckInputs(loaded=loaded, environment=here), run, results)
    run.dated = False
    return replace(document, written=written_of([file.document.written for file in files]))


def _joined(files: Sequence[ShardFile], loaded: Sequence[LoadedPair], parts: int, run: CommandRun) -> list[Finding]:
    """Take the results of all shards, and say which are missing."""
    planned = {key_of_point(item.pair.name, point): item.locator.name for item in loaded for point in item.plan.points}
    pairs = {item.pair.name: item.pair for item in loaded}
    results: list[Finding] = []
    there: set[str] = set()
    seen = set()
    otherwise: dict[str, Problem] = {}
    for file in files:
        written = file.document.written
        if written is not None and written.dirty:
            note(f"{file.path} was checked with uncommitted changes, which its commit does not have")
        for result in file.document.results:
            pair, key = result.place.pair, key_of_point(result.place.pair, point_of(result.place))
            if key not in planned:
                message = f"{file.path} has results of '{pair}' that the declarations here do not plan: {key}"
                run.problems.append(Problem(pair=pair, message=message, exit_code=2))
                continue
            there.add(key)
            results.append(result)
            problem = held_otherwise(file, pairs[pair], result)
            if result.place in seen:
                problem = Problem(pair=pair, message=edited(file.path, result, "is there twice"), exit_code=2)
            seen.add(result.place)
            if problem is not None:
                otherwise.setdefault(pair, problem)
        for problem in file.document.problems:
            if problem not in run.problems:
                run.problem(problem)
        for text in file.document.summary.notes:
            if text not in run.notes:
                note(text)
    for problem in otherwise.values():
        run.problem(problem)
    lacking = missing_shards(files, parts)
    if lacking is not None:
        run.problem(Problem(pair="*", message=lacking, exit_code=3))
    broken = {problem.pair for problem in run.problems}
    keys = [key for key in planned if key not in there and planned[key] not in broken]
    if keys:
        message = f"{len(keys)} points have no result, the first {keys[0]}; go on with them by --resume, or run them"
        run.problem(Problem(pair=planned[keys[0]], message=message, exit_code=3))
    return results


def written_of(parts: Sequence[Written | None]) -> Written | None:
    """Return when the last part began, at the commit of all parts, with uncommitted changes where one has some."""
    known = [written for written in parts if written is not None]
    if not known:
        return None
    last = max(known, key=lambda written: written.time)
    is_one = len(known) == len(parts) and len({written.commit for written in known}) == 1
    dirty = any(written.dirty for written in known)
    return replace(last, commit=last.commit if is_one else None, dirty=dirty)


def held_otherwise(file: ShardFile, pair: Pair, result: Finding) -> Problem | None:
    """Say what is wrong with a result that holds: another contract is declared here, or its verdict is below it."""
    declared = required_of(pair.on(file.document.environment.platform), result)
    if not result.ruling.ok:
        return None
    if result.ruling.required in declared:
        wrong = holds_wrongly(result)
        message = edited(file.path, result, wrong or "")
        return Problem(pair=result.place.pair, message=message, exit_code=2) if wrong else None
    message = (
        f"{file.path} holds '{result.place.leaf}' of '{result.place.variant}' against '{result.ruling.required}', and "
        f"the declaration here requires '{declared[0]}': it is of another declaration; check again"
    )
    return Problem(pair=result.place.pair, message=message, exit_code=2)


def required_of(pair: Pair, result: Finding) -> list[str]:
    """Return what a declaration may require of a result: a documented error or an exemption decide alone.

    Where no contract covers it, what is required depends on the proof.
    """
    at = where(result.place) | {"leaf": result.place.leaf.split(" (replica")[0]}
    if pair.case(result.place.case).refusal(result.place.variant) is not None:
        return ["refused"]
    exemption = pair.exemption(**at)
    if exemption is not None:
        return [exemption.verdict]
    return list(dict.fromkeys(pair.contract(**at, moves=moves).lowest for moves in (False, True)))
