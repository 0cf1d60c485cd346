"""Sides that agree on the inputs tried, and are seen to differ at other values."""

from __future__ import annotations

from samebits.report.document import Document
from samebits.report.words import plural


def magnitude_notes(document: Document) -> list[str]:
    """A line for each variant, direction and leaf that is not the same at other values."""
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for result in document.results:
        for assumption in result.assumptions:
            if assumption.counterexample is not None:
                place = result.pair, result.variant, result.direction, result.leaf
                seen.setdefault(place, []).append(assumption.counterexample)
    return [
        f"{pair}/{variant}: {direction}, {leaf}: the same only at inputs like those tried: {texts[0]}"
        + (f"; and in {plural(len(texts) - 1, 'more setting')}" if len(texts) > 1 else "")
        for (pair, variant, direction, leaf), texts in seen.items()
    ]
