"""Documents that a page shows as one table: accepted verdicts, caches, the pairs of a tree, two sources of defaults."""

from __future__ import annotations

import shlex
from typing import Any

from samebits.report.cache import CacheDocument, size_text
from samebits.report.defaults import HEADS, DefaultsDocument, closing, disagreement_rows
from samebits.report.html.section import Section, render
from samebits.report.list import Listing, PairRow
from samebits.report.snapshots import AcceptDocument
from samebits.report.words import first_problem, plural, short_meshes, state_of
from samebits.schema.result import gravest

ACCEPT_HEADS = ["pair", "snapshot", "equal bits beyond the contract", "more", "fewer", "file"]


def accept_section(document: AcceptDocument) -> Section:
    """The section of accepted verdicts.

    Args:
        document: of `samebits accept --verdicts`.
    """
    order = {"new": 0, "changed": 1}
    rows = sorted(document.results, key=lambda row: order.get(row.change, 2))
    return Section(
        command="accept",
        state=state_of(gravest(document.problems)),
        headline=_accepted_headline(document),
        next_command=shlex.join(["samebits", "check", document.problems[0].pair]) if document.problems else None,
        body=render(
            "accept.html.j2",
            document=document,
            heads=ACCEPT_HEADS,
            rows=[[row.pair, row.change, row.equal, row.gained, row.lost, row.path] for row in rows],
        ),
        styles=("evidence.css",),
    )


def _accepted_headline(document: AcceptDocument) -> str:
    """What could not be accepted, or what was."""
    if document.problems:
        first = document.problems[0]
        count = plural(len(document.problems), "pair")
        return f"{count} not accepted; first {first.pair}: {first.message}"
    written = [row for row in document.results if row.change != "unchanged"]
    lost = sum(row.lost for row in document.results)
    gone = f"; {plural(lost, 'result')} no longer equal" if lost else ""
    equal = sum(row.equal for row in document.results)
    pairs = plural(len(document.results), "pair")
    return f"{pairs}: {plural(len(written), 'snapshot')} written, {plural(equal, 'result')} beyond the contract{gone}"


CACHE_HEADS = ["cache", "entries", "size", "from", "to", "removed", "holds", "folder"]


def cache_section(document: CacheDocument) -> Section:
    """The section of the caches.

    Args:
        document: of `samebits cache`.
    """
    rows = [
        [
            row.cache,
            row.entries,
            size_text(row.bytes),
            row.oldest or "–",  # noqa: RUF001  an en dash stands for nothing
            row.newest or "–",  # noqa: RUF001
            row.removed or "",
            row.holds,
            row.path,
        ]
        for row in sorted(document.results, key=lambda row: -row.bytes)
    ]
    return Section(
        command="cache",
        state="passed",
        headline=_cache_headline(document),
        next_command=None,
        body=render("cache.html.j2", document=document, heads=CACHE_HEADS, rows=rows),
    )


def _cache_headline(document: CacheDocument) -> str:
    """What was removed, or what is there."""
    removed = sum(row.removed for row in document.results)
    if removed:
        return f"{removed} entries of the caches in {document.folder} were removed"
    size = size_text(sum(row.bytes for row in document.results))
    entries = sum(row.entries for row in document.results)
    largest = max(document.results, key=lambda row: row.bytes, default=None)
    most = f"; the largest is {largest.cache}, {size_text(largest.bytes)}" if largest and largest.bytes else ""
    return f"{entries} entries, {size} in {document.folder}{most}"


def list_section(document: Listing) -> Section:
    """The section of a listing.

    Args:
        document: of `samebits list`.
    """
    return Section(
        command="list",
        state=state_of(gravest(document.problems)),
        headline=_list_headline(document),
        next_command=shlex.join(["samebits", "check", document.results[0].pair]) if document.results else None,
        body=render("list.html.j2", document=document, rows=[_row(row) for row in document.results]),
        styles=("evidence.css",),
    )


def _list_headline(document: Listing) -> str:
    """What cannot be read, or how much there is."""
    if document.problems:
        return first_problem(document.problems)
    variants = sum(len(row.variants) for row in document.results)
    points = sum(row.points for row in document.results)
    pairs = plural(len(document.results), "pair")
    return f"{pairs} with {plural(variants, 'variant')}; a check of all runs {plural(points, 'point')}"


def _row(row: PairRow) -> dict[str, Any]:
    """A pair as the template shows it."""
    wide = f"; on more devices {short_meshes(row.wide_meshes)}" if row.wide_meshes else ""
    return {
        "row": row,
        "facts": [
            ("cases", " ".join(row.cases)),
            ("dtypes", " ".join(row.dtypes)),
            ("meshes", short_meshes(row.meshes) + wide),
            ("too wide here", short_meshes(row.unfit)),
            ("modes", " ".join(row.modes)),
            ("compiles", ", ".join(row.compiled) or "nothing"),
        ],
        "command": shlex.join(["samebits", "check", row.pair]),
    }


def defaults_section(document: DefaultsDocument) -> Section:
    """The section of a comparison of defaults.

    Args:
        document: of `samebits audit defaults`.
    """
    agreement = document.results
    headline = _defaults_headline(document)
    return Section(
        command="defaults",
        state="failed" if agreement.disagreements else "passed",
        headline=headline,
        next_command=None,
        body=render(
            "defaults.html.j2",
            headline=headline,
            closing=closing(document),
            heads=[*HEADS[:2], document.first, document.second],
            rows=disagreement_rows(document),
            agreement=agreement,
        ),
        styles=("evidence.css",),
    )


def _defaults_headline(document: DefaultsDocument) -> str:
    """The first key on which they disagree."""
    rows = disagreement_rows(document)
    if not rows:
        return closing(document)
    key, kind, first, second = rows[0]
    keys = plural(len(rows), "disagreement")
    return f"{keys} of {document.first} and {document.second}; first '{key}' ({kind}): {first} against {second}"
