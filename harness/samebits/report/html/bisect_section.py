"""A bisection on a page: the cause, its witness, and the search as a picture with every point that was tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from samebits.bisect.search.trials import Finding, TriedPoint
from samebits.report.bisect import BisectDocument, closing, exit_code, shortened
from samebits.report.html.bisect_charts import bisect_charts
from samebits.report.html.render import render
from samebits.report.html.section import Section
from samebits.report.words import state_of
from samebits.schema.line_difference import LineDifference

OUTCOME_SIGNS = {"pass": "✓", "fail": "✗", "ambiguous": "?", "untestable": "∅"}

CANDIDATES = {
    "commits": "commits",
    "commits --toolchain": "packages",
    "flags": "options",
    "pairs": "choices",
    "steps": "steps",
    "tensors": "choices",
}
"""What the candidates of each bisection are."""

PATCH_LINES = 400
"""Of a patch on a page; JSON has all of it."""

TENSORS = 200
"""Of aligned tensors in a table; the last of them, since the first that differs ends the list."""


def bisect_section(document: BisectDocument) -> Section:
    """The section of one bisection.

    Args:
        document: of `samebits bisect`.
    """
    finding = document.finding
    detail: dict[str, Any] = msgspec.to_builtins(dict(finding.detail))
    tensors = aligned(detail)
    charts = bisect_charts(finding, tensors)
    return Section(
        id=f"bisect-{finding.what.split()[0]}",
        title=f"bisect {finding.what}",
        command="bisect",
        state=state_of(exit_code(finding)),
        headline=finding.sentence,
        next_command=finding.replay or None,
        body=render(
            "bisect.html.j2",
            document=document,
            finding=finding,
            facts=[*_facts(finding, detail)],
            trials=[_row(trial, len(finding.candidates)) for trial in finding.trials],
            narrowed=any(trial.left is not None for trial in finding.trials),
            tensors=tensors[-TENSORS:],
            hidden=max(0, len(tensors) - TENSORS),
            patch=[(_kind(line), line) for line in shortened(str(detail.get("diff") or ""), PATCH_LINES)],
            charts=charts,
            pictures=_pictures(finding),
            closing=closing(finding),
        ),
        charts=charts,
        styles=("evidence.css",),
    )


def _facts(finding: Finding, detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the first screen says besides the sentence."""
    cause = "makes them equal" if finding.what == "flags" else "smallest" if finding.what == "mesh" else "cause"
    # Each minimal set is a cause by itself; commits that cannot be judged, and lines, are alternatives.
    more = "or" if finding.what in ("commits", "tensors") else "also"
    for number, culprit in enumerate(finding.culprits):
        yield (more if number else cause), ", ".join(culprit)
    for number, line in enumerate(_records(detail.get("lines"))):
        yield ("or" if number else "line"), _line(line)
    for commit in _records([detail.get("culprit")]):
        yield "commit", f"{commit.get('subject')} ({commit.get('author')}, {commit.get('date')})"
    yield "witness", finding.witness
    yield "failure", str(detail.get("signature") or "")
    for search in _records([detail.get("input_search")]):
        words = f"{search.get('left')} of {search.get('elements')} are left, {search.get('tried')} inputs tried"
        yield f"elements of the input '{search.get('input')}'", words
    if detail.get("compared") is not None:
        yield "tensors compared", f"{detail['compared']}, of which {detail.get('before')} before it hold"
    yield "search", closing(finding)


def _records(values: object) -> list[Mapping[str, Any]]:
    """The records of a list; what a bisection writes into `detail` has no declared type, and is not checked."""
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, (list, tuple)) else []


def _line(line: Mapping[str, Any]) -> str:
    """A line that differs, in words."""
    try:
        return str(msgspec.convert(line, LineDifference))
    except msgspec.ValidationError:  # of another version, or edited
        return ", ".join(f"{name}: {value}" for name, value in line.items() if value)


def _row(trial: TriedPoint, candidates: int) -> dict[str, Any]:
    """A point as a row of the table."""
    left = sum(last - first + 1 for first, last in trial.left) if trial.left is not None else None
    return {
        "trial": trial,
        "sign": OUTCOME_SIGNS[trial.outcome],
        "left": None if left is None else f"{left} of {candidates}",
        "looks": f"{trial.looks}{' (journal)' if trial.remembered else ''}",
    }


def _pictures(finding: Finding) -> dict[str, str]:
    """What each chart shows, in a sentence."""
    narrowed = any(trial.left is not None for trial in finding.trials)
    what = CANDIDATES.get(finding.what, "candidates")
    left = "; the band is what is left after each point" if narrowed else "; a column is one point: what it takes"
    cause = ""
    if finding.found:
        cause = "; each dashed line is a cause" if len(finding.culprits) > 1 else "; the dashed line is the cause"
    meaning = "; a point passes where both sides have the same bits" if finding.what == "flags" else ""
    return {
        "search": f"The search: {what} from top to bottom, points from left to right{left}{cause}{meaning}.",
        "sizes": "The search: how large each point was (devices times all sizes) beside the first; the line is the "
        "smallest that fails so far.",
        "tensors": "All values of the variant, in the order of computation, up to the first that differs.",
    }


def aligned(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The aligned tensors up to the first that differs, each in words.

    Args:
        detail: of the finding, as JSON values.
    """
    rows: list[dict[str, Any]] = []
    for number, tensor in enumerate(_records(detail.get("tensors"))):
        inside = f", iteration {tensor['iteration']}" if tensor.get("iteration") is not None else ""
        state = "first that differs" if tensor.get("first") else "same" if tensor.get("occurs") else "another form"
        rows.append(
            {
                "number": number + 1,
                "words": f"{tensor.get('primitive')} {tensor.get('type')}{inside}",
                "variant": tensor.get("variant") or "",
                "code": tensor.get("code") or "",
                "reference": tensor.get("reference") or "",
                "state": state,
            }
        )
        if tensor.get("first"):
            break
    return rows


def _kind(line: str) -> str:
    """Whether a line of a patch is added, removed or neither."""
    heads: Sequence[str] = ("+++", "---")
    return "" if line.startswith(tuple(heads)) else {"+": "added", "-": "removed"}.get(line[:1], "")
