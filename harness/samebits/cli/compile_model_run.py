"""The work of `samebits compile model`: a preset comes in, facts of training steps go out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from samebits.cli.compile import CompileOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journal_head, run_items
from samebits.engine.model_work import CompiledModelStep, CompileModelWork, model_step_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.compile_model import CompiledStep, StepsDocument
from samebits.schema.model import Config, Model, Preset
from samebits.schema.result import Problem
from samebits.schema.target import Target
from samebits.train.request import load_model


def compile_model(chosen: CompileOptions, settings: EngineSettings, run: CommandRun) -> StepsDocument:
    """Compile the training steps of a preset, beside the published figures."""
    tree = chosen.root or default_root()
    preset = _preset(load_model(tree), chosen.preset)
    targets = chosen.targets()
    if len(targets) > 1:
        raise RequestError("compile model takes one --target")
    runs = _runs(preset, chosen.case)
    target = targets[0] if targets else Target(name=preset.target)
    here = run.start_backend(ray=settings.ray)
    request = {"preset": preset.name, "target": target.name, "runs": [config.name for config in runs]}
    head = journal_head("compile-model", settings, here, tree, **request, cached=not chosen.no_cache)
    items = model_step_items(tree, preset.name, runs, target)
    work = CompileModelWork(tree, preset.name, target, cached=not chosen.no_cache)
    rows: dict[str, CompiledModelStep] = {}
    with contextlib.closing(run_items(run, work, items, settings, head)) as ran:
        for done in ran:
            rows[done.item.payload] = done.rows[0]
    results: list[CompiledStep] = []
    for config in runs:
        row = rows.get(config.name)
        if row is None:
            continue  # its problem is known
        if row.error is not None:
            run.problem(Problem(pair=config.name, message=row.error.message, exit_code=row.error.exit_code))
        elif row.facts is not None:
            results.append(
                CompiledStep(
                    config=config.name,
                    mesh=config.mesh,
                    shard_mode=config.shard_mode,
                    choice=dict(config.choice),
                    target=target.name,
                    compiler=row.compiler,
                    published_bytes=preset.published.get(config.name),
                    facts=row.facts,
                )
            )
    published = (f"published: {preset.source}",) if preset.published else ()
    return StepsDocument(
        environment=here,
        preset=preset.name,
        about=preset.about,
        source=preset.source,
        results=tuple(results),
        problems=tuple(run.problems),
        notes=(*published, *preset.remarks, *run.notes),
        seconds=run.seconds,
    )


def _preset(model: Model, name: str | None) -> Preset:
    known = {preset.name: preset for preset in model.presets}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        wrong = f"preset '{name}' is unknown" if name else "compile model needs --preset"
        raise RequestError(f"{wrong}; {suggest(name or '', list(known)) if known else 'the model declares none'}")
    return known[name]


def _runs(preset: Preset, names: Sequence[str]) -> list[Config]:
    """Return the runs of a preset that are named; all by default."""
    named = {config.name: config for config in preset.runs}
    for name in names:
        if name not in named:
            raise RequestError(f"preset '{preset.name}' has no run '{name}'; {suggest(name, list(named))}")
    return [named[name] for name in names or named]
