"""`samebits compile model` as a command: a preset comes in, facts of training steps go out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.cli.compile import CompileOptions
from samebits.cli.pipeline import Command, CommandRun
from samebits.cli.run_items import run_items
from samebits.engine.compile_model_work import CompiledModelStep, CompileModelWork, model_step_items
from samebits.engine.journal import JournalHead
from samebits.engine.run_work import EngineSettings
from samebits.errors import RequestError
from samebits.host.environment import Environment
from samebits.programs.catalogue import default_root, suggest
from samebits.report.compile_model import CompiledStep, StepsDocument
from samebits.schema.model import Config, Model, Preset
from samebits.schema.program_facts import Facts
from samebits.schema.result import Problem
from samebits.schema.target import Target
from samebits.train.load import load_model


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileModelInputs:
    """The runs of a preset, and what they are compiled for."""

    model: Model
    tree: Path
    preset: Preset
    runs: Sequence[Config]
    target: Target
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class CompileModelCommand(Command[CompileModelInputs, CompiledStep, StepsDocument]):
    """Compile the training steps of a preset.

    Args:
        chosen: the options.
        settings: where and how steps are compiled.
    """

    chosen: CompileOptions
    settings: EngineSettings

    def load(self, run: CommandRun) -> CompileModelInputs:
        """The model's preset.

        Raises:
            RequestError: there is no such preset or run, or more than one target.
        """
        tree = self.chosen.root or default_root()
        model = load_model(tree)
        preset = _preset(model, self.chosen.preset)
        targets = self.chosen.targets()
        if len(targets) > 1:
            raise RequestError("compile model takes one --target")
        named = {config.name: config for config in preset.runs}
        for name in self.chosen.case:
            if name not in named:
                raise RequestError(f"preset '{preset.name}' has no run '{name}'; {suggest(name, list(named))}")
        return CompileModelInputs(
            model=model,
            tree=tree,
            preset=preset,
            runs=[named[name] for name in self.chosen.case or named],
            target=targets[0] if targets else Target(name=preset.target),
            environment=run.start_backend(ray=self.settings.ray),
        )

    def execute(self, run: CommandRun, inputs: CompileModelInputs, results: list[CompiledStep]) -> None:
        """Compile step by step, and have the steps in the order of the preset."""
        items = model_step_items(inputs.tree, inputs.preset.name, inputs.runs, inputs.target)
        work = CompileModelWork(inputs.tree, inputs.preset.name, inputs.target, cached=not self.chosen.no_cache)
        rows: dict[str, CompiledModelStep] = {}
        ran = run_items(run, work, items, self.settings, self._head(inputs), inputs.tree, run.problem)
        with contextlib.closing(ran):
            for done in ran:
                rows[done.item.payload] = done.rows[0]
        for config in inputs.runs:
            row = rows.get(config.name)
            if row is None:
                continue  # its problem is known
            if row.error is not None:
                run.problem(Problem(pair=config.name, message=row.error.message, exit_code=row.error.exit_code))
            elif row.facts is not None:
                results.append(_step(config, row.compiler, row.facts, inputs))

    def _head(self, inputs: CompileModelInputs) -> JournalHead:
        """What was asked for, for the journal."""
        return JournalHead(
            command="compile-model",
            request={
                "root": str(inputs.tree.resolve()),
                "preset": inputs.preset.name,
                "target": inputs.target.name,
                "runs": [config.name for config in inputs.runs],
                "cached": not self.chosen.no_cache,
            },
            environment=asdict(inputs.environment),
        )

    def document(self, run: CommandRun, inputs: CompileModelInputs, results: list[CompiledStep]) -> StepsDocument:
        """All steps beside the published figures."""
        preset = inputs.preset
        published = (f"published: {preset.source}",) if preset.published else ()
        return StepsDocument(
            environment=inputs.environment,
            preset=preset.name,
            about=preset.about,
            source=preset.source,
            results=tuple(results),
            problems=tuple(run.problems),
            notes=(*published, *preset.remarks, *run.notes),
            seconds=run.seconds,
        )


def _step(config: Config, compiler: str | None, facts: Facts, inputs: CompileModelInputs) -> CompiledStep:
    """What was compiled, beside the published figure."""
    return CompiledStep(
        config=config.name,
        mesh=config.mesh,
        shard_mode=config.shard_mode,
        choice=dict(config.choice),
        target=inputs.target.name,
        compiler=compiler,
        published_bytes=inputs.preset.published.get(config.name),
        facts=facts,
    )


def _preset(model: Model, name: str | None) -> Preset:
    known = {preset.name: preset for preset in model.presets}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        wrong = f"preset '{name}' is unknown" if name else "compile model needs --preset"
        raise RequestError(f"{wrong}; {suggest(name or '', list(known)) if known else 'the model declares none'}")
    return known[name]
