"""A bisection on a page: the cause, its witness, and the search as a picture with every point that was tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from samebits.bisect.search.trials import Finding, TriedPoint
from samebits.report.bisect import BisectDocument, closing, exit_code, shortened
from samebits.report.html.charts import COLOURS, spec
from samebits.report.html.section import Section, render
from samebits.report.words import state_of
from samebits.schema.line_difference import LineDifference

if TYPE_CHECKING:
    import altair

    from samebits.bisect.search.trials import TriedPoint


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


OUTCOMES = {
    "pass": (COLOURS["bitwise"], "circle"),
    "fail": (COLOURS["different"], "cross"),
    "ambiguous": (COLOURS["unstable"], "diamond"),
    "untestable": (COLOURS["skipped"], "triangle-up"),
}
"""Colour and shape of each outcome: colour is never the only sign."""

OUTCOME = "outcome"
"""The line above the candidates."""

NAMED = 40
"""Up to so many candidates each have a line with their name; more are an axis of numbers."""

TENSOR_STATES = {
    "same": COLOURS["bitwise"],
    "another form": COLOURS["rounding"],
    "first that differs": COLOURS["different"],
}


def bisect_charts(finding: Finding, tensors: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The charts of a bisection, by name; none where nothing was tried.

    Args:
        finding: of the document.
        tensors: the aligned tensors, each with its `state` and `words`.
    """
    charts = {}
    if finding.candidates and len(finding.trials) > 1 and any(trial.taken for trial in finding.trials):
        charts["search"] = search_chart(finding)
    if any(trial.measures for trial in finding.trials):
        charts["sizes"] = sizes_chart(finding)
    if len(tensors) > 1:
        charts["tensors"] = tensors_chart(tensors)
    return charts


def search_chart(finding: Finding) -> dict[str, Any]:
    """Candidates from top to bottom, points from left to right: what each took, and what it left."""
    import altair

    named = len(finding.candidates) <= NAMED
    labels = _labels(finding.candidates)
    trials = [str(trial.number) for trial in finding.trials]
    labels.insert(0, OUTCOME)
    x = altair.X("trial:O", title="point, in the order tried", sort=trials, axis=altair.Axis(labelAngle=0))
    x = x.scale(domain=trials)
    layers = [_left(finding, labels, x, named=named), _culprits(finding, labels, named=named)]
    layers.append(_taken(finding, labels, x, named=named))
    height = 18 * len(labels) + 20 if named else 320
    return spec(altair.layer(*(layer for layer in layers if layer is not None)), height=height)


def _labels(candidates: Sequence[str]) -> list[str]:
    """The names of candidates; numbered where two are equal, or one is that of the first line: each has its own."""
    if len(set(candidates) - {OUTCOME}) == len(candidates):
        return list(candidates)
    return [f"{number + 1}  {name}" for number, name in enumerate(candidates)]


def _candidate(labels: Sequence[str], *, named: bool, field: str = "candidate") -> altair.Y:
    """The axis of candidates: each with its name, or numbers where they are many."""
    import altair

    if named:
        return altair.Y(f"{field}:O", title=None, sort=labels, axis=altair.Axis(labelLimit=180)).scale(domain=labels)
    scale = altair.Scale(domain=[-len(labels) / 20, len(labels)], reverse=True, nice=False)
    return altair.Y(f"{field}:Q", title="candidate, in order", scale=scale)


def _left(finding: Finding, labels: Sequence[str], x: altair.X, *, named: bool) -> altair.Chart | None:
    """The candidates that are left after each point, as bands."""
    import altair

    rows: list[dict[str, Any]] = []
    for trial in finding.trials:
        for first, last in trial.left or ():
            if named:
                rows += [{"trial": str(trial.number), "candidate": label} for label in labels[first + 1 : last + 2]]
            else:
                rows.append({"trial": str(trial.number), "candidate": first + 0.5, "end": last + 1.5})
    if not rows:
        return None
    chart = altair.Chart(_data(rows)).mark_rect(opacity=0.22, color=COLOURS["refused"])
    y = _candidate(labels, named=named)
    bands: altair.Chart = chart.encode(x=x, y=y) if named else chart.encode(x=x, y=y, y2="end:Q")
    return bands


def _culprits(finding: Finding, labels: Sequence[str], *, named: bool) -> altair.Chart | None:
    """A line through each candidate that is part of the cause."""
    import altair

    places = culprit_places(finding)
    if not places or not finding.found:
        return None
    rows = [{"candidate": _at(labels, place, named=named), "cause": labels[place + 1]} for place in places]
    chart = altair.Chart(_data(rows)).mark_rule(color=COLOURS["different"], strokeDash=[5, 3], strokeWidth=1.5)
    lines: altair.Chart = chart.encode(y=_candidate(labels, named=named), tooltip="cause:N")
    return lines


