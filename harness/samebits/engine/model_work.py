"""What is done with the configurations of a model, one after the other, as work.

`samebits golden check` runs them, `samebits compile model` compiles their steps, `samebits prove model` proves them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.compile.cache import CompileCache
from samebits.engine.compile_work import CompileError
from samebits.engine.prove_work import leave_accelerators
from samebits.engine.work import Event, Item, OneByOne, ProcessExit, finished, lost_words, trouble
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.programs.replay import of_tree
from samebits.schema.model import Config, Defect, Model
from samebits.schema.program_facts import Facts
from samebits.schema.target import Target
from samebits.train.golden.check import CheckedGolden
from samebits.train.prove_request import ProveRequest, StepLeaf, reference_step, replay_words, step_head, steps
from samebits.train.request import load_model

if TYPE_CHECKING:
    from samebits.train.prove_step import StepProver


def golden_items(tree: Path, names: Iterable[str]) -> list[Item]:
    """Return one per configuration."""
    return [
        Item(
            key=name,
            pair=name,
            words=name,
            replay=shlex.join(["samebits", "golden", "check", "--config", name, *of_tree(tree)]),
            group=name,
            payload=name,
        )
        for name in names
    ]


class GoldenWork(OneByOne[CheckedGolden]):
    """Runs configurations, and compares each with its golden."""

    kind = "golden check"
    row = CheckedGolden

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def steps(self, item: Item) -> Iterator[str | CheckedGolden]:
        """Run and compare."""
        from samebits.host import environment
        from samebits.train.cache import persistent_compile_cache
        from samebits.train.golden.runs import GoldenSession, check_run, selected
        from samebits.train.request import load_model

        yield "running it"
        model = load_model(self.tree)
        session = GoldenSession(model=model, root=self.tree, here=environment.capture())
        (named,) = selected(model, (), (item.payload,))
        with persistent_compile_cache():
            yield check_run(session, named)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> CheckedGolden:
        """Return a run that could not be made."""
        message = f"config '{item.payload}': {lost_words(loss, stage)}; again: {item.replay}"
        return CheckedGolden(name=item.payload, status="not run", message=message)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledModelStep:
    """The program of one run's training step, or why there is none.

    Args:
        facts: per device; None where it was not compiled.
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
        preset: the name of the preset whose runs the items name.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvedStep:
    """The proofs of one configuration's step.

    Args:
        leaves: one per output of the step; one `error` for all where its process ended.
        error, exit_code: why the step could not be looked at.
    """

    config: str
    leaves: tuple[StepLeaf, ...] = ()
    error: str | None = None
    exit_code: int = 0


def step_items(model: Model, tree: Path, request: ProveRequest) -> list[Item]:
    """Return one per step that a request selects; those that are compared with one reference are a group."""
    items = []
    for number, (config, defect) in enumerate(steps(model, request)):
        words = replay_words(model, request, config, defect)
        again = shlex.join(["samebits", "prove", "model", *words, *of_tree(tree)])
        small = _smallest(model, config)
        planted = f" with {defect.name}" if defect else ""
        key = f"{number}/{config.name}/{config.mesh}/{config.shard_mode}"
        items.append(
            Item(
                key=key,
                pair=key,
                words=f"the step of {config.name} on {config.mesh}, {config.shard_mode}{planted}",
                replay=again,
                group=reference_step(small).digest(),
                payload=(number, replace(step_head(config, small, defect), replay=again)),
            )
        )
    return items


class ProveModelWork(OneByOne[ProvedStep]):
    """Proves training steps of a model.

    Args:
        request: which steps; items name them by number.
    """

    kind = "prove model"
    row = ProvedStep

    def __init__(self, tree: Path, request: ProveRequest) -> None:
        self.tree, self.request = tree, request
        self._prover: tuple[StepProver, list[tuple[Config, Defect | None]]] | None = None

    def steps(self, item: Item) -> Iterator[str | ProvedStep]:
        """Prove a step; an interpreted reference is there for the steps that follow."""
        yield "loading the model"
        number, head = item.payload
        prover, chosen = self._loaded()
        leaves = yield from prover.proving(*chosen[number])
        yield ProvedStep(config=head.config, leaves=tuple(replace(leaf, replay=item.replay) for leaf in leaves))

    def failed(self, item: Item, error: Exception) -> Event:
        """Report a step that could not be looked at: it is a row."""
        said = trouble(item.pair, error)
        _, head = item.payload
        row = ProvedStep(config=head.config, error=said.message, exit_code=said.exit_code)
        return finished(item.key, (row,))

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> ProvedStep:
        """Return one undecided leaf for the whole step."""
        _, head = item.payload
        return ProvedStep(config=head.config, leaves=(replace(head, reason=lost_words(loss, stage)),))

    def close(self) -> None:
        """Drop the interpreted references."""
        self._prover = None

    def _loaded(self) -> tuple[StepProver, list[tuple[Config, Defect | None]]]:
        """Return the prover of the model, once proofs have shown that they see planted differences, and the steps."""
        if self._prover is None:
            from samebits.prove.selftest import check_proofs
            from samebits.train.prove_step import StepProver

            leave_accelerators()
            check_proofs()
            model = load_model(self.tree)
            self._prover = StepProver(model, self.tree), steps(model, self.request)
        return self._prover


def _smallest(model: Model, config: Config) -> Config:
    """Return a configuration at its smallest sizes; as it is where that fails, which its proof then reports."""
    try:
        return model.smallest(config)
    except Exception:
        return config
