"""The report of `samebits audit advise`: the document, the tables and the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from samebits.audit.guide.advice import Advice
from samebits.audit.guide.chips import Chip
from samebits.audit.guide.communication import BlockTraffic
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.markdown_fit import joined
from samebits.report.tables import WIDTH, line, show_table

HEADS = ["parallelism", "over", "communicates", "formula", "intensity", "needs", "dimension", "has", "wants", "verdict"]
BLOCK_HEADS = ["parallelism", "GFLOP", "comm MB", "compute us", "communication us", "intensity", "wants", "verdict"]
TRAFFIC_HEADS = ["target", "predicted", "predicted MB", "compiled MB", "ratio", "collectives"]


CLOSE = 0.02
"""How far the communication volume may be from the prediction before it is a finding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdviseDocument:
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

    schema: Literal["samebits/1"] = SCHEMA
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
    written: Written | None = None


def figures(chip: Chip, dtype: str) -> dict[str, dict[str, float | str] | None]:
    """The published figures of a chip that the advice uses."""
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
    """What follows from them for one device."""
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
    """What deserves a sentence: rule against exact count, and prediction against compiler."""
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
    """One verdict in words."""
    if advice.verdict == "unknown":
        return f"{label(advice)}: unknown, a figure of the chip is not published"
    if advice.wants is None:
        return f"{label(advice)}: no number of {advice.dimension} is enough: {advice.verdict}"
    wants = f"{label(advice)} wants {advice.dimension} above {number(advice.wants)}"
    return f"{wants}; {model} has {number(advice.has)}: {advice.verdict}"


def label(advice: Advice) -> str:
    """A parallelism with its degree."""
    return advice.axis if advice.axis == "memory" else f"{advice.axis} {advice.size}"


def number(value: float | None) -> str:
    """An integer with a space between thousands; `unknown` for None."""
    return "unknown" if value is None else f"{value:,.0f}".replace(",", " ")


def rule_rows(results: tuple[Advice, ...]) -> list[list[str]]:
    """The guide's rules."""
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
            advice.verdict,
        ]
        for advice in results
    ]


def block_rows(results: tuple[Advice, ...]) -> list[list[str]]:
    """The whole blocks."""
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
    """The compiled block beside its prediction."""
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
    """What was asked, in one line."""
    return (
        f"advise {document.model} on {document.target}, mesh {document.mesh}: batch {document.batch} x "
        f"{number(document.seq)} tokens, {document.dtype}"
    )


def figure_lines(document: AdviseDocument) -> list[str]:
    """The figures used, each with its source."""
    lines = [
        f"{name}: {figure['value']:.6g} ({figure['source']})" if figure else f"{name}: not published"
        for name, figure in document.figures.items()
    ]
    return [*lines, f"model: {document.dimensions['source']}"]


def show_advised(to: Console, document: AdviseDocument) -> None:
    """The tables, then the figures with their sources, then the sentences."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to, head(document), "bold")
    show_table(to, HEADS, rule_rows(document.results))
    blocks = block_rows(document.results)
    if blocks:
        line(to)
        line(to, "the whole block of one layer, counted exactly, per device", "bold")
        show_table(to, BLOCK_HEADS, blocks)
    if document.compiled is not None:
        line(to)
        line(to, "the MLP's forward as the TPU compiler made it, beside the prediction", "bold")
        show_table(to, TRAFFIC_HEADS, traffic_rows(document.compiled))
    line(to)
    for text in figure_lines(document):
        line(to, f"  {text}", "dim")
    for text in document.assumes:
        line(to, f"  assumes {text}", "dim")
    for text in document.findings:
        line(to, f"finding: {text}", "yellow")
    for advice in document.results:
        style = {"compute-bound": "bold green", "unknown": "bold yellow"}.get(advice.verdict, "bold red")
        line(to, sentence(advice, document.model), style)


def advised_markdown(document: AdviseDocument) -> str:
    """The tables for a pull request."""
    parts = [
        f"**{head(document)}**",
        "\n".join(f"- {sentence(advice, document.model)}" for advice in document.results),
        _table(HEADS, rule_rows(document.results)),
    ]
    blocks = block_rows(document.results)
    if blocks:
        parts += ["The whole block of one layer, counted exactly, per device:", _table(BLOCK_HEADS, blocks)]
    if document.compiled is not None:
        parts += [
            "The MLP's forward as the TPU compiler made it:",
            _table(TRAFFIC_HEADS, traffic_rows(document.compiled)),
        ]
    parts.append("\n".join(f"- finding: {text}" for text in document.findings))
    parts.append("\n".join(f"- {text}" for text in figure_lines(document)))
    parts.append("\n".join(f"- assumes {text}" for text in document.assumes))
    return joined(parts)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
