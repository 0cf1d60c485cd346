"""The judgement of one point: passed, failed (with a signature), ambiguous, or untestable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["pass", "fail", "ambiguous", "untestable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One point judged; published, so keys keep their meaning.

    Args:
        outcome: `untestable` points cannot be judged at all (the build fails); `ambiguous` ones give no answer (they
            fail in another way, or not every time).
        signature: of a failure, the part that must stay the same during the search: its first step and leaf.
        detail: one line for the table.
        numbers: further measurements.
    """

    outcome: Outcome
    signature: str = ""
    detail: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


def passed(detail: str = "", **numbers: Any) -> Judgement:
    """Say that the point passes."""
    return Judgement(outcome="pass", detail=detail, numbers=numbers)


def failed(signature: str, detail: str = "", **numbers: Any) -> Judgement:
    """Say that the point fails with a signature."""
    return Judgement(outcome="fail", signature=signature, detail=detail or signature, numbers=numbers)


def untestable(detail: str) -> Judgement:
    """Say that the point cannot be judged."""
    return Judgement(outcome="untestable", detail=detail)


def ambiguous(detail: str) -> Judgement:
    """Say that the point was run, without a clear answer."""
    return Judgement(outcome="ambiguous", detail=detail)


def together(looks: Sequence[Judgement]) -> Judgement:
    """Join several judgements of one point: the first if all agree, else ambiguous."""
    first = looks[0]
    same = sum((look.outcome, look.signature) == (first.outcome, first.signature) for look in looks)
    if same == len(looks):
        return first
    words = ", ".join(dict.fromkeys(f"{look.outcome} {look.signature}".rstrip() for look in looks))
    return ambiguous(f"does not repeat: {words} in {len(looks)} runs")
