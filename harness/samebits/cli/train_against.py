"""`samebits train --against`: the same command in a worktree of a git revision, and its document beside today's."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.bisect.commits.command import last_message, samebits_command
from samebits.cli.common import say
from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import Environment
from samebits.host.git import checkout, commit_of, top_folder
from samebits.host.installed import PACKAGE
from samebits.host.repository_sources import imported_sources
from samebits.host.subprocesses import ProcessResult, run_process, samebits_environment
from samebits.report.changes.diff_document import environment_changes, environment_sentence
from samebits.report.document import read_as
from samebits.report.train import TrainDocument, measured_envelope
from samebits.schema.result import Problem
from samebits.train.compare import Pairing, judge_at
from samebits.train.record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRevision:
    """What a command found at another revision.

    Args:
        revision, commit: the revision as given, and its commit.
    """

    revision: str
    commit: str
    document: TrainDocument

    @property
    def names(self) -> tuple[str, ...]:
        """The runs of the revision, those that could not run included."""
        return (*(run.config for run in self.document.results), *(problem.pair for problem in self.document.problems))

    def comparisons(self, today: Mapping[str, RunRecord]) -> list[Pairing]:
        """Hold today's runs against those of the revision, within the envelope of its first run."""
        envelope = measured_envelope(self.document.envelope, self.document.results)
        if envelope is None:
            return []
        both = [(run, today[run.config]) for run in self.document.results if run.config in today]
        return [judge_at(self.revision, old, new, envelope) for old, new in both]

    def problems(self) -> list[Problem]:
        """Say of each run that could not run at the revision that it was there."""
        return [replace(problem, pair=f"{problem.pair}@{self.revision}") for problem in self.document.problems]

    def notes(self, today: Collection[str], here: Environment) -> list[str]:
        """Name the runs of one of the two alone, and what differs between the environments."""
        lines = [f"{name} runs at {self.revision} and does not run now" for name in self.names if name not in today]
        lines += [f"{name} is new since {self.revision}" for name in today if name not in self.names]
        changes = environment_sentence(environment_changes(self.document.environment, here))
        return [*lines, f"the runs at {self.revision} had another environment: {changes}"] if changes else lines


def train_at(revision: str, tree: Path, options: Iterable[str], today: Collection[str]) -> TrainedRevision:
    """Train in a worktree of a revision, in a process of its own with today's samebits.

    Python imports there what it imports from the repository today, such as an editable install of `src/`.
    """
    commit = commit_of(tree, revision)
    named = f"--against {revision} ({commit[:12]})"
    say(f"{named}: its runs come first")
    with checkout(tree, revision) as there, tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        file = Path(folder) / "train.json"
        ended = _run(samebits_command(("train", *options), there, file, sys.executable), tree, there, Path(folder))
        if not file.is_file():
            error = RequestError if ended.code == RequestError.exit_code else CouldNotRun
            raise error(f"{named}: {last_message(ended).replace(str(there), 'its tree')}")
        # A replay in the worktree is one of both: the worktree is gone.
        again = f"--root {shlex.quote(str(tree))} --against {shlex.quote(revision)}"
        text = file.read_text(encoding="utf-8").replace(f"--root {there}", again)
        file.write_text(text, encoding="utf-8")
        trained = TrainedRevision(revision=revision, commit=commit, document=read_as(file, TrainDocument))
    if not {*trained.names} & {*today}:
        raise RequestError(f"--against {revision}: no run of '{trained.document.matrix}' is in both revisions")
    return trained


def _run(words: list[str], tree: Path, there: Path, folder: Path) -> ProcessResult:
    """Run a command with the sources of a worktree, in the folder of it that the current one is in the repository."""
    top, checked, cwd = top_folder(tree), top_folder(there), Path.cwd()
    path = imported_sources(top, os.environ, but=PACKAGE.parent, implicit=True).in_checkout(checked, folder / "links")
    path += filter(None, [os.environ.get("PYTHONPATH")])
    if cwd.is_relative_to(top):
        beside = checked / cwd.relative_to(top)
        cwd = beside if beside.is_dir() else there
    return run_process(words, cwd, samebits_environment({**os.environ, "PYTHONPATH": os.pathsep.join(path)}), None)
