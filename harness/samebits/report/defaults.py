"""What `samebits defaults` says: the document, and how a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from samebits.audit.defaults.compare import Agreement
from samebits.report.document import SCHEMA
from samebits.report.markdown import table, words
from samebits.report.tables import line, show_table
from samebits.report.words import plural

HEADS = ["key", "differs in", "first", "second"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultsDocument:
    """Everything that `samebits defaults` found.

    Args:
        first, second: the sources as they were given.
        results: the keys, counted and judged.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["defaults"] = "defaults"
    first: str
    second: str
    results: Agreement


def closing(document: DefaultsDocument) -> str:
    """One sentence."""
    found = document.results
    begin = f"{document.first} against {document.second}: {plural(found.keys, 'key')}, {found.compared} compared"
    begin += f", {plural(len(found.required), 'key')} without a default" if found.required else ""
    begin += f", {len(found.ignored)} ignored" if found.ignored else ""
    bad = len(found.disagreements)
    return f"{begin}; {plural(bad, 'disagreement') if bad else 'all agree in name, type and value'}"


def _rows(document: DefaultsDocument) -> list[list[str]]:
    kinds = {"missing": "missing in one", "type": "type", "value": "value"}
    return [
        [one.key, kinds[one.kind], one.first or "(no such key)", one.second or "(no such key)"]
        for one in document.results.disagreements
    ]


def show_defaults(to: Console, document: DefaultsDocument) -> None:
    """The disagreements, and one sentence."""
    rows = _rows(document)
    if rows:
        show_table(to, HEADS, rows)
    line(to, closing(document), "bold red" if rows else "bold green")


def defaults_markdown(document: DefaultsDocument) -> str:
    """The same for a pull request."""
    parts = [
        f"### samebits defaults: {'differ' if document.results.disagreements else 'agree'}",
        words(closing(document)),
    ]
    rows = _rows(document)
    return "\n\n".join([*parts, table(HEADS, rows)] if rows else parts) + "\n"
