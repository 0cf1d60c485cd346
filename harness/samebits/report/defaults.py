"""The document of `samebits audit defaults`, and its page: the keys on which two sources disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samebits.audit.defaults.compare import Agreement
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.page import Fold, Lines, Page, Table
from samebits.report.words import plural


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultsDocument:
    """Everything that `samebits audit defaults` found.

    Args:
        first, second: the sources as they were given.
        results: the keys, counted and judged.
    """

    schema: Literal["samebits/2"] = SCHEMA
    command: Literal["defaults"] = "defaults"
    first: str
    second: str
    results: Agreement
    written: Written | None = None

    @property
    def exit_code(self) -> int:
        """1 where they disagree."""
        return 1 if self.results.disagreements else 0

    def page(self) -> Page:
        """Return what is shown."""
        return defaults_page(self)


def defaults_page(document: DefaultsDocument) -> Page:
    """Return the keys on which the sources disagree, then those that were not compared."""
    agreement = document.results
    rows = disagreement_rows(document)
    table = Table(
        heads=("key", "differs in", document.first, document.second),
        rows=rows,
        caption="Keys on which both sources disagree",
    )
    others = (("Keys without a default in one source", agreement.required), ("Ignored keys", agreement.ignored))
    folds = [
        Fold(title=f"{name} ({len(keys)})", blocks=[Lines(lines=[", ".join(keys)], listed=False, indent=2)])
        for name, keys in others
        if keys
    ]
    return Page(
        command="defaults",
        state="failed" if rows else "passed",
        word="differ" if rows else "agree",
        closing=closing(document),
        headline=_headline(document, rows) if rows else "",
        blocks=[table, *folds],
    )


def _headline(document: DefaultsDocument, rows: list[list[str]]) -> str:
    """Name the first key on which they disagree."""
    key, kind, first, second = rows[0]
    keys = plural(len(rows), "disagreement")
    return f"{keys} of {document.first} and {document.second}; first '{key}' ({kind}): {first} against {second}"


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
