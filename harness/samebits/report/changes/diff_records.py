"""What `samebits diff` found, as records: results, contracts, bits and figures that are not as in the old document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samebits.host.written import Written
from samebits.schema.finding import Place

Change = Literal["new failure", "worse failure", "fell", "no longer compared", "still fails", "fixed", "rose", "added"]

WORSE: tuple[Change, ...] = ("new failure", "worse failure", "fell")
"""Changes for the worse; the last one is excused by another environment or declaration."""

NOT_BETTER: tuple[Change, ...] = ("no longer compared", "still fails")

BETTER: tuple[Change, ...] = ("fixed", "rose", "added")

CHANGES: tuple[Change, ...] = (*WORSE, *NOT_BETTER, *BETTER)
"""In the order of a report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slower:
    """When a result is called slower; both must hold.

    Args:
        ratio: new over old, at least.
        floor: seconds that it takes longer, at least.
    """

    ratio: float = 2.0
    floor: float = 1.0

    def holds(self, before: float, after: float) -> bool:
        """Whether the second time is slower than the first."""
        return after >= self.ratio * before and after - before >= self.floor


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedResult(Place):
    """A result that is not as in the old document.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `Place`.
        change: what changed; `fell` and `rose` are verdicts that satisfy the contract on both sides, and a
            `worse failure` satisfies it on neither, with a lower verdict than before.
        before, after: the verdicts; None where there is no result.
        ok: whether the new result suffices; False where there is none.
        declared: whether the declared contract or exemption of the result, or the reason of it, changed too.
        reason: of the new result.
        replay: the command that shows the new result, or the old one where there is no other.
    """

    change: Change
    before: str | None
    after: str | None
    ok: bool
    declared: bool = False
    reason: str | None = None
    replay: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedContract(Place):
    """A result of which another verdict is required, or for another reason.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `Place`.
        before, after: what is required, and why.
    """

    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedReference(Place):
    """A leaf for which the reference itself, or its inputs, have other bits; or a program or run that has.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `Place`.
        before, after: the digests.
    """

    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedLoss(Place):
    """A training run whose loss moved, judged as `samebits train --beside` does.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `Place`.
        step: the last step at which it moved.
        before, after: the loss there.
        max_ulp: the largest distance of the losses at any step, in float32 ulps.
        bound: how far rounding alone may move it at the last step.
        verdict: `rounding` within the envelope of the new document, `different` beyond it.
        reason: where it moved first.
    """

    step: int
    before: str
    after: str
    max_ulp: int
    bound: int
    verdict: Literal["bitwise", "rounding", "different"]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFigure(Place):
    """A time that became longer, or a figure of a compiled program that changed.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf, target, item: of what, as in `Place`.
        figure: `seconds`, or as in `Facts`.
        before, after: the values.
    """

    figure: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentHead:
    """Where one of the documents is from.

    Args:
        file: its path, as it was given.
        written: its time and commit; None where an older samebits wrote it.
    """

    file: str
    written: Written | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DiffSummary:
    """The counts of a comparison of two documents.

    Args:
        compared: results that both documents have.
        changes: how many results changed in each way.
        moved: leaves whose reference moved.
        same_environment: whether a verdict that fell can fail.
        failed: changes that fail.
        contracts: results whose contract changed.
        slower: results, or their points, that became slower.
        figures: changed figures of compiled programs.
        seconds_before, seconds_after: the times of what both documents have, added up.
        losses: training runs whose loss moved.
        still_fail: failures and problems of the new document that the old one has too, and that are not worse.
    """

    compared: int
    changes: dict[str, int]
    moved: int
    same_environment: bool
    failed: int
    contracts: int = 0
    slower: int = 0
    figures: int = 0
    seconds_before: float = 0.0
    seconds_after: float = 0.0
    losses: int = 0
    still_fail: int = 0
