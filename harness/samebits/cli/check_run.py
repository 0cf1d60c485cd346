"""`samebits check` as a command: pairs come in, verdicts go out. Imports jax: to be imported after `prepare`."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from samebits.check.contract_audit import DeclarationAudit, judge_declaration, only_seen_note, proof_notes
from samebits.check.line_evidence import few_lines, not_searched
from samebits.cli.journaled import journaled
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.select_pairs import declaration_lines, import_sides, load_pairs, plans, problem_of
from samebits.cli.snapshot_run import compare_with_snapshots
from samebits.engine.check_work import check_items
from samebits.engine.journal import Journal, JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.engine.shard import Shard
from samebits.engine.sweep import sweep
from samebits.engine.verdict_cache import VerdictCache, shared_entries
from samebits.errors import SamebitsError
from samebits.host.environment import Environment
from samebits.host.isolation import take_notes
from samebits.host.written import written_now
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import root_of
from samebits.programs.other_sizes import sizeless_note
from samebits.programs.plan import LoadedPair, Request
from samebits.report.check import Document
from samebits.report.continuous_integration import Outcomes, outcomes
from samebits.report.pair_heads import pair_head
from samebits.report.progress import CheckProgress
from samebits.report.shards import request_of
from samebits.schema.finding import Finding, ShakeSummary, at, summarise
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.result import Problem

RARE = 1 / 20
"""How often a side gives other bits, in the probability that is printed of seeing it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckInputs:
    """The pairs to check with their plans, and the environment.

    Args:
        cache: what earlier runs remember; None where nothing is loaded.
        not_run: options of `--shake` under which no check could be run, each with the reason; filled by the run.
    """

    loaded: Sequence[LoadedPair]
    environment: Environment
    cache: VerdictCache | None = None
    not_run: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckCommand(Command[CheckInputs, Finding, Document]):
    """Check a request.

    Args:
        pairs: names of pairs, or `module:PAIR`; empty means the whole tree.
        request: the filters.
        root: the tree, or None for the current one.
        settings: where and how points run.
        no_skips: whether a skipped result fails the run.
        effort: how thoroughly each point is checked.
        audited: whether the contracts are held against all results.
        verbose: whether every row is printed, not one screen.
        again: the words of the same check in another process, for `--shake`.
    """

    pairs: Sequence[str]
    request: Request
    root: Path | None
    settings: EngineSettings
    no_skips: bool
    effort: Effort
    audited: bool = True
    verbose: bool = False
    again: Sequence[str] = ()

    handles_signals = True

    def declared(self, run: CommandRun) -> list[tuple[Locator, Pair]]:
        """The declarations of the pairs; those that are wrong become problems."""
        return load_pairs(self.pairs, self.root, run, self.request.sizes)

    def selection(self, declared: Sequence[tuple[Locator, Pair]]) -> Request:
        """What is selected of the pairs."""
        return self.request

    def problem(self, run: CommandRun, problem: Problem) -> None:
        """Record a problem of a pair, and print it."""
        run.problem(problem)

    def asked(self) -> dict[str, str]:
        """What was asked for, as text by the names of its entries."""
        return {name: str(value) for name, value in {**asdict(self.request), **asdict(self.effort)}.items()}

    def load(self, run: CommandRun) -> CheckInputs:
        """The declarations and their plans for the devices that there are."""
        declared = self.declared(run)
        here = run.start_backend(shown=False, workers=self.settings.processes, ray=self.settings.ray)
        loaded, problems, left_out = plans(declared, self.selection(declared), here.devices)
        import_sides(loaded)
        for problem in problems:
            self.problem(run, problem)
        run.notes += [*left_out, *self.unfit_notes(loaded, here)]
        if self.effort.all_sizes:
            first = ((item.pair, MeshSpec.parse(item.plan.points[0].mesh)) for item in loaded if item.plan.points)
            run.notes += [note for pair, mesh in first if (note := sizeless_note(pair, mesh)) is not None]
        if loaded:
            run.show_head(here, None)
        return CheckInputs(loaded=loaded, environment=here, cache=self._cache(loaded, here))

    def _cache(self, loaded: Sequence[LoadedPair], here: Environment) -> VerdictCache | None:
        """What earlier runs remember; None for functions without a declaration, and for processes in lockstep."""
        if not loaded or self.settings.group is not None or any(item.locator.rerun is not None for item in loaded):
            return None
        # What other machines have installed is not known here: there, results are journaled and not remembered.
        entries = shared_entries() if self.settings.ray is None else None
        trees = {self.tree(), *(root_of(item.pair) for item in loaded)}
        return VerdictCache(trees, here, self.effort, loaded, entries, fresh=self.settings.fresh)

    def execute(self, run: CommandRun, inputs: CheckInputs, results: list[Finding]) -> None:
        """Sweep; with `--shake`, check once more under each option that XLA reads once per process."""
        with (
            self._journal(run, inputs) as journal,
            CheckProgress(run.console, _totals(inputs.loaded, self.settings.shard)) as progress,
            contextlib.closing(self._sweep(run, inputs, journal)) as swept,
        ):
            for result in swept:
                results.append(result)
                progress.add(result)
                if run.stop.asked:
                    return
        if self.effort.shake and not run.stop.asked:
            from samebits.cli.check_shake import shake_by_flags

            results[:], not_run = shake_by_flags(self.again, results, inputs.environment)
            inputs.not_run.update(not_run)

    def _sweep(self, run: CommandRun, inputs: CheckInputs, journal: Journal | None) -> Generator[Finding]:
        return sweep(
            inputs.loaded,
            on_problem=functools.partial(self.problem, run),
            settings=self.settings,
            effort=self.effort,
            journal=journal,
            store=inputs.cache,
        )

    @staticmethod
    def unfit_notes(loaded: Sequence[LoadedPair], here: Environment) -> list[str]:
        """Notes on meshes that were left out because they need more devices than there are."""
        return [note for item in loaded for note in _unfit(item, here)]

    def _journal(self, run: CommandRun, inputs: CheckInputs) -> contextlib.AbstractContextManager[Journal | None]:
        return journaled(run, self.settings, replace(self._head(inputs), written=written_now(self.tree())))

    def _head(self, inputs: CheckInputs) -> JournalHead:
        """What was asked for, for the journal."""
        return JournalHead(
            command="check",
            request={
                "pairs": list(self.pairs),
                "root": str((self.root or Path()).resolve()),
                **asdict(self.request),
                **asdict(self.effort),
            },
            shard=None if self.settings.shard is None else str(self.settings.shard),
            environment=asdict(inputs.environment),
        )

    def document(self, run: CommandRun, inputs: CheckInputs, results: list[Finding]) -> Document:
        """All results, with what the declarations and the snapshots say about them."""
        _order(results, inputs.loaded)
        results[:] = few_lines(results, not_searched)
        whole = self.settings.shard is None
        if self.audited and not run.interrupted and whole:
            _judge_declarations(inputs, results, run)
        if inputs.cache is not None:
            inputs.cache.close()
            run.notes += inputs.cache.remarks()
        verdicts = None
        if whole:
            results[:], verdicts = compare_with_snapshots(results, inputs.loaded, inputs.environment, run)
        shake = self._shaken(run, inputs, results) if self.effort.shake else None
        run.notes += proof_notes(results, all_sizes=self.effort.all_sizes)
        run.notes += repeats_note(self.effort.repeats)
        run.notes += take_notes()
        skips = sum(result.ruling.verdict == "skipped" for result in results)
        if self.no_skips and skips:
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
            request=request_of(self._head(inputs)),
            shard=None if whole else str(self.settings.shard),
            shake=shake,
            snapshot=verdicts,
            no_skips=self.no_skips,
        )

    def _shaken(self, run: CommandRun, inputs: CheckInputs, results: list[Finding]) -> ShakeSummary:
        from samebits.cli.check_shake import shake_problems, shake_summary

        for problem in shake_problems(results):
            run.problem(problem)
        return shake_summary(results, inputs.environment.platform, inputs.not_run)

    def outcomes(self, inputs: CheckInputs, document: Document) -> Outcomes:
        """One row per leaf."""
        return outcomes(document, declaration_lines([item.pair for item in inputs.loaded], self.root))

    def show(self, run: CommandRun, inputs: CheckInputs, document: Document) -> None:
        """Print the page; nothing where no pair could be loaded."""
        if inputs.loaded:
            super().show(run, inputs, document)


