"""A check of goldens for a pull request, in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.report.failing import failing_parts, next_command
from samebits.report.golden import CHECK_HEADS, GoldenDocument, checked_row, checked_sentence
from samebits.report.golden_screen import failing_goldens
from samebits.report.markdown import escaped, fenced, table_rows
from samebits.report.markdown_fit import Part, fitted
from samebits.train.golden.check import CheckedGolden


def checked_markdown(document: GoldenDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst failures, a row per golden."""
    results = [result for result in document.results if isinstance(result, CheckedGolden)]
    failing = failing_goldens(results)
    command = next_command(failing)
    parts: list[Part] = [f"### samebits golden check: {_state(results)}", escaped(checked_sentence(results))]
    parts += [] if command is None else [fenced([command])]
    parts += failing_parts(failing)
    if results:
        bad = [number for number, result in enumerate(results) if not result.ok]
        rows = table_rows("Goldens", CHECK_HEADS, [checked_row(result) for result in results], bad)
        parts.append(replace(rows, opened=False))
    by_evidence = [result for result in results if result.ok and result.lane == "evidence"]
    parts += [escaped(note) for note in document.notes]
    if by_evidence:
        parts.append(escaped(f"{by_evidence[0].name}: {by_evidence[0].message}"))
    return fitted(parts)


def _state(results: Sequence[CheckedGolden]) -> str:
    codes = {result.exit_code for result in results}
    return "failed" if codes & {1, 2} else "incomplete" if 3 in codes or not results else "passed"
