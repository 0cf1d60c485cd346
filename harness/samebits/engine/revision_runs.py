"""The runs of a matrix at another git revision as items, each with its distances from today's run of the same name."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.engine.matrix_runs import MatrixRuns, TrainedRun, Wanted, guarded, not_run
from samebits.engine.rows import from_text, to_text
from samebits.engine.work import Item
from samebits.errors import RequestError
from samebits.schema.model import Config, Matrix
from samebits.train.request import TrainRequest

if TYPE_CHECKING:
    from samebits.host.revision_modules import RevisionModules
    from samebits.train.matrix import MatrixResult
    from samebits.train.other_revision import RevisionComparison


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """Another revision of the tree.

    Args:
        name: as given.
        commit: its hash.
        tree: where it is checked out; on another machine a process checks it out itself.
    """

    name: str
    commit: str
    tree: Path


def key_at(name: str, revision: Revision) -> str:
    """The key of a run at a revision, as reports call it: `fsdp8@main`."""
    return f"{name}@{revision.name}"


def revision_items(revision: Revision, runs: Sequence[Config], matrix: Matrix, again: Mapping[str, str]) -> list[Item]:
    """One per run at a revision that also runs today, and one for the first, whose envelope bounds them all.

    Args:
        revision: the revision.
        runs: of the matrix there.
        matrix: today's.
        again: by name of today's runs, the command that makes them again.

    Raises:
        RequestError: no run is in both.
    """
    if not {config.name for config in runs} & {config.name for config in matrix.runs}:
        raise RequestError(f"--against {revision.name}: no run of '{matrix.name}' is in both revisions")
    items = []
    for config in runs:
        key = key_at(config.name, revision)
        if config.name not in again and config is not runs[0]:
            continue
        command = again.get(config.name, again[matrix.runs[0].name])
        items.append(
            Item(
                key=key,
                pair=key,
                words=f"{key} on {config.mesh}",
                replay=shlex.join([*shlex.split(command), "--against", revision.name]),
                group=key,
                payload=Wanted(config.name, where="revision"),
            )
        )
    return items


class RevisionRuns:
    """The runs of a matrix at another revision in one process, beside today's.

    Args:
        request: of today's runs.
        revision: the other revision.
        today: today's runs, for their single steps.
    """

    def __init__(self, request: TrainRequest, revision: Revision, today: MatrixRuns) -> None:
        self.request, self.revision, self.today = request, revision, today
        self._stack = contextlib.ExitStack()
        self._then: MatrixRuns | None = None
        self._modules: RevisionModules | None = None

    def steps(self, name: str) -> Iterator[str | TrainedRun]:
        """Stages in words, and at the end the row of a run.

        Args:
            name: of the run, at the revision.
        """
        return guarded(name, self._steps(name))

    def _steps(self, name: str) -> Iterator[str | TrainedRun]:
        yield "loading the model of the revision"
        row = TrainedRun(config=name)
        for step in self._there(name):
            if isinstance(step, str):
                yield f"{step} at {self.revision.name}"
            else:
                row = step
        if row.error is None and any(config.name == name for config in self.today.matrix.runs):
            yield f"running today's single steps from the states at {self.revision.name}"
            row = replace(row, apart=self._apart(name))
        yield row

    def _there(self, name: str) -> Iterator[str | TrainedRun]:
        """The stages and the row of a run, made with the modules of the revision; between them, today's are there."""
        then = self._loaded()
        assert self._modules is not None
        steps = then.steps(name, "")
        while True:
            with self._modules.imported():
                step = next(steps, None)
            if step is None:
                return
            yield step

    def close(self) -> None:
        """Remove the worktree that this process has made."""
        self._then = self._modules = None
        self._stack.close()

    def _loaded(self) -> MatrixRuns:
        from samebits.host.git import checkout, top_folder
        from samebits.host.revision_modules import RevisionModules

        if self._then is None:
            tree = self.revision.tree
            if not tree.is_dir():
                tree = self._stack.enter_context(checkout(self.request.tree, self.revision.commit))
            self._modules = RevisionModules(top_folder(self.request.tree), top_folder(tree))
            with self._modules.imported():
                self._then = MatrixRuns(replace(self.request, root=tree))
        return self._then

    def _apart(self, name: str) -> str:
        """The distances of today's single steps from those of the revision, both from its first run's states."""
        from samebits.train.envelope import distances, forced

        then = self._loaded()
        _, recorded = then.base()
        with self.today.trainer(self.today.matrix.run(name)) as trainer:
            return to_text(distances(then.forced[name], forced(trainer, recorded.states)))


def compared_at(
    revision: Revision, runs: Sequence[Config], rows: Mapping[str, TrainedRun], today: MatrixResult
) -> RevisionComparison:
    """Today's runs compared with those at a revision; what could not be compared is a problem.

    Args:
        revision: the revision.
        runs: of the matrix there.
        rows: by key of their items.
        today: today's runs.
    """
    from samebits.train.envelope import Distances, Envelope
    from samebits.train.other_revision import RevisionComparison, compare
    from samebits.train.record import RunRecord

    comparison = RevisionComparison(revision=revision.name, commit=revision.commit)
    first = rows.get(key_at(runs[0].name, revision))
    base = first if first is not None and first.error is None else None  # without it nothing has a bound
    for config in runs:
        key = key_at(config.name, revision)
        row = rows.get(key)
        if config.name not in today.runs:
            comparison.notes.append(f"{config.name} runs at {revision.name} and does not run now")
        if row is None or (config.name not in today.runs and row is not first):
            continue
        error = row.error
        if error is None and base is not None and row.first_bits != base.first_bits:
            error = f"config '{runs[0].name}' does not repeat its own bits: they differ in the process that ran '{key}'"
        if error is not None:
            comparison.problems.append(not_run(row, error, key))
        elif base is not None and config.name in today.runs:
            apart = from_text(row.apart, Distances)  # type: ignore[type-abstract]
            old, envelope = from_text(row.run, RunRecord), from_text(base.envelope, Envelope)
            comparison.comparisons.append(compare(old, today.runs[config.name].run, apart, envelope, revision.name))
    names = {config.name for config in runs}
    comparison.notes += [f"{name} is new since {revision.name}" for name in today.runs if name not in names]
    return comparison
