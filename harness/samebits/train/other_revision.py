"""Runs a matrix at another git revision, with that revision's model and parts and today's samebits, and compares."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from samebits.errors import RequestError, SamebitsError
from samebits.host.git import checkout, commit_of
from samebits.train.compare import Pairing, judge_runs
from samebits.train.envelope import forced
from samebits.train.matrix import MatrixResult, Say, run_matrix
from samebits.train.request import TrainRequest, select


@dataclass(slots=True)
class RevisionComparison:
    """The runs of a matrix compared with its runs at another revision.

    Args:
        revision, commit: the revision as given, and its commit.
        comparisons: `a` is the run at the revision, `b` today's.
        notes: runs that exist in only one of the two.
    """

    revision: str
    commit: str
    comparisons: list[Pairing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_against(
    today: MatrixResult, request: TrainRequest, revision: str, say: Say = lambda text: None
) -> RevisionComparison:
    """Run a matrix at another revision, and compare today's runs with it.

    Both are run by today's samebits, so that a change of samebits itself is not part of the comparison.

    Args:
        today: today's runs.
        request: the request of today's runs.
        revision: a branch, a tag or a commit.
        say: receives progress messages.

    Raises:
        RequestError: there is no such revision, its tree has no such model or matrix, or its suites are written for
            a samebits before 0.2.0.
        SamebitsError: the first run fails there.
    """
    commit = commit_of(request.tree, revision)
    with checkout(request.tree, revision) as tree:
        then = replace(request, root=tree)
        try:
            model, matrix = select(then)
        except SamebitsError as error:
            text = str(error).replace(str(tree), "its tree")
            if _imports_harness(tree):
                text = (
                    "its suites import 'harness', the name of this package before 0.2.0; expected 'samebits'; "
                    "give a later revision, or compare with the samebits of that revision"
                )
            raise RequestError(f"--against {revision} ({commit[:12]}): {text}") from None
        before = run_matrix(model, matrix, tree, request.steps, lambda text: say(f"{revision}: {text}"))
    return _compare(today, before, RevisionComparison(revision=revision, commit=commit))


def _imports_harness(tree: Path) -> bool:
    """Whether the suites of a tree import this package by its name before 0.2.0."""
    pattern = re.compile(r"^\s*(from|import) harness\b", re.MULTILINE)
    return any(pattern.search(path.read_text(encoding="utf-8")) for path in (tree / "suites").rglob("*.py"))


def _compare(today: MatrixResult, before: MatrixResult, against: RevisionComparison) -> RevisionComparison:
    assert before.envelope is not None
    states = before.runs[before.matrix.runs[0].name].states
    for name, old in before.runs.items():
        if name not in today.runs:
            against.notes.append(f"{name} ran at {against.revision} and does not run now")
            continue
        pairing = judge_runs(
            old.run,
            today.runs[name].run,
            before.forced[name],
            forced(today.trainers[name], states),
            before.envelope,
            "rounding",
            f"the same configuration at {against.revision}",
        )
        against.comparisons.append(replace(pairing, a=f"{name}@{against.revision}"))
    against.notes += [f"{name} is new since {against.revision}" for name in today.runs if name not in before.runs]
    if not against.comparisons:
        raise RequestError(f"--against {against.revision}: no run of '{today.matrix.name}' is in both revisions")
    return against
