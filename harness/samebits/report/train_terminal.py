"""The report of `samebits train` in a terminal."""

from __future__ import annotations

from rich.console import Console

from samebits.report.tables import WIDTH, line, show_table
from samebits.report.train import (
    PAIRING_HEADS,
    TrainDocument,
    closing,
    cluster_lines,
    detection_table,
    envelope_lines,
    exit_code,
    expectation_lines,
    pairing_table,
    run_table,
)


def show_trained(to: Console, document: TrainDocument) -> None:
    """The tables of a document and what is said below them."""
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    line(to)
    if document.results:
        steps = len(document.results[0].steps)
        line(to, f"{document.matrix}: {document.about}; after step {steps}, {document.results[0].dtype}", "bold")
        show_table(to, *run_table(document))
    for text in cluster_lines(document):
        line(to, f"  {text}", "dim")
    if document.comparisons:
        line(to)
        line(to, "compared", "bold")
        show_table(to, PAIRING_HEADS, pairing_table(document))
    for text in envelope_lines(document):
        line(to, text, "dim")
    for text in expectation_lines(document):
        line(to, text, "bold red" if "; expected" in text else "yellow")
    if document.detection is not None:
        line(to)
        line(to, "planted one at a time: which gate sees it", "bold")
        show_table(to, *detection_table(document.detection))
    for note in document.notes:
        line(to, note, "yellow")
    for problem in document.problems:
        line(to, f"could not run {problem.pair}: {problem.message}", "bold red")
    line(to, closing(document), "bold green" if exit_code(document) == 0 else "bold red")
