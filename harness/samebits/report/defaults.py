"""The document of `samebits audit defaults`, and its page: the keys on which two sources disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from samebits.audit.defaults import Agreement
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.page import Fold, Lines, Page, Table
from samebits.report.words import plural
from samebits.schema.finding import Finding, Place


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultsDocument(CommandDocument):
    """Everything that `samebits audit defaults` found.

    Args:
        first, second: the sources as they were given.
        results: the keys, counted and judged.
    """

    command: Literal["defaults"] = "defaults"
    first: str
    second: str
    results: Agreement

    @property
    def exit_code(self) -> int:
        """Return 1 where they disagree."""
        return 1 if self.results.disagreements else 0

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        disagree, sources = self.results.disagreements, f"{self.first} and {self.second}"
        first = [f"'{key.key}' ({key.kind}): {key.first} against {key.second}" for key in disagree[:1]]
        verdict, evidence = ("disagree" if disagree else "agree"), next(iter(first), None)
        yield judged("defaults", Place(item=sources), verdict, ok=not disagree, evidence=evidence)
        for key in disagree:
            place, evidence = Place(item=sources, leaf=key.key), f"{key.first} and {key.second}"
            yield judged("defaults", place, f"another {key.kind}", ok=False, evidence=evidence)

    def page(self) -> Page:
        """Return the keys on which the sources disagree, then those that were not compared."""
        agreement = self.results
        rows = disagreement_rows(self)
        table = Table(
            heads=("key", "differs in", self.first, self.second),
            rows=rows,
            caption="Keys on which both sources disagree",
        )
        others = (("Keys without a default in one source", agreement.required), ("Ignored keys", agreement.ignored))
        folds = [
            Fold(title=f"{name} ({len(keys)})", blocks=[Lines(lines=[", ".join(keys)], listed=False, indent=2)])
            for name, keys in others
            if keys
        ]
        return replace(
            usual_page(self, ("agree", "differ")),
            closing=closing(self),
            explained=True,
            blocks=[table, *folds],
        )


def closing(document: DefaultsDocument) -> str:
    """Write one sentence."""
    agreement = document.results
    begin = (
        f"{document.first} against {document.second}: {plural(agreement.keys, 'key')}, {agreement.compared} compared"
    )
    begin += f", {plural(len(agreement.required), 'key')} without a default" if agreement.required else ""
    begin += f", {len(agreement.ignored)} ignored" if agreement.ignored else ""
    bad = len(agreement.disagreements)
    return f"{begin}; {plural(bad, 'disagreement') if bad else 'all agree in name, type and value'}"


def disagreement_rows(document: DefaultsDocument) -> list[list[str]]:
    """Return the key, the kind and both defaults of each disagreement."""
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
