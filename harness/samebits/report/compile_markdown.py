"""The tables of `samebits compile` for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from samebits.report.compile import (
    EXPLAINED,
    CompileDocument,
    blocks,
    claim_line,
    closing,
    effect_line,
    exit_code,
    verdict_line,
)
from samebits.report.markdown import escaped, markdown_table
from samebits.report.markdown_fit import joined

_STATES = {0: "as declared", 1: "not as declared", 2: "incomplete", 3: "incomplete"}


def compiled_markdown(document: CompileDocument, *, whole: bool = False) -> str:
    """The document as Markdown: result, environment, a table per case, target and direction, claims, problems.

    Args:
        document: of a compile.
        whole: whether everything is written, however long it is.
    """
    parts = [f"### samebits compile: {_STATES[exit_code(document)]}", escaped(closing(document))]
    versions = document.environment.versions
    parts.append(escaped(f"jax {versions['jax']}, jaxlib {versions['jaxlib']}, libtpu {versions['libtpu'] or 'none'}"))
    for block in blocks(document):
        parts += [f"#### {escaped(block.title)}", markdown_table(*block.table())]
        lines = [
            verdict_line(comparison) for comparison in block.comparisons if comparison.variant != comparison.reference
        ]
        lines += [
            claim_line(comparison.variant, judged)
            for comparison in block.comparisons
            for judged in comparison.expectations
        ]
        lines += [effect_line(effect) for effect in block.effects]
        if lines:
            parts.append("\n".join(f"- {escaped(line)}" for line in lines))
    if document.results:
        parts.append(escaped(EXPLAINED))
    others = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    others += document.notes
    if others:
        parts.append("\n".join(f"- {escaped(line)}" for line in others))
    return joined(parts, whole=whole)
