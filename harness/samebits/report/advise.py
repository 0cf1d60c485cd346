"""The document of `samebits audit advise`, and its page: the tables, the sentences, the figures used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from samebits.audit.guide.advice import Advice
from samebits.audit.guide.chips import Chip
from samebits.audit.guide.intensity import BlockTraffic
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.html.charts import COLOURS, alt, spec
from samebits.report.page import Badge, Chart, Fold, Line, Lines, Page, Table
from samebits.report.words import state_of, state_word
from samebits.schema.finding import Finding, Place

HEADS = ["parallelism", "over", "communicates", "formula", "intensity", "needs", "dimension", "has", "wants", "verdict"]
BLOCK_HEADS = ["parallelism", "GFLOP", "comm MB", "compute us", "communication us", "intensity", "wants", "verdict"]
TRAFFIC_HEADS = ["target", "predicted", "predicted MB", "compiled MB", "ratio", "collectives"]


CLOSE = 0.02
"""How far the communication volume may be from the prediction before it is a finding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdviseDocument(CommandDocument):
    """Everything that `samebits audit advise` found.

    Args:
        model, target, mesh, batch, seq, dtype: what was asked.
        layers_per_stage: layers of one pipeline stage.
        dimensions: of the model, with their source.
        figures: of the chip as published, each with its source; null where nothing is published.
        derived: per device, made of them: peak, memory, one link one way, a ring over one axis, die to die.
        results: one per parallelism, and memory.
        compiled: the MLP block as the TPU compiler made it; null without `--compile`.
        assumes: what the verdicts take for granted.
        findings: where the guide's rule and the exact count say different things, and what the compiler does.
        exit_code: 0: all compute-bound; 1: something is bound by what it moves; 3: a figure is not published.
    """

    command: Literal["advise"] = "advise"
    model: str
    target: str
    mesh: str
    batch: int
    seq: int
    dtype: str
    layers_per_stage: int
    dimensions: Mapping[str, int | str]
    figures: Mapping[str, Mapping[str, float | str] | None]
    derived: Mapping[str, float | None]
    results: tuple[Advice, ...]
    compiled: BlockTraffic | None
    assumes: tuple[str, ...]
    findings: tuple[str, ...]
    exit_code: int

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for advice in self.results:
            place = Place(pair=self.model, mesh=self.mesh, target=self.target, item=advice.axis)
            needs = "" if advice.needed is None or math.isinf(advice.needed) else f", needs {advice.needed:g}"
            evidence, bound = f"intensity {advice.intensity:g}{needs}", advice.verdict == "compute-bound"
            yield judged("advise", place, advice.verdict, ok=bound, evidence=evidence)

    def page(self) -> Page:
        """Return what each parallelism has and wants, then the figures used."""
        results = self.results
        rules = Table(
            heads=HEADS,
            rows=[[*cells, _BADGES[row.verdict]] for row, cells in zip(results, rule_rows(results), strict=True)],
            caption="By the rules of the guide",
            bad=[number for number, row in enumerate(results) if _bound(row)],
            right=("intensity", "needs", "has", "wants"),
        )
        blocks = Table(
            heads=BLOCK_HEADS,
            rows=block_rows(results),
            title="The whole block of one layer, counted exactly, per device",
            right=BLOCK_HEADS[1:-1],
        )
        traffic = Table(
            heads=TRAFFIC_HEADS,
            rows=[] if self.compiled is None else traffic_rows(self.compiled),
            title="The MLP's forward as the TPU compiler made it, beside the prediction",
            right=("predicted MB", "compiled MB"),
        )
        said = [
            Line(sentence(row, self.model), _BADGES[row.verdict].tone, _BADGES[row.verdict].sign) for row in results
        ]
        remarks = [Line(f"finding: {text}", "warn") for text in self.findings]
        return Page(
            command="advise",
            state=state_of(self.exit_code),
            word=state_word(self.exit_code, "compute-bound", "bound by what it moves"),
            closing=_closing(self),
            title=f"advise {self.model} on {self.target}",
            blocks=[
                Lines(lines=[Line(head(self), "strong")], listed=False),
                rules,
                *_chart(results),
                blocks,
                traffic,
                Lines(lines=["", *remarks, *said]),
                Fold(title="Published figures, with their sources", blocks=[Lines(lines=figure_lines(self), indent=2)]),
                Fold(title="What the verdicts assume", blocks=[Lines(lines=self.assumes, indent=2)]),
            ],
        )


