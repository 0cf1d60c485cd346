"""Which section shows the document of a command: one line for each kind of document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from samebits.errors import RequestError
from samebits.report.document import Document
from samebits.report.html.check_section import check_section
from samebits.report.html.section import Section

SECTIONS: Mapping[type, Callable[[Any], Section]] = {
    Document: check_section,
}


def section_of(document: object) -> Section:
    """The section of a document of any command.

    Raises:
        RequestError: the documents of this command have no page.
    """
    if type(document) not in SECTIONS:
        command = getattr(document, "command", type(document).__name__)
        raise RequestError(f"a document of `samebits {command}` has no HTML page; --json FILE writes all of it")
    return SECTIONS[type(document)](document)
