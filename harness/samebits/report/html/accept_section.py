"""Accepted verdicts on a page: which snapshots were written, and which pairs could not be accepted."""

from __future__ import annotations

import shlex

from samebits.report.html.render import render
from samebits.report.html.section import Section
from samebits.report.snapshots import AcceptDocument
from samebits.report.words import plural, state_of
from samebits.schema.result import gravest

HEADS = ["pair", "snapshot", "equal bits beyond the contract", "more", "fewer", "file"]


def accept_section(document: AcceptDocument) -> Section:
    """The section of accepted verdicts.

    Args:
        document: of `samebits accept --verdicts`.
    """
    order = {"new": 0, "changed": 1}
    rows = sorted(document.results, key=lambda row: order.get(row.change, 2))
    return Section(
        command="accept",
        state=state_of(gravest(document.problems)),
        headline=_headline(document),
        next_command=shlex.join(["samebits", "check", document.problems[0].pair]) if document.problems else None,
        body=render(
            "accept.html.j2",
            document=document,
            heads=HEADS,
            rows=[[row.pair, row.change, row.equal, row.gained, row.lost, row.path] for row in rows],
        ),
        styles=("evidence.css",),
    )


def _headline(document: AcceptDocument) -> str:
    """What could not be accepted, or what was."""
    if document.problems:
        first = document.problems[0]
        count = plural(len(document.problems), "pair")
        return f"{count} not accepted; first {first.pair}: {first.message}"
    written = [row for row in document.results if row.change != "unchanged"]
    lost = sum(row.lost for row in document.results)
    gone = f"; {plural(lost, 'result')} no longer equal" if lost else ""
    equal = sum(row.equal for row in document.results)
    pairs = plural(len(document.results), "pair")
    return f"{pairs}: {plural(len(written), 'snapshot')} written, {plural(equal, 'result')} beyond the contract{gone}"
