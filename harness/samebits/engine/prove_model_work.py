"""The steps of `samebits prove model` as work: one configuration's training step after the other."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.engine.check_work import finished, lost_words, trouble
from samebits.engine.one_by_one import OneByOne
from samebits.engine.prove_work import leave_accelerators
from samebits.engine.work import Event, Item, ProcessExit
from samebits.programs.replay import of_tree
from samebits.schema.model import Config, Defect, Model
from samebits.train.prove_request import ProveRequest, StepLeaf, reference_step, replay_words, step_head, steps
from samebits.train.request import load_model

if TYPE_CHECKING:
    from samebits.train.prove_step import StepProver


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvedStep:
    """The proofs of one configuration's step.

    Args:
        config: its name.
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
        tree: of the model.
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
        """Return the prover of the model, once the proofs have shown that they see planted differences; and the steps.

        Raises:
            CheckerBroken: they do not.
        """
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
