"""The document of `samebits bisect`, and its page: the cause, its witness, and every point that was tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from samebits.bisect.search.trials import SearchFinding, TriedPoint
from samebits.host.environment import Environment
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.html.charts import COLOURS, alt, spec
from samebits.report.page import Badge, Block, Cell, Chart, Code, Page, Table, ValueList, first_lines
from samebits.report.words import plural, state_of, state_word
from samebits.schema.finding import Finding, Place
from samebits.schema.line_difference import LineDifference

LONGEST = 100
"""Characters of a cell in the terminal: what is longer would leave no room for the outcome; JSON has all of it."""

TENSORS = 30
"""Of aligned tensors, the last: the first that differs ends the list; the chart and JSON have all of them."""

PATCH_LINES = 400
"""Of a patch; JSON has all of it."""

CANDIDATES = {
    "commits": "commits",
    "commits --toolchain": "packages",
    "flags": "options",
    "pairs": "choices",
    "steps": "steps",
    "tensors": "choices",
}
"""What the candidates of each bisection are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BisectDocument(CommandDocument):
    """Everything that `samebits bisect` found.

    Args:
        environment: what it ran in.
        asked: what is searched, in words of the command line, without those that say where and how; empty in documents
            of older versions.
        finding: the answer, with every point that was tried.
    """

    command: Literal["bisect"] = "bisect"
    environment: Environment
    asked: str = ""
    finding: SearchFinding

    @property
    def exit_code(self) -> int:
        """0: nothing fails; 1: it fails, and here is the cause; 3: the cause could not be determined, or not yet."""
        finding = self.finding
        if finding.interrupted:
            return 3
        if finding.found:
            return 1
        return 3 if finding.culprits or finding.skipped else 0

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        search = self.finding
        causes = "; ".join(" + ".join(names) for names in search.culprits)
        verdict, place = causes or "cause found", Place(item=f"{search.what} {self.asked}".strip())
        more: dict[str, Any] = {"evidence": search.sentence, "replay": search.replay, "seconds": search.seconds}
        yield judged("bisect", place, verdict if search.found else "no cause", ok=not search.found, **more)

    def page(self) -> Page:
        """Return the cause with its witness, then the search: last in a terminal, where the end is read first."""
        finding = self.finding
        detail: dict[str, Any] = msgspec.to_builtins(dict(finding.detail))
        facts = ValueList(rows=[*_facts(finding, detail)], media=("markdown", "html"))
        tensors = tensor_rows(detail)
        more = f"; the last {TENSORS} of {len(tensors)}" if len(tensors) > TENSORS else ""
        blocks: list[Block] = [
            facts,
            *bisect_charts(finding, tensors),
            _trials(finding),
            Table(
                heads=("#", "value", "in the variant", "in the reference at", "seen"),
                rows=tensors[-TENSORS:],
                title=f"Values of the variant, in the order of computation{more}",
                bad=[number for number, row in enumerate(tensors[-TENSORS:]) if row[-1] == _FIRST],
                wide=("value", "in the variant"),
                most=LONGEST,
            ),
        ]
        if detail.get("diff"):
            lines = first_lines(str(detail["diff"]).split("\n"), PATCH_LINES)
            blocks.append(Code(lines=lines, title="The change", language="diff"))
        code = self.exit_code
        return Page(
            command="bisect",
            state=state_of(code),
            word=state_word(code, "nothing fails", "cause found"),
            closing=finding.sentence,
            command_next=finding.replay or None,
            blocks=[*blocks, replace(facts, media=("terminal",))],
            notes=[*(f"skipped, could not be judged: {name}" for name in finding.skipped), *finding.notes],
            environment=self.environment,
            title=f"bisect {finding.what}",
            heading=f"bisect {finding.what}",
        )