def _taken(finding: Finding, labels: Sequence[str], x: altair.X, *, named: bool) -> altair.Chart:
    """What each point took, with its outcome, which stands once more in the first line: a point may take nothing."""
    import altair

    rows = [
        {
            "trial": str(trial.number),
            "candidate": _at(labels, place, named=named),
            "outcome": trial.outcome,
            "point": trial.point,
            "seen": trial.detail,
        }
        for trial in finding.trials
        for place in (-1, *trial.taken)
    ]
    tooltip = [altair.Tooltip(f"{name}:N") for name in ("point", "outcome", "seen")]
    chart = altair.Chart(_data(rows)).mark_point(filled=True, size=70, opacity=1)
    marks: altair.Chart = chart.encode(x=x, y=_candidate(labels, named=named), tooltip=tooltip, **_outcome(finding))
    return marks


def _at(labels: Sequence[str], place: int, *, named: bool) -> str | float:
    """Where a candidate is on its axis; -1 is the line of outcomes above the first."""
    if named:
        return labels[place + 1]
    return place + 1 if place >= 0 else -len(labels) / 40


def culprit_places(finding: Finding) -> list[int]:
    """The positions of the candidates that are part of a cause."""
    names = {name for culprits in finding.culprits for name in culprits}
    return [
        place
        for place, candidate in enumerate(finding.candidates)
        # A commit is listed as its short hash and subject, and is a culprit by its whole hash.
        if candidate in names or any(name.startswith(candidate.partition(" ")[0]) for name in names if len(name) == 40)
    ]


def sizes_chart(finding: Finding) -> dict[str, Any]:
    """How large each point was beside the first, in devices and in the product of all sizes."""
    import altair

    first = next(trial for trial in finding.trials if trial.measures)
    rows: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    smallest = math.inf
    for trial in finding.trials:
        share = _volume(trial) / max(_volume(first), 1)
        smallest = min(smallest, share) if trial.outcome == "fail" else smallest
        row = {"trial": trial.number, "share": share, "outcome": trial.outcome, "point": trial.point}
        rows.append({**row, "seen": trial.detail})
        if math.isfinite(smallest):
            lines.append({"trial": trial.number, "share": smallest})
    trials = [row["trial"] for row in rows]
    x = altair.X("trial:O", title="point, in the order tried", sort=trials, axis=altair.Axis(labelAngle=0))
    y = altair.Y("share:Q", title="size beside the first point", scale=altair.Scale(type="log"))
    y = y.axis(altair.Axis(format="~g", tickCount=4, grid=False))
    points = altair.Chart(_data(rows)).mark_point(filled=True, size=70, opacity=1)
    tooltip = [altair.Tooltip(f"{name}:N") for name in ("point", "outcome", "seen")]
    layers = [points.encode(x=x, y=y, tooltip=tooltip, **_outcome(finding))]
    if lines:
        line = altair.Chart(_data(lines)).mark_line(interpolate="step-after", color=COLOURS["different"], opacity=0.5)
        layers.insert(0, line.encode(x=x, y=y))
    return spec(altair.layer(*layers), height=220)


def _volume(trial: TriedPoint) -> int:
    """Devices times all sizes of a point."""
    return math.prod(max(size, 1) for size in trial.measures.values())


def tensors_chart(tensors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A stripe for each value of the variant, in the order of computation."""
    import altair

    rows = [
        {"number": number, "end": number + 1, "state": tensor["state"], "value": tensor["words"]}
        for number, tensor in enumerate(tensors)
    ]
    colour = altair.Color("state:N", title=None, legend=altair.Legend(orient="top"))
    colour = colour.scale(domain=[*TENSOR_STATES], range=[*TENSOR_STATES.values()])
    x = altair.X("number:Q", title="value of the variant, in the order of computation")
    x = x.scale(domain=[0, len(rows)], nice=False).axis(altair.Axis(tickMinStep=1, format="d", grid=False))
    tooltip = [altair.Tooltip(f"{name}:N") for name in ("value", "state")]
    chart = altair.Chart(_data(rows)).mark_rect()
    return spec(chart.encode(x=x, x2="end:Q", color=colour, tooltip=tooltip), height=40)


def _outcome(finding: Finding) -> dict[str, Any]:
    """Colour and shape by outcome, with one legend of those that there are."""
    import altair

    seen = {trial.outcome for trial in finding.trials}
    names = [name for name in OUTCOMES if name in seen]
    legend = altair.Legend(orient="top", columns=3)  # four do not fit beside each other on a phone
    return {
        "color": altair.Color("outcome:N", title=None, legend=legend).scale(
            domain=names, range=[OUTCOMES[name][0] for name in names]
        ),
        "shape": altair.Shape("outcome:N", title=None, legend=legend).scale(
            domain=names, range=[OUTCOMES[name][1] for name in names]
        ),
    }


def _data(rows: Sequence[Mapping[str, Any]]) -> altair.InlineData:
    import altair

    return altair.InlineData(values=[dict(row) for row in rows])
