"""The work of `samebits check`: pairs come in, verdicts go out. Imports jax: to be imported after `prepare`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from samebits.check.contract_audit import DeclarationAudit, judge_declaration, only_seen_note, proof_notes
from samebits.check.line_evidence import few_lines
from samebits.check.shake import (
    LEFT_OUT,
    ShakeOption,
    accepted,
    flag_options,
    outcomes_under,
    with_shaken,
    worth_shaking,
)
from samebits.cli.check import CheckOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journal_head, journaled
from samebits.cli.select_pairs import import_sides, in_order_of, load_pairs, plans, problem_of
from samebits.cli.snapshot_run import compare_with_snapshots
from samebits.engine.check_work import check_items
from samebits.engine.journal import Journal, JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.engine.verdict_cache import VerdictCache, shared_entries, sweep
from samebits.engine.work import Shard
from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.host.environment import Environment
from samebits.host.isolation import take_notes
from samebits.host.written import written_now
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import root_of
from samebits.programs.other_sizes import sizeless_note
from samebits.programs.plan import LoadedPair, Request
from samebits.report.check import Document, read_document
from samebits.report.pair_heads import pair_head
from samebits.report.shards import request_of
from samebits.rooms import door
from samebits.schema.finding import Finding, Place, shake_of, summarise
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.result import Problem

RARE = 1 / 20
"""How often a side gives other bits, in the probability that is printed of seeing it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckTask:
    """What is checked.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means the whole tree.
        root: the tree, or None for the current one.
        audited: whether the contracts are held against all results.
        target: a slice whose compiler's programs are run; empty for what is declared.
        products: how these take products.
        script: where the smallest program of a target is written that shows a difference.
    """

    pairs: Sequence[str] = ()
    request: Request
    root: Path | None = None
    settings: EngineSettings
    no_skips: bool = False
    effort: Effort
    audited: bool = True
    target: str = ""
    products: str = "full"
    script: Path | None = None

    @property
    def tree(self) -> Path:
        """The tree whose sources count."""
        return self.root or Path()

    def head(self, here: Environment) -> JournalHead:
        """Return what the journal is of."""
        words = {"pairs": [*self.pairs], **asdict(self.request), **asdict(self.effort)}
        words |= {"target": self.target, "products": self.products} if self.target else {}
        return journal_head("check", self.settings, here, self.root, **words)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckInputs:
    """The pairs to check with their plans, and the environment.

    Args:
        cache: what earlier runs remember; None where nothing is loaded.
    """

    loaded: Sequence[LoadedPair]
    environment: Environment
    cache: VerdictCache | None = None


def check_pairs(chosen: CheckOptions, task: CheckTask, run: CommandRun) -> Document:
    """Check pairs; with `--shake`, once more under each option that XLA reads once per process."""
    with run.loading() as points:
        how = {"target": task.target, "products": task.products}
        declared = load_pairs(task.pairs, task.root, run, task.request.sizes, **how)
        inputs = load_inputs(task, declared, task.request, run)
        points |= {name: str(value) for name, value in {**asdict(task.request), **asdict(task.effort)}.items()}
        listed = [f"{item.pair.name}/{point}" for item in inputs.loaded for point in item.plan.points]
        points |= {f"point {number}": point for number, point in enumerate(listed)}
    results: list[Finding] = []
    not_run: Mapping[str, str] = {}
    with run.partial():
        head = replace(task.head(inputs.environment), written=written_now(task.tree))
        with (
            journaled(run, task.settings, head) as journal,
            contextlib.closing(swept(task, inputs, run, journal)) as rows,
        ):
            for result in rows:
                results.append(result)
                if run.stop.asked:
                    break
        if task.effort.shake and not run.stop.asked:
            results, not_run = shake_by_flags(chosen.again(), results, inputs.environment)
        if task.target and not run.stop.asked:
            for _, pair in declared:
                own = [result for result in results if result.place.pair == pair.name]
                whys, notes = door("compile.blame").explained(pair, own)
                with_causes = dict(zip(map(id, own), whys, strict=True))
                results = [with_causes.get(id(result), result) for result in results]
                if task.script is not None:
                    notes.append(door("bisect.smallest_program").script_note(pair, own, task.script))
                run.notes += [note for note in notes if note and note not in run.notes]
    return check_document(task, inputs, run, results, not_run)


def load_inputs(
    task: CheckTask, declared: Sequence[tuple[Locator, Pair]], request: Request, run: CommandRun
) -> CheckInputs:
    """Plan declarations for the devices that there are, and import their sides; the head of the report is printed."""
    here = run.start_backend(shown=False, workers=task.settings.processes, ray=task.settings.ray)
    loaded = plans(run, declared, request, here.devices)
    import_sides(loaded)
    run.notes += unfit_notes(loaded, here)
    if task.effort.all_sizes:
        first = ((item.pair, MeshSpec.parse(item.plan.points[0].mesh)) for item in loaded if item.plan.points)
        run.notes += [note for pair, mesh in first if (note := sizeless_note(pair, mesh)) is not None]
    run.page = bool(loaded)
    if loaded:
        run.show_head(here, None)
    return CheckInputs(loaded=loaded, environment=here, cache=_cache(task, loaded, here))