def _facts(finding: SearchFinding, detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what is known of the cause, by name."""
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
    """Return the records of a list; what a bisection writes into `detail` has no declared type, and is not checked."""
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, (list, tuple)) else []


def _line(line: Mapping[str, Any]) -> str:
    """Return a line that differs, in words."""
    try:
        return str(msgspec.convert(line, LineDifference))
    except msgspec.ValidationError:  # of another version, or edited
        return ", ".join(f"{name}: {value}" for name, value in line.items() if value)


def closing(finding: SearchFinding) -> str:
    """Say how much it took."""
    again = f" and {plural(finding.repeats, 'repeat')}" if finding.repeats else ""
    least = f"; {finding.least} is the least possible" if finding.least else ""
    cut = "interrupted; " if finding.interrupted else ""
    return f"{cut}{plural(finding.runs, 'run')}{again}{least}; {finding.seconds:.1f} s"


_BADGES = {
    "pass": Badge(text="PASS", sign="✓", tone="good"),
    "fail": Badge(text="FAIL", sign="✗", tone="bad"),
    "ambiguous": Badge(text="AMBIGUOUS", sign="?", tone="warn"),
    "untestable": Badge(text="UNTESTABLE", sign="∅", tone="warn"),
}


def _trials(finding: SearchFinding) -> Table:
    """Return every point that was judged, in order."""
    narrowed = ["left after it"] if any(trial.left is not None for trial in finding.trials) else []
    return Table(
        heads=("#", "point", "outcome", "runs", "what was seen", *narrowed, "seconds"),
        rows=[_trial(trial, finding if narrowed else None) for trial in finding.trials],
        title="Points, in the order tried",
        right=("#", "left after it", "runs", "seconds"),
        wide=("point", "what was seen"),
        most=LONGEST,
    )


def _trial(trial: TriedPoint, narrowed: SearchFinding | None) -> list[Cell]:
    runs = f"{trial.looks}{' (journal)' if trial.remembered else ''}"
    cells: list[Cell] = [str(trial.number), trial.point, _BADGES[trial.outcome], runs, trial.detail]
    if narrowed is not None:
        left = "" if trial.left is None else sum(last - first + 1 for first, last in trial.left)
        cells.append(f"{left} of {len(narrowed.candidates)}" if trial.left is not None else "")
    return [*cells, f"{trial.seconds:.1f}"]


_FIRST = "first that differs"


def tensor_rows(detail: Mapping[str, Any]) -> list[list[str]]:
    """Return the aligned tensors up to the first that differs: number, value, both places, and what was seen."""
    rows = []
    for number, tensor in enumerate(_records(detail.get("tensors")), 1):
        inside = f", iteration {tensor['iteration']}" if tensor.get("iteration") is not None else ""
        value = f"{tensor.get('primitive')} {tensor.get('type')}{inside}"
        variant = f"{tensor.get('variant') or ''} {tensor.get('code') or ''}".strip()
        seen = _FIRST if tensor.get("first") else "same" if tensor.get("occurs") else "another form"
        rows.append([str(number), value, variant, tensor.get("reference") or "", seen])
        if tensor.get("first"):
            break
    return rows


def bisect_charts(finding: SearchFinding, tensors: Sequence[Sequence[str]]) -> list[Chart]:
    """Return the charts of a bisection; none where nothing was tried."""
    charts = []
    if finding.candidates and len(finding.trials) > 1 and any(trial.taken for trial in finding.trials):
        charts.append(Chart(name="search", label=_search_label(finding), draw=lambda: search_chart(finding)))
    if any(trial.measures for trial in finding.trials):
        label = (
            "The search: how large each point was (devices times all sizes) beside the first; the line is the smallest "
            "that fails so far."
        )
        charts.append(Chart(name="sizes", label=label, draw=lambda: sizes_chart(finding)))
    if len(tensors) > 1:
        label = "All values of the variant, in the order of computation, up to the first that differs."
        charts.append(Chart(name="tensors", label=label, draw=lambda: tensors_chart(tensors)))
    return charts


def _search_label(finding: SearchFinding) -> str:
    narrowed = any(trial.left is not None for trial in finding.trials)
    what = CANDIDATES.get(finding.what, "candidates")
    left = "; the band is what is left after each point" if narrowed else "; a column is one point: what it takes"
    cause = ""
    if finding.found:
        cause = "; each dashed line is a cause" if len(finding.culprits) > 1 else "; the dashed line is the cause"
    meaning = "; a point passes where both sides have the same bits" if finding.what == "flags" else ""
    return f"The search: {what} from top to bottom, points from left to right{left}{cause}{meaning}."


OUTCOMES = {
    "pass": (COLOURS["bitwise"], "circle"),
    "fail": (COLOURS["different"], "cross"),
    "ambiguous": (COLOURS["unstable"], "diamond"),
    "untestable": (COLOURS["skipped"], "triangle-up"),
}
"""Colour and shape of each outcome: colour is never the only sign."""

OUTCOME = "outcome"
"""The line above the candidates."""

TALLEST = 740
"""Pixels of the chart at most; of more candidates than fit some names are left out."""

TENSOR_STATES = {
    "same": COLOURS["bitwise"],
    "another form": COLOURS["rounding"],
    _FIRST: COLOURS["different"],
}


def search_chart(finding: SearchFinding) -> dict[str, Any]:
    """Draw candidates from top to bottom, points from left to right: what each took, and what it left."""
    labels = [OUTCOME, *_labels(finding.candidates)]
    trials = [str(trial.number) for trial in finding.trials]
    x = alt.X("trial:O", title="point, in the order tried", sort=trials, axis=alt.Axis(labelAngle=0))
    axis = alt.Axis(labelLimit=180, labelOverlap="greedy")
    y = alt.Y("candidate:O", title=None, sort=labels, axis=axis).scale(domain=labels)
    x, layers = x.scale(domain=trials), []
    left = [
        {"trial": str(trial.number), "candidate": label}
        for trial in finding.trials
        for first, last in trial.left or ()
        for label in labels[first + 1 : last + 2]
    ]
    if left:
        bands = alt.Chart(_data(left)).mark_rect(opacity=0.22, color=COLOURS["refused"])
        layers.append(bands.encode(x=x, y=y))
    causes = [{"candidate": labels[place + 1]} for place in culprit_places(finding)] if finding.found else []
    if causes:
        rule = alt.Chart(_data(causes)).mark_rule(color=COLOURS["different"], strokeDash=[5, 3], strokeWidth=1.5)
        layers.append(rule.encode(y=y, tooltip="candidate:N"))
    # Each outcome stands once more in the first line: a point may take nothing.
    taken = [
        {
            "trial": str(trial.number),
            "candidate": labels[place + 1],
            "outcome": trial.outcome,
            "point": trial.point,
            "seen": trial.detail,
        }
        for trial in finding.trials
        for place in (-1, *trial.taken)
    ]
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("point", "outcome", "seen")]
    marks = alt.Chart(_data(taken)).mark_point(filled=True, size=70, opacity=1)
    layers.append(marks.encode(x=x, y=y, tooltip=tooltip, **_outcome(finding)))
    return spec(alt.layer(*layers), height=min(18 * len(labels) + 20, TALLEST))


def _labels(candidates: Sequence[str]) -> list[str]:
    """Return the names of candidates; numbered where two are equal, or one is that of the first line."""
    if len(set(candidates) - {OUTCOME}) == len(candidates):
        return list(candidates)
    return [f"{number + 1}  {name}" for number, name in enumerate(candidates)]


def culprit_places(finding: SearchFinding) -> list[int]:
    """Return the positions of the candidates that are part of a cause."""
    names = {name for culprits in finding.culprits for name in culprits}
    return [
        place
        for place, candidate in enumerate(finding.candidates)
        # A commit is listed as its short hash and subject, and is a culprit by its whole hash.
        if candidate in names or any(name.startswith(candidate.partition(" ")[0]) for name in names if len(name) == 40)
    ]


def sizes_chart(finding: SearchFinding) -> dict[str, Any]:
    """Draw how large each point was beside the first, in devices and in the product of all sizes."""
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
    x = alt.X("trial:O", title="point, in the order tried", sort=trials, axis=alt.Axis(labelAngle=0))
    y = alt.Y("share:Q", title="size beside the first point", scale=alt.Scale(type="log"))
    y = y.axis(alt.Axis(format="~g", tickCount=4, grid=False))
    points = alt.Chart(_data(rows)).mark_point(filled=True, size=70, opacity=1)
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("point", "outcome", "seen")]
    layers = [points.encode(x=x, y=y, tooltip=tooltip, **_outcome(finding))]
    if lines:
        line = alt.Chart(_data(lines)).mark_line(interpolate="step-after", color=COLOURS["different"], opacity=0.5)
        layers.insert(0, line.encode(x=x, y=y))
    return spec(alt.layer(*layers), height=220)


def _volume(trial: TriedPoint) -> int:
    """Return devices times all sizes of a point."""
    return math.prod(max(size, 1) for size in trial.measures.values())


def tensors_chart(tensors: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Draw a stripe for each value of the variant, in the order of computation."""
    rows = [
        {"number": number, "end": number + 1, "state": seen, "value": value}
        for number, (_, value, _, _, seen) in enumerate(tensors)
    ]
    colour = alt.Color("state:N", title=None, legend=alt.Legend(orient="top"))
    colour = colour.scale(domain=[*TENSOR_STATES], range=[*TENSOR_STATES.values()])
    x = alt.X("number:Q", title="value of the variant, in the order of computation")
    x = x.scale(domain=[0, len(rows)], nice=False).axis(alt.Axis(tickMinStep=1, format="d", grid=False))
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("value", "state")]
    chart = alt.Chart(_data(rows)).mark_rect()
    return spec(chart.encode(x=x, x2="end:Q", color=colour, tooltip=tooltip), height=40)


def _outcome(finding: SearchFinding) -> dict[str, Any]:
    """Return colour and shape by outcome, with one legend of those that there are."""
    seen = {trial.outcome for trial in finding.trials}
    names = [name for name in OUTCOMES if name in seen]
    legend = alt.Legend(orient="top", columns=3)  # four do not fit beside each other on a phone
    return {
        "color": alt.Color("outcome:N", title=None, legend=legend).scale(
            domain=names, range=[OUTCOMES[name][0] for name in names]
        ),
        "shape": alt.Shape("outcome:N", title=None, legend=legend).scale(
            domain=names, range=[OUTCOMES[name][1] for name in names]
        ),
    }


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.InlineData(values=[dict(row) for row in rows])
