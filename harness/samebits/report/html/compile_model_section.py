"""Training steps at production shapes on a page: memory and communication beside the published figures."""

from __future__ import annotations

from typing import Any

from samebits.report.compile_model import HEADS, StepsDocument, closing, exit_code, step_rows, title
from samebits.report.html.charts import BarGroup, bars, size_text
from samebits.report.html.section import Section, render
from samebits.report.words import problems_sentence, state_of

_SIZES = {
    "argument_bytes": "arguments",
    "temp_bytes": "temporary memory",
    "peak_bytes": "peak memory",
    "wire_bytes": "communication",
}


def compile_model_section(document: StepsDocument) -> Section:
    """The section of the steps of one preset.

    Args:
        document: of `samebits compile model`.
    """
    figures = _figures(document)
    charts: dict[str, Any] = {}
    if figures:
        charts["steps"] = bars(figures, _names(document))
    headline = problems_sentence(document.problems) if document.problems else closing(document)
    return Section(
        title=f"compile model {document.preset}",
        command="compile model",
        state=state_of(exit_code(document), "failed"),
        headline=headline,
        next_command=None,
        body=render(
            "compile_model.html.j2",
            document=document,
            closing=closing(document),
            headline=headline,
            title=title(document) if document.results else "",
            heads=HEADS,
            rows=step_rows(document),
            charts=charts,
        ),
        charts=charts,
        styles=("compile.css",),
    )


def _names(document: StepsDocument) -> list[str]:
    """A name of its own for each step."""
    return [f"{place} {step.config}" for place, step in enumerate(document.results, 1)]


def _figures(document: StepsDocument) -> list[BarGroup]:
    names = _names(document)
    figures = []
    for field, name in _SIZES.items():
        sizes = [getattr(step.facts, field) for step in document.results]
        figures.append(_figure(name, dict(zip(names, sizes, strict=True))))
    published = [step.published_bytes for step in document.results]
    figures.append(_figure("published peak", dict(zip(names, published, strict=True))))
    return [figure for figure in figures if any(figure.values.values())]


def _figure(name: str, values: dict[str, float | None]) -> BarGroup:
    return BarGroup(name, values, {step: size_text(size) for step, size in values.items()})
