"""The effects of compiler options on all leaves of a check: counts by option, and by leaf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from samebits.schema.finding import Finding

Standing = Literal["robust", "fragile", "broken", "error", "not moved"]
"""Of a leaf under all options: the most severe of its outcomes; `not moved` where no option had an effect on it."""

STANDINGS: tuple[Standing, ...] = ("broken", "error", "fragile", "robust", "not moved")
COUNTED = ("robust", "fragile", "broken", "error", "no effect")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionRow:
    """One option.

    Args:
        option: its name.
        outcomes: how many leaves have each outcome.
        reference_moved: leaves of which the reference's own bits on one device are other ones: without any variant.
        effect: whether it changed a program or a bit anywhere; else it is not evidence.
    """

    option: str
    outcomes: Mapping[str, int]
    reference_moved: int
    effect: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShakeSummary:
    """All options, and what became of the leaves whose bits are equal as usual.

    Args:
        options: those that were tried.
        not_accepted: by option, what this XLA says of it.
        left_out: by option, why it is not evidence.
        leaves: by standing (`robust`, `fragile`, `broken`, `error`, `not moved`).
    """

    options: tuple[OptionRow, ...]
    not_accepted: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    leaves: Mapping[str, int] = field(default_factory=dict)


def shake_of(results: Iterable[Finding], not_accepted: Mapping[str, str], left_out: Mapping[str, str]) -> ShakeSummary:
    """Count the outcomes over results."""
    rows: dict[str, Counter[str]] = {}
    moved: Counter[str] = Counter()
    leaves: Counter[str] = Counter()
    for result in results:
        for leaf in result.shaken:
            rows.setdefault(leaf.option, Counter())[leaf.outcome] += 1
            moved[leaf.option] += bool(leaf.reference_moved)
        if result.shaken:
            leaves[standing(result)] += 1
    return ShakeSummary(
        options=tuple(
            OptionRow(
                option=name,
                outcomes={outcome: counts[outcome] for outcome in COUNTED if counts[outcome]},
                reference_moved=moved[name],
                effect=any(counts[outcome] for outcome in ("robust", "fragile", "broken")),
            )
            for name, counts in rows.items()
        ),
        not_accepted=dict(not_accepted),
        left_out=dict(left_out),
        leaves={name: leaves[name] for name in STANDINGS if leaves[name]},
    )


def standing(result: Finding) -> Standing:
    """Return the most severe outcome of a shaken leaf."""
    outcomes = {leaf.outcome for leaf in result.shaken}
    return next((name for name in STANDINGS if name in outcomes), "not moved")
