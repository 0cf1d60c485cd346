"""The section of a report on `check --shake`: a row per compiler option, a line per leaf whose bits it changes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.report.words import plural
from samebits.schema.result import Result
from samebits.schema.shake_summary import COUNTED, ShakeSummary


def moved_leaves(results: Sequence[Result]) -> list[str]:
    """A line for each leaf and option that changes its bits, results of other cases and meshes taken together."""
    results_by_leaf: dict[tuple[str, ...], list[tuple[Result, int]]] = {}
    for result in results:
        for shaken in result.shaken:
            if shaken.outcome in ("fragile", "broken"):
                key = (f"{result.pair}/{result.variant}", result.direction, result.leaf, shaken.outcome, shaken.option)
                results_by_leaf.setdefault(key, []).append((result, shaken.mismatches))
    lines = []
    for (side, direction, leaf, outcome, option), differing in results_by_leaf.items():
        worst, count = max(differing, key=lambda pair: pair[1])
        more = f", and {plural(len(differing) - 1, 'more result')}" if len(differing) > 1 else ""
        where = f"case {worst.case}, {worst.dtype}, mesh {worst.mesh}"
        what = "bits differ" if outcome == "fragile" else "the contract breaks"
        extent = f"{count} of {worst.elements} ({where}{more})"
        lines.append(f"{side}, {direction}, {leaf}: {outcome}: {what} under {option}: {extent}")
    return lines


def show_shake(to: Console, shake: ShakeSummary, results: Sequence[Result]) -> None:
    """The section of a check's report."""
    counts = ", ".join(f"{name} {count}" for name, count in shake.leaves.items()) or "none"
    _line(to, f"Shaken, of the leaves whose bits are equal as usual: {counts}", "bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("compiler option", *COUNTED, "reference's own bits moved"):
        table.add_column(name, justify="left" if name == "compiler option" else "right", no_wrap=True)
    for row in shake.options:
        cells = [str(row.outcomes.get(name, "")) for name in COUNTED]
        moved = str(row.reference_moved or "") if row.effect else "no effect here: no evidence"
        table.add_row(row.option, *cells, moved, style="" if row.effect else "dim")
    to.print(Padding(table, (0, 0, 0, 2), expand=False))
    for line in moved_leaves(results):
        _line(to, f"  {line}", "yellow")
    for name, why in shake.not_accepted.items():
        _line(to, f"  {name}: not accepted here: {why}", "dim")
    if shake.left_out:
        _line(to, f"  left out, for they move more than rounding: {', '.join(shake.left_out)}", "dim")
    _line(to)


def _line(to: Console, text: str = "", style: str | None = None) -> None:
    to.print(Text(text, style or ""), soft_wrap=True)
