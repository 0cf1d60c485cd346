"""The work of `samebits prove`: pairs come in, proofs go out. To be imported after `environment.prepare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from samebits.check.contract_audit import ANY_DEVICES
from samebits.check.line_evidence import few_lines
from samebits.cli.pipeline import CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.run_items import InOrder, journal_head, run_in_order
from samebits.cli.select_pairs import in_order_of, load_pairs, plans
from samebits.compile.request import of_programs
from samebits.engine.drive import Done
from samebits.engine.prove_work import ProveWork, prove_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.host.environment import Environment
from samebits.programs.plan import LoadedPair
from samebits.properties.findings import ProveWithProperties
from samebits.report.prove import ProofDocument, pair_block
from samebits.report.words import other_input_notes
from samebits.rooms import door
from samebits.schema.finding import Finding

INTERRUPTED = "interrupted; what was proved so far is shown"


def prove_pairs(chosen: ProveOptions, settings: EngineSettings, run: CommandRun) -> ProofDocument:
    """Prove the points of pairs, in worker processes; meshes may be of any size."""
    target = chosen.target or ""
    declared = load_pairs(chosen.pairs, chosen.root, run, chosen.sizes, target=target)
    selected = of_programs(chosen.request(), target) if target else chosen.request()
    loaded = plans(run, declared, selected, ANY_DEVICES)
    if chosen.all_sizes:
        loaded, notes = door("sizes.points").of_all_sizes(loaded)
        if not loaded and not run.problems:
            raise RequestError("; ".join(notes))
        run.notes += notes
    # However many there are, they need no accelerator; this process does not either.
    here = run.start_backend(shown=bool(loaded), workers=int(not settings.in_process), ray=settings.ray)
    names = {item.locator.name: item.pair.name for item in loaded}
    results: list[Finding] = []

    def show(pair: list[Done[Finding]]) -> None:
        rows = [row for done in pair for row in done.rows]
        results.extend(rows)
        if chosen.verbose:
            run.show([pair_block(names[pair[0].item.pair], few_lines(rows))])

    assuming = not chosen.no_assumptions
    platform = chosen.platform or here.platform
    work = ProveWork(platform, assuming=assuming, all_sizes=chosen.all_sizes)
    if not chosen.all_sizes and any(item.pair.properties for item in loaded):
        gradients = any(point.direction == "gradient" for item in loaded for point in item.plan.points)
        work = ProveWithProperties(platform, assuming=assuming, gradients=gradients)
    blocks = InOrder[Finding](prove_items(loaded, all_sizes=chosen.all_sizes), lambda item: item.pair, show)
    request: dict[str, object] = {"pairs": [*chosen.pairs], "platform": chosen.platform, "assuming": assuming}
    request |= {"all_sizes": chosen.all_sizes, **asdict(selected), "target": target}
    head = journal_head("prove", settings, here, chosen.root, **request)
    with run.partial(INTERRUPTED):
        run_in_order(run, work, blocks, settings, head)
    return proof_document(run, here, loaded, results)


def proof_document(
    run: CommandRun, here: Environment, loaded: Sequence[LoadedPair], results: list[Finding]
) -> ProofDocument:
    """Return all proofs, in the order of the plans; nothing is shown where no pair could be loaded."""
    run.page = bool(loaded)
    return ProofDocument(
        environment=here,
        results=tuple(few_lines(in_order_of(loaded, results))),
        problems=tuple(run.problems),
        notes=(*run.notes, *other_input_notes(results)),
        seconds=round(run.seconds, 3),
        interrupted=run.interrupted,
    )
