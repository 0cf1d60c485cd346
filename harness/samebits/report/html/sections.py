"""Which section shows the document of a command, one line for each kind of document; and pages of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from samebits.errors import RequestError
from samebits.report.changes.diff_records import DiffDocument
from samebits.report.changes.history import HistoryDocument
from samebits.report.compile import CompileDocument
from samebits.report.compile_model import StepsDocument
from samebits.report.document import Document
from samebits.report.golden import GoldenDocument
from samebits.report.html.check_section import check_section
from samebits.report.html.compile_model_section import compile_model_section
from samebits.report.html.compile_section import compile_section
from samebits.report.html.diff_section import diff_section
from samebits.report.html.golden_section import golden_section
from samebits.report.html.history_section import history_section
from samebits.report.html.page import html_page
from samebits.report.html.section import Section
from samebits.report.html.train_section import train_section
from samebits.report.html.tune_section import tune_section
from samebits.report.train import TrainDocument
from samebits.report.tune import TuneDocument

SECTIONS: Mapping[type, Callable[[Any], Section]] = {
    Document: check_section,
    DiffDocument: diff_section,
    HistoryDocument: history_section,
    CompileDocument: compile_section,
    StepsDocument: compile_model_section,
    TuneDocument: tune_section,
    GoldenDocument: golden_section,
    TrainDocument: train_section,
}


def section_of(document: object, source: str | None = None) -> Section:
    """The section of a document of any command.

    Args:
        document: what a command found.
        source: the file that it was read from; None where there is none.

    Raises:
        RequestError: the documents of this command have no page.
    """
    if type(document) not in SECTIONS:
        command = getattr(document, "command", type(document).__name__)
        raise RequestError(f"a document of `samebits {command}` has no HTML page; --json FILE writes all of it")
    return replace(SECTIONS[type(document)](document), source=source)


def page_of(sections: Iterable[Section]) -> str:
    """One page of sections, called after their commands."""
    sections = list(sections)
    commands = ", ".join(dict.fromkeys(section.command for section in sections))
    return html_page(sections, f"samebits {commands}")
