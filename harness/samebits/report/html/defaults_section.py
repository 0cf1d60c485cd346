"""Two sources of defaults on a page: the keys on which they disagree."""

from __future__ import annotations

from samebits.report.defaults import HEADS, DefaultsDocument, closing, disagreement_rows
from samebits.report.html.render import render
from samebits.report.html.section import Section
from samebits.report.words import plural


def defaults_section(document: DefaultsDocument) -> Section:
    """The section of a comparison of defaults.

    Args:
        document: of `samebits defaults`.
    """
    agreement = document.results
    headline = _headline(document)
    return Section(
        command="defaults",
        state="failed" if agreement.disagreements else "passed",
        headline=headline,
        next_command=None,
        body=render(
            "defaults.html.j2",
            document=document,
            headline=headline,
            closing=closing(document),
            heads=[*HEADS[:2], document.first, document.second],
            rows=disagreement_rows(document),
            agreement=agreement,
        ),
        styles=("evidence.css",),
    )


def _headline(document: DefaultsDocument) -> str:
    """The first key on which they disagree."""
    rows = disagreement_rows(document)
    if not rows:
        return closing(document)
    key, kind, first, second = rows[0]
    keys = plural(len(rows), "disagreement")
    return f"{keys} of {document.first} and {document.second}; first '{key}' ({kind}): {first} against {second}"
