"""A check on one screen: failures by cause first in the budget of lines, and of the rest as much as still fits.

Each section has a full form and shorter ones. The full forms are used where they fit; then notes, accepted rounding and
the rows of the pairs are shortened, in this order. Failures are explained up to a number of lines, and then counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console

from samebits.report.causes.cause import Cause
from samebits.report.document import Document
from samebits.report.failure import point_block, shown_example
from samebits.report.screen import LINES, cut, height, height_of
from samebits.report.shake import show_shake
from samebits.report.tables import line
from samebits.report.tally import accepted
from samebits.report.terminal_rows import note_lines, show_accepted, show_notes, show_pairs
from samebits.report.words import plural, verdict_counts

TITLES = 4
NOTES = 3
_WHOLE = 26
"""Lines of a single failing point that are shown as they are."""

_HINT = "--verbose prints every row, note and failure"

_Section = Callable[[Console, Document], None]


def show_screen(to: Console, document: Document, causes: Sequence[Cause], *, reserved: int = 0) -> None:
    """What fits on one screen.

    Args:
        to: where it is printed.
        document: of a check.
        causes: of its failures.
        reserved: lines that follow.
    """
    left = LINES - reserved - 1  # the hint
    shortest = _height_of(_FORMS[-1], to.width, document)
    failures = cause_lines(causes, to.width, left - shortest)
    forms = _fitting(to, document, left - sum(height(text, to.width) for text, _ in failures))
    for form in forms:
        form(to, document)
    for text, style in failures:
        line(to, text, style)
    if forms != _FORMS[0]:
        line(to, _HINT, "dim")


def cause_lines(causes: Sequence[Cause], width: int, most: int) -> list[tuple[str, str]]:
    """The groups of failures as lines with their styles, the first ones explained and the rest counted.

    Args:
        causes: gravest first; the first one is explained in any case.
        width: columns of the terminal.
        most: lines.
    """
    lines: list[tuple[str, str]] = []
    used = 0
    for place, cause in enumerate(causes):
        block = _block(cause, width, alone=len(causes) == 1)
        tall = sum(height(text, width) for text, _ in block)
        rest = sum(height(text, width) for text, _ in _rest(causes[place + 1 :], width))
        if place and used + tall + rest > most:
            return lines + _rest(causes[place:], width)
        lines += block
        used += tall
    return lines


def _block(cause: Cause, width: int, *, alone: bool) -> list[tuple[str, str]]:
    """One cause: whose, what it is, where, an example, and what to run."""
    points = {(r.case, r.dtype, r.mesh, r.mode, r.direction) for r in cause.results}
    first, *rest = point_block(cause.results)
    if alone and len(points) == 1 and sum(height(text, width) for text in rest) <= _WHOLE:
        # An error is its own explanation.
        likely = [] if cause.kind == "error" else [f"  likely    {cut(cause.likely, 2 * width - 12)}"]
        texts = [f"FAILED  {first}", *likely, *rest]
    else:
        head = "; ".join([cause.title, *cause.only])
        place, *values = shown_example(cause.example)
        texts = [
            cut(f"FAILED  {head}", width),
            f"  likely    {cut(cause.likely, 2 * width - 12)}",
            f"  where     {cut(cause.where, width - 12)}",
            f"  example   {cut(place, 2 * width - 12)}",
            *(f"            {cut(value, 2 * width - 12)}" for value in values),
        ]
        if cause.next_command is not None:
            texts.append(f"  next      {cause.next_command}")
    return [(text, "" if place else "bold red") for place, text in enumerate(texts)] + [("", "")]


def _rest(causes: Sequence[Cause], width: int) -> list[tuple[str, str]]:
    if not causes:
        return []
    lines = [(cut(f"FAILED  {cause.title}", width), "bold red") for cause in causes[:TITLES]]
    if len(causes) > TITLES:
        more = causes[TITLES:]
        count = sum(len(cause.results) for cause in more)
        text = f"{plural(len(more), 'more group')} with {plural(count, 'failing result')}"
        lines.append((cut(text, width), "bold red"))
    return [*lines, ("", "")]


def _fitting(to: Console, document: Document, left: int) -> tuple[_Section, ...]:
    """The longest forms of the sections that together take no more than so many lines; else the shortest."""
    return next((forms for forms in _FORMS if _height_of(forms, to.width, document) <= left), _FORMS[-1])


def _height_of(forms: Sequence[_Section], width: int, document: Document) -> int:
    def shown(to: Console) -> None:
        for form in forms:
            form(to, document)

    return height_of(shown, width)


def _shake(to: Console, document: Document) -> None:
    if document.shake is not None:
        show_shake(to, document.shake, document.results)


def _few_notes(to: Console, document: Document) -> None:
    notes = note_lines(document)
    for text in notes[:NOTES]:
        line(to, cut(f"note: {text}", 2 * to.width))
    if len(notes) > NOTES:
        line(to, f"and {plural(len(notes) - NOTES, 'more note')}")
    if notes or accepted(document.results):
        line(to)


def _few_accepted(to: Console, document: Document) -> None:
    pairs = Counter(group.pair for group in accepted(document.results))
    if pairs:
        line(to, cut(f"only rounding, accepted by contract, in {', '.join(pairs)}", to.width), "yellow")


def _pair_lines(to: Console, document: Document) -> None:
    """A line per pair."""
    wide = max((len(head.pair) for head in document.pairs), default=0)
    for head in document.pairs:
        counts = Counter(result.verdict for result in document.results if result.pair == head.pair)
        failed = sum(result.failed for result in document.results if result.pair == head.pair)
        text = f"{head.pair:<{wide}}  {verdict_counts(counts) or 'nothing'}"
        line(to, cut(text + (f"; {failed} fail" if failed else ""), to.width), "bold red" if failed else "")
    line(to)


def _pair_names(to: Console, document: Document) -> None:
    """The names of the pairs that hold, on a few lines; of a run that was interrupted, those that have no failure."""
    failing = {result.pair for result in document.results if result.failed}
    failing |= {problem.pair for problem in document.problems}
    holding = [
        head.pair
        for head in document.pairs
        if head.pair not in failing and any(r.pair == head.pair and r.verdict != "skipped" for r in document.results)
    ]
    if holding:
        count = plural(len(holding), "pair")
        # What of them did not run may differ.
        text, style = f"{count} hold{'s' if len(holding) == 1 else ''}", "green"
        if document.summary.interrupted:
            text, style = f"{count} without a failure so far", "yellow"
        line(to, cut(f"{text}: {', '.join(holding)}", 4 * to.width), style)
        line(to)


_FORMS: tuple[tuple[_Section, ...], ...] = (
    (show_pairs, show_accepted, _shake, show_notes),
    (show_pairs, show_accepted, _shake, _few_notes),
    (show_pairs, _few_accepted, _shake, _few_notes),
    (_pair_lines, _few_accepted, _shake, _few_notes),
    (_pair_names, _few_accepted, _shake, _few_notes),
    (_pair_names, _few_accepted, _few_notes),
)
"""Of each section one form, the longest first."""
