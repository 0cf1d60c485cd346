"""The same matrix at another git revision: its tree's model and parts, run by this harness, compared step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from samebits.errors import RequestError, SamebitsError
from samebits.host.git import checkout, commit_of
from samebits.train.compare import Pairing, judge
from samebits.train.envelope import forced
from samebits.train.matrix import MatrixResult, Say, run_matrix
from samebits.train.request import TrainRequest, select


@dataclass(slots=True)
class RevisionComparison:
    """A matrix held against its runs at another revision.

    Args:
        revision, commit: what was asked for, and what it is.
        comparisons: `a` is the run at the revision, `b` today's.
        notes: runs that only one of the two has.
    """

    revision: str
    commit: str
    comparisons: list[Pairing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_against(
    today: MatrixResult, request: TrainRequest, revision: str, say: Say = lambda text: None
) -> RevisionComparison:
    """Run a matrix at another revision, and hold today's runs against it.

    The harness is today's for both, so that what checks is not part of what is checked.

    Args:
        found: today's runs.
        request: what was asked for today.
        revision: a branch, a tag or a commit.
        say: told what is under way.

    Raises:
        RequestError: there is no such revision, or its tree has no such model or matrix.
        SamebitsError: the first run cannot be made there.
    """
    commit = commit_of(request.tree, revision)
    with checkout(request.tree, revision) as tree:
        then = replace(request, root=tree)
        try:
            model, matrix = select(then)
        except SamebitsError as error:
            text = str(error).replace(str(tree), "its tree")
            raise RequestError(f"--against {revision} ({commit[:12]}): {text}") from None
        before = run_matrix(model, matrix, tree, request.steps, lambda text: say(f"{revision}: {text}"))
    return _compare(today, before, RevisionComparison(revision=revision, commit=commit))


def _compare(today: MatrixResult, before: MatrixResult, against: RevisionComparison) -> RevisionComparison:
    assert before.envelope is not None
    states = before.runs[before.matrix.runs[0].name].states
    for name, old in before.runs.items():
        if name not in today.runs:
            against.notes.append(f"{name} ran at {against.revision} and does not run now")
            continue
        pairing = judge(
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