def _order(results: list[Finding], loaded: Sequence[LoadedPair]) -> None:
    """Into the order of the plan: workers end in any order, and the same command gives the same document."""
    order = {
        at(item.pair.name, point, ""): (first, second)
        for first, item in enumerate(loaded)
        for second, point in enumerate(item.plan.points)
    }
    results.sort(key=lambda result: order[result.place.whole])


def _judge_declarations(inputs: CheckInputs, results: Sequence[Finding], run: CommandRun) -> None:
    broken, only_seen = {problem.pair for problem in run.problems}, 0
    for item in inputs.loaded:
        if item.locator.name in broken:
            continue
        own = [result for result in results if result.place.pair == item.pair.name]
        try:
            judged = _judged(item, own, inputs)
        except SamebitsError as error:
            judged = DeclarationAudit([], [problem_of(item.locator, error)])
        run.notes += judged.notes
        only_seen += judged.only_seen
        for problem in judged.problems:
            run.problem(problem)
    run.notes += only_seen_note(only_seen)


def _judged(item: LoadedPair, results: Sequence[Finding], inputs: CheckInputs) -> DeclarationAudit:
    """The audit of a declaration, recalled where it was made of these very results: it traces programs."""
    cache, platform = inputs.cache, inputs.environment.platform
    judged = None if cache is None else cache.recall_audit(item, results)
    if judged is None:
        judged = judge_declaration(item.pair.on(platform), item.plan, results)
        if cache is not None:
            cache.remember_audit(item, results, judged)
    return judged


