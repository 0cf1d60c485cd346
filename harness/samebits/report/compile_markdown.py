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
from samebits.report.markdown import table, words

_STATES = {0: "as declared", 1: "not as declared", 2: "incomplete", 3: "incomplete"}


def compiled_markdown(document: CompileDocument) -> str:
    """The document as Markdown: result, environment, a table per case, target and direction, claims, problems."""
    parts = [f"### samebits compile: {_STATES[exit_code(document)]}", words(closing(document))]
    versions = document.environment.versions
    parts.append(words(f"jax {versions['jax']}, jaxlib {versions['jaxlib']}, libtpu {versions['libtpu'] or 'none'}"))
    for block in blocks(document):
        parts += [f"#### {words(block.title)}", table(*block.table())]
        lines = [verdict_line(one) for one in block.comparisons if one.variant != one.reference]
        lines += [claim_line(one.variant, judged) for one in block.comparisons for judged in one.expectations]
        lines += [effect_line(one) for one in block.effects]
        if lines:
            parts.append("\n".join(f"- {words(line)}" for line in lines))
    if document.results:
        parts.append(words(EXPLAINED))
    others = [f"problem: pair '{problem.pair}': {problem.message}" for problem in document.problems]
    others += document.notes
    if others:
        parts.append("\n".join(f"- {words(line)}" for line in others))
    return "\n\n".join(parts) + "\n"