def _cache(task: CheckTask, loaded: Sequence[LoadedPair], here: Environment) -> VerdictCache | None:
    """Return what earlier runs remember; None where they remember nothing of what is run.

    That is so of functions without a declaration, of compiled programs, in lockstep, and within a budget.
    """
    if (
        not loaded
        or task.effort.budget is not None
        or task.target
        or task.settings.group is not None
        or any(item.locator.rerun is not None for item in loaded)
    ):
        return None
    # What other machines have installed is not known here: there, results are journaled and not remembered.
    entries = shared_entries() if task.settings.ray is None else None
    trees = {task.tree, *(root_of(item.pair) for item in loaded)}
    return VerdictCache(trees, here, task.effort, loaded, entries, fresh=task.settings.fresh)


def swept(task: CheckTask, inputs: CheckInputs, run: CommandRun, journal: Journal | None = None) -> Generator[Finding]:
    """Yield all results in the order in which they are known, with a bar; closing the iterator ends all processes."""
    ran = sweep(
        inputs.loaded,
        on_problem=run.problem,
        settings=task.settings,
        effort=task.effort,
        journal=journal,
        store=inputs.cache,
    )
    known: set[Place] = set()
    with run.progress("check", _totals(inputs.loaded, task.settings.shard)) as bar, contextlib.closing(ran):
        for result in ran:
            place = result.place
            if place.whole not in known:  # all results of a point have its time
                seconds = None if result.run.remembered is not None else result.seconds
                words = f"{place.side()}, {place.case}, {place.mesh}"
                bar.add(place.side(), seconds, words=words, failed=result.failed)
            known.add(place.whole)
            yield result


def check_document(
    task: CheckTask,
    inputs: CheckInputs,
    run: CommandRun,
    results: Sequence[Finding],
    not_run: Mapping[str, str] | None = None,
) -> Document:
    """Return all results, with what the declarations and the snapshots say about them."""
    results = few_lines(in_order_of(inputs.loaded, results))
    whole = task.settings.shard is None
    if task.audited and not run.interrupted and whole:
        _judge_declarations(inputs, results, run)
    if inputs.cache is not None:
        inputs.cache.close()
        run.notes += inputs.cache.remarks()
    verdicts = None
    if whole:
        results, verdicts = compare_with_snapshots(results, inputs.loaded, inputs.environment, run)
    shake = None
    if task.effort.shake:
        for problem in shake_problems(results):
            run.problem(problem)
        refused = dict(accepted(inputs.environment.platform).refused)
        shake = shake_of(results, {**refused, **(not_run or {})}, LEFT_OUT)
    run.notes += proof_notes(results, all_sizes=task.effort.all_sizes)
    run.notes += [*repeats_note(task.effort.repeats), *take_notes()]
    skips = sum(result.ruling.verdict == "skipped" for result in results)
    if task.no_skips and skips:
        run.notes.append(f"--no-skips: the {skips} skipped results fail this run")
    return Document(
        environment=inputs.environment,
        pairs=tuple(pair_head(item, results) for item in inputs.loaded),
        results=tuple(results),
        problems=tuple(run.problems),
        summary=summarise(
            results,
            selected=sum(item.plan.selected for item in inputs.loaded),
            product=sum(item.plan.product for item in inputs.loaded),
            seconds=run.seconds,
            notes=tuple(run.notes),
            interrupted=run.interrupted,
        ),
        request=request_of(task.head(inputs.environment)),
        shard=None if whole else str(task.settings.shard),
        shake=shake,
        snapshot=verdicts,
        no_skips=task.no_skips,
    )


def _judge_declarations(inputs: CheckInputs, results: Sequence[Finding], run: CommandRun) -> None:
    broken, only_seen = {problem.pair for problem in run.problems}, 0
    for item in inputs.loaded:
        if item.locator.name in broken:
            continue
        own = [result for result in results if result.place.pair == item.pair.name]
        try:
            judged = _judged(item, own, inputs)
        except SamebitsError as error:
            judged = DeclarationAudit([], [problem_of(item.locator.name, error)])
        run.notes += judged.notes
        only_seen += judged.only_seen
        for problem in judged.problems:
            run.problem(problem)
    run.notes += only_seen_note(only_seen)


