"""Which section shows the document of a command, one line for each kind of document; and pages of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from samebits.errors import RequestError
from samebits.report.advise import AdviseDocument
from samebits.report.bisect import BisectDocument
from samebits.report.cache import CacheDocument
from samebits.report.changes.diff_records import DiffDocument
from samebits.report.claims import ClaimsDocument
from samebits.report.compile import CompileDocument
from samebits.report.compile_model import StepsDocument
from samebits.report.defaults import DefaultsDocument
from samebits.report.document import Document
from samebits.report.faults import FaultTable
from samebits.report.golden import GoldenDocument
from samebits.report.html.accept_section import accept_section
from samebits.report.html.advise_section import advise_section
from samebits.report.html.bisect_section import bisect_section
from samebits.report.html.cache_section import cache_section
from samebits.report.html.check_section import check_section
from samebits.report.html.claims_section import claims_section
from samebits.report.html.compile_model_section import compile_model_section
from samebits.report.html.compile_section import compile_section
from samebits.report.html.defaults_section import defaults_section
from samebits.report.html.diff_section import diff_section
from samebits.report.html.faults_section import faults_section
from samebits.report.html.golden_section import golden_section
from samebits.report.html.list_section import list_section
from samebits.report.html.page import html_page
from samebits.report.html.prove_model_section import prove_model_section
from samebits.report.html.prove_section import prove_section
from samebits.report.html.section import Section
from samebits.report.html.train_section import train_section
from samebits.report.html.tune_section import tune_section
from samebits.report.list import Listing
from samebits.report.prove import ProofDocument
from samebits.report.prove_model import StepDocument
from samebits.report.snapshots import AcceptDocument
from samebits.report.train import TrainDocument
from samebits.report.tune import TuneDocument

SECTIONS: Mapping[type, Callable[[Any], Section]] = {
    Document: check_section,
    DiffDocument: diff_section,
    CompileDocument: compile_section,
    StepsDocument: compile_model_section,
    TuneDocument: tune_section,
    GoldenDocument: golden_section,
    TrainDocument: train_section,
    ProofDocument: prove_section,
    StepDocument: prove_model_section,
    BisectDocument: bisect_section,
    ClaimsDocument: claims_section,
    AdviseDocument: advise_section,
    FaultTable: faults_section,
    DefaultsDocument: defaults_section,
    CacheDocument: cache_section,
    Listing: list_section,
    AcceptDocument: accept_section,
}

_NAMED = 3
"""How many commands the title of a page names."""


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
    commands = [*dict.fromkeys(section.command for section in sections)]
    return html_page(sections, f"samebits {', '.join(commands)}" if len(commands) <= _NAMED else "samebits")
