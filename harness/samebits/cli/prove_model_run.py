"""The work of `samebits prove model`: training steps come in, proofs go out. To be imported after `prepare`."""

from __future__ import annotations

from dataclasses import asdict

from samebits.cli.declared import record_of
from samebits.cli.pipeline import CommandRun
from samebits.cli.prove import ProveOptions
from samebits.cli.run_items import InOrder, journal_head, run_in_order
from samebits.engine.model_work import ProvedStep, ProveModelWork, step_items
from samebits.engine.run_work import EngineSettings
from samebits.programs.catalogue import default_root
from samebits.report.prove_model import StepDocument
from samebits.schema.result import Problem
from samebits.train.prove_request import ProveRequest
from samebits.train.request import load_model


def prove_model(chosen: ProveOptions, settings: EngineSettings, run: CommandRun) -> StepDocument:
    """Prove training steps of a full model, in worker processes and in the order of the request."""
    tree = chosen.root or default_root()
    model = load_model(tree)
    more = {"meshes": chosen.mesh, "shard_modes": chosen.shard_mode, "choices": chosen.choice}
    request = record_of(ProveRequest, chosen, **more)
    items = step_items(model, tree, request)
    # However many there are, they need no accelerator; this process does not either.
    here = run.start_backend(workers=int(not settings.in_process), ray=settings.ray)
    results: list[ProvedStep] = []
    steps = InOrder[ProvedStep](items, lambda item: item.key, lambda done: results.extend(done[0].rows))
    head = journal_head("prove-model", settings, here, tree, **asdict(request))
    with run.partial("interrupted; what was proved so far is shown"):
        run_in_order(run, ProveModelWork(tree, request), steps, settings, head)
    failed = [
        Problem(pair=step.config, message=step.error, exit_code=step.exit_code)
        for step in results
        if step.error is not None
    ]
    return StepDocument(
        environment=here,
        model=model.name,
        results=tuple(leaf for step in results for leaf in step.leaves),
        problems=(*run.problems, *failed),
        notes=tuple(run.notes),
        seconds=round(run.seconds, 3),
        interrupted=run.interrupted,
    )
