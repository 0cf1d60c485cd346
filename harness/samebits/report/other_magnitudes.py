"""Sides that agree on the inputs tried, and are seen to differ at other values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samebits.report.words import plural

REMEDY = (
    "such inputs fail where they are declared, as by values=Integers(...); exactly= says of given integers and masks "
    "that they are all there are"
)


def other_input_notes(results: Iterable[Any]) -> list[str]:
    """Write a line for each variant, direction and leaf that is not the same at other values, and what to do.

    Args:
        results: of a check or of proofs.
    """
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for result in results:
        for assumption in result.assumptions:
            if assumption.counterexample is not None:
                place = result.pair, result.variant, result.direction, result.leaf
                derived = assumption.word == "derivatives"
                only = "but not its own gradient" if derived else "only at inputs like those tried"
                seen.setdefault(place, []).append(f"{only}: {assumption.counterexample}")
    lines = [
        f"{pair}/{variant}: {direction}, {leaf}: the same {texts[0]}"
        + (f"; and in {plural(len(texts) - 1, 'more setting')}" if len(texts) > 1 else "")
        for (pair, variant, direction, leaf), texts in seen.items()
    ]
    return [*lines, *([REMEDY] if lines else [])]