def points_of(inputs: CheckInputs) -> dict[str, str]:
    """What runs, as text: every point by its number, in order, as several processes must have it alike."""
    points = [f"{item.pair.name}/{point}" for item in inputs.loaded for point in item.plan.points]
    return {f"point {number}": point for number, point in enumerate(points)}


def repeats_note(repeats: int) -> list[str]:
    """What more than the usual two runs can see."""
    if repeats <= 2:
        return []
    probability = 1 - (1 - RARE) ** repeats
    return [
        f"--repeat {repeats}: each program ran {repeats} times on its first input; "
        f"one that changes its bits in 1 of 20 runs is seen with probability {probability:.1%}"
    ]


def _totals(loaded: Sequence[LoadedPair], shard: Shard | None) -> Counter[tuple[str, str]]:
    """How many points each side has in this run."""
    names = {item.locator: item.pair.name for item in loaded}
    items = check_items(loaded)
    points = [item.payload for item in (items if shard is None else shard.of(items))]
    return Counter((names[locator], point.variant) for locator, point in points)


def _unfit(item: LoadedPair, here: Environment) -> list[str]:
    """A note on meshes that were left out because they need more devices than there are."""
    if not item.plan.unfit:
        return []
    needs = {mesh: MeshSpec.parse(mesh).devices for mesh in item.plan.unfit}
    hint = f"; --devices {max(needs.values())} runs them" if here.platform == "cpu" else ""
    listed = ", ".join(f"{mesh} needs {count} devices" for mesh, count in needs.items())
    return [f"{item.pair.name}: not run, for there are {here.devices}: {listed}{hint}"]
