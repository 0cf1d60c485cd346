"""The report of `samebits audit defaults`: the document, the table and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from samebits.audit.defaults.compare import Agreement
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.markdown_fit import escaped, joined, markdown_table
from samebits.report.tables import line, show_table
from samebits.report.words import plural

HEADS = ["key", "differs in", "first", "second"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultsDocument:
    """Everything that `samebits audit defaults` found.

    Args:
        first, second: the sources as they were given.
        results: the keys, counted and judged.
    """

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["defaults"] = "defaults"
    first: str
    second: str
    results: Agreement
    written: Written | None = None


def closing(document: DefaultsDocument) -> str:
    """One sentence."""
    agreement = document.results
    begin = (
        f"{document.first} against {document.second}: {plural(agreement.keys, 'key')}, {agreement.compared} compared"
    )
    begin += f", {plural(len(agreement.required), 'key')} without a default" if agreement.required else ""
    begin += f", {len(agreement.ignored)} ignored" if agreement.ignored else ""
    bad = len(agreement.disagreements)
    return f"{begin}; {plural(bad, 'disagreement') if bad else 'all agree in name, type and value'}"


def disagreement_rows(document: DefaultsDocument) -> list[list[str]]:
    """The key, the kind and both defaults of each disagreement."""
    kinds = {"missing": "missing in one", "type": "type", "value": "value"}
    return [
        [
            disagreement.key,
            kinds[disagreement.kind],
            disagreement.first or "(no such key)",
            disagreement.second or "(no such key)",
        ]
        for disagreement in document.results.disagreements
    ]


def show_defaults(to: Console, document: DefaultsDocument) -> None:
    """The disagreements, and one sentence."""
    rows = disagreement_rows(document)
    if rows:
        show_table(to, HEADS, rows)
    line(to, closing(document), "bold red" if rows else "bold green")


def defaults_markdown(document: DefaultsDocument) -> str:
    """The same for a pull request."""
    parts = [
        f"### samebits audit defaults: {'differ' if document.results.disagreements else 'agree'}",
        escaped(closing(document)),
    ]
    rows = disagreement_rows(document)
    return joined([*parts, markdown_table(HEADS, rows)] if rows else parts)
