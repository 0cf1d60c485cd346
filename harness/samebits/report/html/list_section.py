"""The pairs of a tree on a page: their sides, and how much a check would run."""

from __future__ import annotations

import shlex
from typing import Any

from samebits.report.html.render import render
from samebits.report.html.section import Section
from samebits.report.list import Listing, PairRow
from samebits.report.words import first_problem, plural, short_meshes, state_of
from samebits.schema.result import gravest


def list_section(document: Listing) -> Section:
    """The section of a listing.

    Args:
        document: of `samebits list`.
    """
    return Section(
        command="list",
        state=state_of(gravest(document.problems)),
        headline=_headline(document),
        next_command=shlex.join(["samebits", "check", document.results[0].pair]) if document.results else None,
        body=render("list.html.j2", document=document, rows=[_row(row) for row in document.results]),
        styles=("evidence.css",),
    )


def _headline(document: Listing) -> str:
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
