"""A matrix at another git revision, with that revision's model and parts and today's samebits; and its comparison."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from samebits.errors import RequestError, SamebitsError
from samebits.host.git import checkout, commit_of, top_folder
from samebits.host.revision_modules import RevisionModules
from samebits.schema.model import Matrix, Model
from samebits.schema.result import Problem
from samebits.train.compare import Pairing, judge_distances
from samebits.train.envelope import Distances, Envelope
from samebits.train.record import RunRecord
from samebits.train.request import TrainRequest, select


@dataclass(slots=True)
class RevisionComparison:
    """The runs of a matrix compared with its runs at another revision.

    Args:
        revision, commit: the revision as given, and its commit.
        comparisons: `a` is the run at the revision, `b` today's.
        notes: runs that exist in only one of the two.
        problems: runs that could not be compared.
    """

    revision: str
    commit: str
    comparisons: list[Pairing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@contextlib.contextmanager
def matrix_at(request: TrainRequest, revision: str) -> Iterator[tuple[TrainRequest, str, Model, Matrix]]:
    """The request, commit, model and matrix at a revision, whose tree is there for the duration of a `with` block.

    The model has the modules of the revision, also those that Python imports from beside the tree.

    Args:
        request: of today's runs.
        revision: a branch, a tag or a commit.

    Raises:
        RequestError: there is no such revision, its tree has no such model or matrix, or its suites are written for
            a samebits before 0.2.0.
    """
    commit = commit_of(request.tree, revision)
    with checkout(request.tree, revision) as tree:
        then = replace(request, root=tree)
        try:
            with RevisionModules(top_folder(request.tree), top_folder(tree)).imported():
                model, matrix = select(then)
        except SamebitsError as error:
            text = str(error).replace(str(tree), "its tree")
            if _imports_harness(tree):
                text = (
                    "its suites import 'harness', the name of this package before 0.2.0; expected 'samebits'; "
                    "give a later revision, or compare with the samebits of that revision"
                )
            raise RequestError(f"--against {revision} ({commit[:12]}): {text}") from None
        yield then, commit, model, matrix


def compare(old: RunRecord, new: RunRecord, apart: Distances, envelope: Envelope, revision: str) -> Pairing:
    """A run compared with the same at a revision.

    Args:
        old, new: at the revision, and today's.
        apart: the distances of their single steps from the same states.
        envelope: of the first run at the revision.
        revision: as given.
    """
    reason = f"the same configuration at {revision}"
    pairing = judge_distances(old, new, apart, envelope, "rounding", reason)
    return replace(pairing, a=f"{old.config}@{revision}")


def _imports_harness(tree: Path) -> bool:
    """Whether the suites of a tree import this package by its name before 0.2.0."""
    pattern = re.compile(r"^\s*(from|import) harness\b", re.MULTILINE)
    return any(pattern.search(path.read_text(encoding="utf-8")) for path in (tree / "suites").rglob("*.py"))
