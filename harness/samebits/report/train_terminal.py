"""The report of `samebits train` in a terminal."""

from __future__ import annotations

from rich.console import Console

from samebits.report.failing import WORST, explained, next_command
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.train import (
    PAIRING_HEADS,
    TrainDocument,
    closing,
    cluster_lines,
    detection_table,
    exit_code,
    expectation_lines,
    pairing_table,
    run_table,
    uncompared_lines,
)
from samebits.report.train_envelope import envelope_lines
from samebits.report.train_failing import failing_runs
from samebits.report.words import plural


def show_trained(to: Console, document: TrainDocument, *, verbose: bool = False) -> None:
    """The report of a matrix.

    Args:
        to: where it is printed.
        document: of the runs.
        verbose: whether every run and comparison is shown, however many there are; otherwise one screen.
    """
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    failing = failing_runs(document)
    command = next_command(failing)
    good = exit_code(document) == 0
    end: list[Styled] = [
        (f"could not run {problem.pair}: {problem.message}", "bold red") for problem in document.problems[:WORST]
    ]
    if len(document.problems) > WORST:
        end.append((f"and {plural(len(document.problems) - WORST, 'more problem')}", "bold red"))
    alone = uncompared_lines(document)
    end += [(text, "bold red") for text in alone[:WORST]]
    if len(alone) > WORST:
        end.append((f"and {plural(len(alone) - WORST, 'more run')} held against nothing", "bold red"))
    end.append((closing(document), "bold green" if good else "bold red"))
    end += [] if command is None else [(f"next: {command}", "")]
    forms: list[Form] = [_every(document)]
    if not verbose:
        few = [explained(failing, count) for count in range(min(WORST, len(failing)), 0, -1)] or [in_turn()]
        forms += [in_turn(_runs(document), _bounds(document), few[-1])]
        forms += [in_turn(_bounds(document), form) for form in few]
        forms += few
    show_fitted(to, forms, end, "--verbose prints every run and every comparison")


def _every(document: TrainDocument) -> Form:
    """All tables, and what is said below them."""

    def form(to: Console) -> None:
        _runs(document)(to)
        if document.comparisons:
            line(to)
            line(to, "compared", "bold")
            show_table(to, PAIRING_HEADS, pairing_table(document))
        _bounds(document)(to)
        for text in expectation_lines(document):
            line(to, text, "bold red" if "; expected" in text else "yellow")
        if document.detection is not None:
            line(to)
            line(to, "planted one at a time: which gate sees it", "bold")
            show_table(to, *detection_table(document.detection))
        for note in document.notes:
            line(to, note, "yellow")

    return form


def _runs(document: TrainDocument) -> Form:
    """A row for each run, and which have equal bits."""

    def form(to: Console) -> None:
        line(to)
        if document.results:
            steps = len(document.results[0].steps)
            line(to, f"{document.matrix}: {document.about}; after step {steps}, {document.results[0].dtype}", "bold")
            show_table(to, *run_table(document))
        for text in cluster_lines(document):
            line(to, f"  {text}", "dim")

    return form


def _bounds(document: TrainDocument) -> Form:
    def form(to: Console) -> None:
        for text in envelope_lines(document.envelope):
            line(to, text, "dim")

    return form