def figures(chip: Chip, dtype: str) -> dict[str, dict[str, float | str] | None]:
    """Return the published figures of a chip that the advice uses."""
    published = {
        f"peak {dtype}, FLOP/s": chip.peak[dtype],
        "HBM, bytes/s": chip.hbm,
        "ICI, both directions, bytes/s": chip.ici,
        "ICI axes": chip.torus,
        "devices per chip": chip.devices,
    }
    if chip.devices.value > 1:
        published["die to die, ICI links"] = chip.d2d_links
    return {
        name: None if figure is None else {"value": figure.value, "source": figure.source}
        for name, figure in published.items()
    }


def derived(chip: Chip, dtype: str) -> dict[str, float | None]:
    """Return what follows from them for one device."""
    return {
        "peak": chip.device_peak(dtype),
        "memory": chip.device_hbm(),
        "link": chip.device_link(),
        "ring": chip.device_ring(),
        "die_to_die": chip.d2d,
    }


def exit_code(results: tuple[Advice, ...]) -> int:
    """1: something is bound by what it moves; 3: a figure is missing; 0: all is bound by compute."""
    verdicts = {advice.verdict for advice in results}
    if verdicts & {"communication-bound", "memory-bound"}:
        return 1
    return 3 if "unknown" in verdicts else 0


def findings(results: tuple[Advice, ...], traffic: BlockTraffic | None) -> tuple[str, ...]:
    """Return what deserves a sentence: rule against exact count, and prediction against compiler."""
    sentences = []
    for advice in results:
        if advice.split and advice.block is not None and advice.block.wants is not None:
            sentences.append(
                f"{label(advice)}: the guide's rule says {advice.verdict}; the whole block, with (n-1)/n of a ring and "
                f"collectives that matmuls share, wants {advice.dimension} above {number(advice.block.wants)} and is "
                f"{advice.block.verdict}, if all of it overlaps"
            )
    if traffic is None or traffic.ratio is None:
        unread = traffic is not None and traffic.wire_bytes is None
        return (
            (*sentences, "the communication volume of the compiled collectives could not be read from the program")
            if unread
            else tuple(sentences)
        )
    if abs(traffic.ratio - 1) > CLOSE:
        sentences.append(
            f"compiled for {traffic.target} the block communicates {traffic.ratio:.3f} x the prediction: "
            f"the compiler chose {_kinds(traffic)}"
        )
    for advice in results:
        # With one axis alone, the whole communication volume belongs to it.
        if traffic.intensity is not None and advice.needed is not None and list(traffic.predicted) == [advice.axis]:
            if advice.block is None or advice.block.bytes != traffic.predicted_bytes:
                continue
            bound = "compute-bound" if traffic.intensity > advice.needed else "communication-bound"
            sentences.append(
                f"{label(advice)} with the bytes that the compiled program communicates: "
                f"intensity {number(traffic.intensity)}, {number(advice.needed)} needed: {bound}"
            )
    return tuple(sentences)


def sentence(advice: Advice, model: str) -> str:
    """Return one verdict in words."""
    if advice.verdict == "unknown":
        return f"{label(advice)}: unknown, a figure of the chip is not published"
    if advice.wants is None:
        return f"{label(advice)}: no number of {advice.dimension} is enough: {advice.verdict}"
    wants = f"{label(advice)} wants {advice.dimension} above {number(advice.wants)}"
    return f"{wants}; {model} has {number(advice.has)}: {advice.verdict}"


def label(advice: Advice) -> str:
    """Return a parallelism with its degree."""
    return advice.axis if advice.axis == "memory" else f"{advice.axis} {advice.size}"


def number(value: float | None) -> str:
    """Return an integer with a space between thousands; `unknown` for None."""
    return "unknown" if value is None else f"{value:,.0f}".replace(",", " ")


def rule_rows(results: tuple[Advice, ...]) -> list[list[str]]:
    """Return the guide's rules."""
    return [
        [
            label(advice),
            advice.over,
            advice.sends,
            advice.formula,
            number(advice.intensity),
            number(advice.needed),
            advice.dimension,
            number(advice.has),
            number(advice.wants) if advice.wants is not None or advice.verdict == "unknown" else "more than any",
        ]
        for advice in results
    ]


def block_rows(results: tuple[Advice, ...]) -> list[list[str]]:
    """Return the whole blocks."""
    return [
        [
            f"{label(advice)}, {advice.sends.partition(',')[0]}",
            number(advice.block.flops / 1e9),
            _scaled(advice.block.bytes, 1e-6),
            _scaled(advice.block.compute_seconds, 1e6),
            _scaled(advice.block.communication_seconds, 1e6),
            number(advice.block.intensity),
            number(advice.block.wants),
            advice.block.verdict,
        ]
        for advice in results
        if advice.block is not None
    ]


