"""Two documents of `samebits check`, of a branch and of its base: what changed, and whether anything is worse.

In: both documents. Out: new failures, verdicts that fell, bits of the reference that moved, and what is no longer
compared. A verdict that fell fails in the same environment only, and only under the same contract: a branch that
declares less, with its reason, is a decision for its review.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from samebits.errors import CouldNotRun
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA, Document
from samebits.schema.result import VERDICTS, Problem, Result, Verdict

Change = Literal["new failure", "fell", "no longer compared", "still fails", "fixed", "rose", "added"]

CHANGES: tuple[Change, ...] = ("new failure", "fell", "no longer compared", "still fails", "fixed", "rose", "added")
"""In the order of a report."""

_KEY = ("pair", "variant", "case", "dtype", "mesh", "mode", "direction", "leaf")

Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedResult:
    """A result that is not as on the base.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf: as in `Result`.
        change: what changed; `fell` and `rose` are verdicts that satisfy the contract on both sides.
        before, after: the verdicts; None where there is no result.
        ok: whether the result of the branch suffices; False where there is none.
        declared: whether the branch changed the contract or exemption of the result, or the reason of it.
        reason: of the branch.
        replay: the command that shows the result of the branch, or of the base where there is no other.
    """

    pair: str
    variant: str
    case: str
    dtype: str
    mesh: str
    mode: str
    direction: str
    leaf: str
    change: Change
    before: Verdict | None
    after: Verdict | None
    ok: bool
    declared: bool = False
    reason: str | None = None
    replay: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedReference:
    """A leaf for which the reference itself, or its inputs, have other bits than on the base.

    Args:
        pair, case, dtype, direction, leaf: as in `Result`.
        before, after: the digests of the reference's bits on one device.
    """

    pair: str
    case: str
    dtype: str
    direction: str
    leaf: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSummary:
    """The counts of a comparison of two documents.

    Args:
        compared: results that both documents have.
        changes: how many results changed in each way.
        moved: leaves whose reference moved.
        same_environment: whether a verdict that fell can fail.
        failed: changes that fail.
    """

    compared: int
    changes: dict[str, int]
    moved: int
    same_environment: bool
    failed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffDocument:
    """What changed from the base to the branch, as it is written to JSON.

    Args:
        environment: of the branch.
        results: the results that changed, the gravest changes first.
        moved: where the reference moved.
        problems: of the branch, and not of the base.
        notes: where the environments differ.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["report diff"] = "report diff"
    environment: Environment
    results: tuple[ChangedResult, ...]
    moved: tuple[MovedReference, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    summary: DiffSummary
    written: Written | None = None

    def fails(self, changed: ChangedResult) -> bool:
        """Whether a change is worse than the base, and neither another environment nor the declaration explains it."""
        fell = changed.change == "fell" and self.summary.same_environment and not changed.declared
        return fell or changed.change == "new failure"


def compare_documents(base: Document, head: Document) -> DiffDocument:
    """What changed from one document to another.

    Args:
        base: of the base.
        head: of the branch.

    Raises:
        CouldNotRun: they have no result in common, so that nothing is compared.
    """
    before, after = _by_key(base.results), _by_key(head.results)
    common = before.keys() & after.keys()
    if not common:
        raise CouldNotRun(
            f"nothing is compared: the base has {len(before)} results, the branch {len(after)}, and they have none in "
            "common; were both checked with the same pairs and filters?"
        )
    differences = _environment_differences(base.environment, head.environment)
    changed = _changes(before, after)
    moved = _moved((before[key], after[key]) for key in after if key in before)
    known = {(problem.pair, problem.message) for problem in base.problems}
    problems = tuple(problem for problem in head.problems if (problem.pair, problem.message) not in known)
    document = DiffDocument(
        environment=head.environment,
        results=tuple(sorted(changed, key=lambda result: CHANGES.index(result.change))),
        moved=moved,
        problems=problems,
        notes=tuple(differences),
        summary=DiffSummary(
            compared=len(common),
            changes=dict(Counter(result.change for result in changed)),
            moved=len(moved),
            same_environment=not differences,
            failed=0,
        ),
    )
    failed = sum(document.fails(result) for result in document.results) + len(problems)
    return replace(document, summary=replace(document.summary, failed=failed))


def exit_code(document: DiffDocument) -> int:
    """1 where a change fails, else the exit code of a new problem, else 0."""
    if any(document.fails(result) for result in document.results):
        return 1
    codes = {problem.exit_code for problem in document.problems}
    return next((code for code in (1, 2, 3) if code in codes), 0)


def _by_key(results: Iterable[Result]) -> dict[Key, Result]:
    return {tuple(getattr(result, name) for name in _KEY): result for result in results}


def _changes(before: dict[Key, Result], after: dict[Key, Result]) -> list[ChangedResult]:
    # A point that failed as a whole has the leaf `*`; its leaves are then not missing for another reason.
    whole = {key[:-1] for results in (before, after) for key in results if key[-1] == "*"}
    changes = []
    for key, result in after.items():
        change = _change(before.get(key), result, explained=key[:-1] in whole)
        if change is not None:
            changes.append(_changed(change, before.get(key), result))
    changes += [
        _changed("no longer compared", result, None)
        for key, result in before.items()
        if key not in after and key[:-1] not in whole and result.verdict != "skipped"
    ]
    return changes


def _change(before: Result | None, after: Result, *, explained: bool) -> Change | None:
    if before is None:
        return "new failure" if after.failed else None if explained else "added"
    if after.verdict == "skipped":
        return None if before.verdict == "skipped" else "no longer compared"
    if after.failed:
        return "still fails" if before.failed else "new failure"
    if before.failed:
        return "fixed"
    if before.verdict == "skipped":
        return "added"
    fall = VERDICTS.index(after.verdict) - VERDICTS.index(before.verdict)
    return "fell" if fall > 0 else "rose" if fall < 0 else None


def _changed(change: Change, before: Result | None, after: Result | None) -> ChangedResult:
    result = after or before
    assert result is not None
    return ChangedResult(
        **{name: getattr(result, name) for name in _KEY},
        change=change,
        before=None if before is None else before.verdict,
        after=None if after is None else after.verdict,
        ok=after is not None and after.ok,
        declared=before is not None and after is not None and _promise(before) != _promise(after),
        reason=None if after is None else after.reason,
        replay=result.replay,
    )


def _promise(result: Result) -> tuple[str, str | None, bool]:
    return (result.required, result.reason, result.exempt)


def _moved(both: Iterable[tuple[Result, Result]]) -> tuple[MovedReference, ...]:
    """One row per leaf of the reference: variants and meshes share its bits on one device."""
    moved: dict[Key, MovedReference] = {}
    for before, after in both:
        if before.bits is not None and after.bits is not None and before.bits != after.bits:
            key = (after.pair, after.case, after.dtype, after.direction, after.leaf)
            names = ("pair", "case", "dtype", "direction", "leaf")
            row = MovedReference(**dict(zip(names, key, strict=True)), before=before.bits, after=after.bits)
            moved.setdefault(key, row)
    return tuple(moved.values())


def _environment_differences(base: Environment, head: Environment) -> list[str]:
    """What the bits depend on and is not the same; the version of samebits itself does not count."""
    lines = []
    for name in (field.name for field in fields(Environment)):
        left, right = getattr(base, name), getattr(head, name)
        if isinstance(left, dict):
            keys: Sequence[str] = [key for key in {**left, **right} if (name, key) != ("versions", "samebits")]
            lines += [
                f"environment: {key} was {left.get(key)} on the base and is {right.get(key)}"
                for key in keys
                if left.get(key) != right.get(key)
            ]
        elif left != right:
            lines.append(f"environment: {name} was {left} on the base and is {right}")
    return lines
