"""`samebits claims`: every claim of the design documents, beside what check and compile say of it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_reports


@click.command("claims")
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@click.option("--claim", "ids", multiple=True, metavar="ID", help="Only this claim, such as 3922.5 or '3922.*'.")
@click.option("--list", "listing", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--lanes", type=click.IntRange(min=1), help="How many processes at once; one per processor by default.")
@click.option("--no-cache", is_flag=True, help="Compile anew, and keep nothing.")
@options.root
@options.builtin
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write the table for a document.")
@guarded
def claims(
    pairs: tuple[str, ...],
    ids: tuple[str, ...],
    listing: bool,
    lanes: int | None,
    no_cache: bool,
    root: Path | None,
    json: Path | None,
    markdown: Path | None,
) -> int:
    """Run every claim of the design documents: is it the same, under which condition, and what do compilers save?

    A claim is declared by its pair (documented=...). Its row is filled by `check`, `compile` and tests of that pair,
    run as processes. A claim that is not true is no failure where a finding says so, with its numbers; a row that is
    otherwise than declared is.

    Exit codes: 0 every row is as declared, 1 one is not, 2 the request or a declaration is wrong, 3 could not tell.
    """
    require_reports(json, markdown)
    from samebits.cli.claims_run import run_claims

    more = (*(("--root", str(root)) if root is not None else ()),)
    return run_claims(
        pairs,
        ids,
        root=root,
        more=more,
        cached=not no_cache,
        listing=listing,
        lanes=lanes or os.cpu_count() or 1,
        json=json,
        markdown_to=markdown,
    )