def traffic_rows(traffic: BlockTraffic) -> list[list[str]]:
    """Return the compiled block beside its prediction."""
    return [
        [
            f"{traffic.target}, libtpu {traffic.compiler}",
            ", ".join(f"{axis} {_scaled(value, 1e-6)}" for axis, value in traffic.predicted.items()) or "nothing",
            _scaled(traffic.predicted_bytes, 1e-6),
            _scaled(traffic.wire_bytes, 1e-6),
            "unknown" if traffic.ratio is None else f"{traffic.ratio:.3f}",
            _kinds(traffic),
        ]
    ]


def _kinds(traffic: BlockTraffic) -> str:
    return ", ".join(f"{name} {count}" for name, count in traffic.collectives.items()) or "none"


def _scaled(value: float | None, scale: float) -> str:
    return "unknown" if value is None else f"{value * scale:,.1f}".replace(",", " ")


def head(document: AdviseDocument) -> str:
    """Return what was asked, in one line."""
    return (
        f"advise {document.model} on {document.target}, mesh {document.mesh}: batch {document.batch} x "
        f"{number(document.seq)} tokens, {document.dtype}"
    )


def figure_lines(document: AdviseDocument) -> list[str]:
    """Return the figures used, each with its source."""
    lines = [
        f"{name}: {figure['value']:.6g} ({figure['source']})" if figure else f"{name}: not published"
        for name, figure in document.figures.items()
    ]
    return [*lines, f"model: {document.dimensions['source']}"]


_BADGES = {
    "compute-bound": Badge(text="compute-bound", sign="✓", tone="good"),
    "communication-bound": Badge(text="communication-bound", sign="✗", tone="bad"),
    "memory-bound": Badge(text="memory-bound", sign="✗", tone="bad"),
    "unknown": Badge(text="unknown", sign="!", tone="warn"),
}

_LABEL = (
    "What each parallelism has, as a multiple of what it wants: left of the dashed line it is bound by what it moves. "
    "The table has the same numbers."
)


def _bound(row: Advice) -> bool:
    return row.verdict in ("communication-bound", "memory-bound")


def _closing(document: AdviseDocument) -> str:
    """Name what is bound by what it moves, or what is not known."""
    results = document.results
    chosen = [row for row in results if _bound(row)] or [row for row in results if row.verdict == "unknown"]
    begin = f"{document.model} on {document.target}, mesh {document.mesh}"
    if not chosen:
        return f"{begin}: all of it is compute-bound"
    what = "bound by what it moves" if _bound(chosen[0]) else "unknown"
    rules = "1 rule" if len(results) == 1 else f"{len(results)} rules"
    return f"{begin}: {len(chosen)} of {rules} {what}; {sentence(chosen[0], document.model)}"


def _chart(results: Sequence[Advice]) -> list[Chart]:
    rows = [
        {"parallelism": label(advice), "times": advice.has / advice.wants, "verdict": advice.verdict}
        for advice in results
        if advice.wants and advice.has > 0
    ]
    return [Chart(name="margins", label=_LABEL, draw=lambda: _drawn(rows))] if rows else []


def _drawn(rows: Sequence[Mapping[str, object]]) -> Mapping[str, Any]:
    names = [str(row["parallelism"]) for row in rows]
    scale = alt.Scale(type="log")
    x = alt.X("times:Q", title="has, as a multiple of what it wants", scale=scale, axis=alt.Axis(format="~g"))
    verdicts = ["compute-bound", "communication-bound", "memory-bound"]
    colours = [COLOURS["bitwise"], COLOURS["different"], COLOURS["error"]]
    legend = alt.Legend(orient="top")
    points = alt.Chart(alt.InlineData(values=rows)).mark_point(filled=True, size=110, opacity=1)
    points = points.encode(
        x=x,
        y=alt.Y("parallelism:N", title=None, sort=names, axis=alt.Axis(labelLimit=140)),
        color=alt.Color("verdict:N", title=None, legend=legend).scale(domain=verdicts, range=colours),
        shape=alt.Shape("verdict:N", title=None, legend=legend).scale(
            domain=verdicts, range=["circle", "cross", "triangle-up"]
        ),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("parallelism", "times", "verdict")],
    )
    enough = alt.Chart(alt.InlineData(values=[{"times": 1}])).mark_rule(strokeDash=[4, 3]).encode(x=x)
    return spec(alt.layer(enough, points), height=max(80, 30 * len(rows)))