def _judged(item: LoadedPair, results: Sequence[Finding], inputs: CheckInputs) -> DeclarationAudit:
    """Audit a declaration; the audit is recalled where it was made of these very results: it traces programs."""
    cache, platform = inputs.cache, inputs.environment.platform
    judged = None if cache is None else cache.recall_audit(item, results)
    if judged is None:
        judged = judge_declaration(item.pair.on(platform), item.plan, results)
        if cache is not None:
            cache.remember_audit(item, results, judged)
    return judged


def repeats_note(repeats: int) -> list[str]:
    """Say what more than the usual two runs can see."""
    if repeats <= 2:
        return []
    probability = 1 - (1 - RARE) ** repeats
    return [
        f"--repeat {repeats}: each program ran {repeats} times on its first input; "
        f"one that changes its bits in 1 of 20 runs is seen with probability {probability:.1%}"
    ]


def _totals(loaded: Sequence[LoadedPair], shard: Shard | None) -> Counter[str]:
    """Count the points of each side in this run."""
    names = {item.locator: item.pair.name for item in loaded}
    items = check_items(loaded)
    points = [item.payload for item in (items if shard is None else shard.of(items))]
    return Counter(f"{names[locator]}/{point.variant}" for locator, point in points)


def unfit_notes(loaded: Sequence[LoadedPair], here: Environment) -> list[str]:
    """Name the meshes that were left out because they need more devices than there are."""
    notes = []
    for item in loaded:
        needs = {mesh: MeshSpec.parse(mesh).devices for mesh in item.plan.unfit}
        hint = f"; --devices {max(needs.values())} runs them" if needs and here.platform == "cpu" else ""
        listed = ", ".join(f"{mesh} needs {count} devices" for mesh, count in needs.items())
        notes += [f"{item.pair.name}: not run, for there are {here.devices}: {listed}{hint}"] if needs else []
    return notes


# --- `--shake`: options that XLA reads once per process, each in another one ------------------------------------------


def check_elsewhere(words: Sequence[str], variables: Mapping[str, str]) -> Document:
    """Run a check in a process of its own; return its document, whatever its exit code: failing results are in it."""
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        path = Path(folder) / "check.json"
        command = [sys.executable, "-m", "samebits", *words, "--json", str(path)]
        environment = {**os.environ, **variables}
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
        try:
            return read_document(path)
        except RequestError as error:
            ending = f"exit code {process.returncode}: {_last_words(process.stderr)}"
            if path.is_file():
                raise CouldNotRun(f"its document cannot be used: {error}; it ended with {ending}") from None
            raise CouldNotRun(f"ended without a document, with {ending}") from None


def _last_words(stderr: str) -> str:
    """Return the line of a process's stderr that says why it ended: the last one, unless XLA rejected a flag."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if "nknown flag" in line), lines[-1] if lines else "no message")[:300]


def with_flags(option: ShakeOption) -> dict[str, str]:
    """Return the variables under which XLA reads an option as a flag of its process."""
    flags = " ".join(f"--{name}={value}" for name, value in option.settings)
    return {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}


def add_outcomes(option: ShakeOption, usual: Sequence[Finding], there: Sequence[Finding]) -> list[Finding]:
    """Add to results what an option of the process did to them; a leaf of which no bit moved is not evidence."""
    others = {result.place: result for result in there}
    shaken = []
    for result in usual:
        other = others.get(result.place)
        if not worth_shaking(result) or other is None:
            shaken.append(result)
            continue
        differs = other.comparison.mismatches > 0 or not worth_shaking(other)
        moved = {result.place.leaf: result.comparison.bits != other.comparison.bits}
        outcomes = outcomes_under(option, [result], {result.place.leaf: other} if differs else {}, moved, changed=False)
        shaken.append(with_shaken(result, list(outcomes.values())))
    return shaken


def shake_by_flags(
    again: Sequence[str], results: list[Finding], here: Environment
) -> tuple[list[Finding], dict[str, str]]:
    """Return results with what the options of the process did, each in a process of its own; and what did not run."""
    failed: dict[str, str] = {}
    if not any(result.shaken for result in results):
        return results, failed
    for option in flag_options(here.platform, here.instruction_sets):
        try:
            there = check_elsewhere(again, with_flags(option))
        except CouldNotRun as error:
            failed[option.name] = str(error)
            continue
        results = add_outcomes(option, results, there.results)
    return results, failed


def shake_problems(results: Sequence[Finding]) -> list[Problem]:
    """Return a problem for each pair and option under which leaves could not be judged; they are not evidence."""
    count: Counter[tuple[str, str]] = Counter()
    why: dict[tuple[str, str], str] = {}
    for result in results:
        for outcome in result.shaken:
            if outcome.outcome == "error":
                count[result.place.pair, outcome.option] += 1
                why.setdefault((result.place.pair, outcome.option), outcome.why or "no reason given")
    return [
        Problem(
            pair=pair,
            message=f"pair '{pair}': under {option} {many} leaves could not be judged: {why[pair, option]}",
            exit_code=3,
        )
        for (pair, option), many in count.items()
    ]
