"""The steps of `samebits compile model` as work: one run of a preset after the other, for one target."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from samebits.compile.cache import CompileCache
from samebits.engine.check_work import lost_words
from samebits.engine.compiling_work import CompileError
from samebits.engine.one_by_one import OneByOne
from samebits.engine.work import Item, ProcessExit
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.programs.replay import of_tree
from samebits.schema.model import Config
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target
from samebits.train.request import load_model


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledModelStep:
    """The program of one run's training step, or why there is none.

    Args:
        config: the name of the run.
        compiler: its version.
        facts: per device; None where it was not compiled.
        error: why not.
    """

    config: str
    compiler: str | None = None
    facts: Facts | None = None
    error: CompileError | None = None


def model_step_items(tree: Path, preset: str, runs: Iterable[Config], target: Target) -> list[Item]:
    """Return one per run of a preset; no compiler is started."""
    words = ["samebits", "compile", "model", "--preset", preset, "--target", target.name]
    return [
        Item(
            key=f"{preset}/{config.name}/{target.name}",
            pair=config.name,
            words=f"the step of {config.name} for {target.name}",
            replay=shlex.join([*words, "--case", config.name, *of_tree(tree)]),
            group=config.name,
            payload=config.name,
        )
        for config in runs
    ]


class CompileModelWork(OneByOne[CompiledModelStep]):
    """Compiles training steps of a model.

    Args:
        tree: of the model.
        preset: the name of the preset whose runs the items name.
        target: what they are compiled for.
        cached: whether programs are read from and written to the cache on disk.
    """

    kind = "compile model"
    row = CompiledModelStep

    def __init__(self, tree: Path, preset: str, target: Target, *, cached: bool) -> None:
        self.tree, self.preset, self.target, self.cached = tree, preset, target, cached

    def steps(self, item: Item) -> Iterator[str | CompiledModelStep]:
        """Compile a step."""
        yield "tracing, lowering and compiling its step"
        try:
            yield self._compiled(item.payload)
        except SamebitsError as error:
            yield CompiledModelStep(config=item.payload, error=CompileError.of(error))

    def _compiled(self, name: str) -> CompiledModelStep:
        from samebits.compile.devices import compiler_version
        from samebits.train.compile_step import compile_step

        model = load_model(self.tree)
        (preset,) = (preset for preset in model.presets if preset.name == self.preset)
        (config,) = (config for config in preset.runs if config.name == name)
        cache = CompileCache() if self.cached else None
        facts = compile_step(model, config, self.tree, self.target, cache)
        return CompiledModelStep(config=name, compiler=compiler_version(self.target), facts=facts)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> CompiledModelStep:
        """Return a step without a program."""
        message = f"config '{item.payload}': {lost_words(loss, stage)}; again: {item.replay}"
        return CompiledModelStep(config=item.payload, error=CompileError(message=message, exit_code=COULD_NOT_TELL))
