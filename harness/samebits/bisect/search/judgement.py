"""What one look at one point says: passed, failed and how, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["pass", "fail", "ambiguous", "untestable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One point judged; published, so keys keep their meaning.

    Args:
        outcome: `untestable` points cannot be judged at all (a build that breaks); `ambiguous` ones did not answer the
            question (they fail otherwise, or not every time).
        signature: of a failure, what must stay the same while its cause is searched: its first step and leaf.
        detail: one line for the table.
        numbers: what else was measured.
    """

    outcome: Outcome
    signature: str = ""
    detail: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


def passed(detail: str = "", **numbers: Any) -> Judgement:
    """The point does what is expected."""
    return Judgement(outcome="pass", detail=detail, numbers=numbers)


def failed(signature: str, detail: str = "", **numbers: Any) -> Judgement:
    """The point fails, so."""
    return Judgement(outcome="fail", signature=signature, detail=detail or signature, numbers=numbers)


def untestable(detail: str) -> Judgement:
    """The point cannot be judged."""
    return Judgement(outcome="untestable", detail=detail)


def ambiguous(detail: str) -> Judgement:
    """The point was judged, without an answer."""
    return Judgement(outcome="ambiguous", detail=detail)


def together(looks: Sequence[Judgement]) -> Judgement:
    """Several looks at one point as one: the first where all agree, else ambiguous."""
    first = looks[0]
    same = sum((look.outcome, look.signature) == (first.outcome, first.signature) for look in looks)
    if same == len(looks):
        return first
    words = ", ".join(dict.fromkeys(f"{look.outcome} {look.signature}".rstrip() for look in looks))
    return ambiguous(f"does not repeat: {words} in {len(looks)} runs")
