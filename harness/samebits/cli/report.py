"""`samebits report`: documents that other commands wrote as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options
from samebits.errors import RequestError
from samebits.host.output_files import require_writable


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The options of `samebits report`."""

    files: tuple[Path, ...]
    html: Path | None
    open: bool


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="The page to write; by default beside the first FILE, with .html for its ending.",
)
@click.option("--open", is_flag=True, help="Open the page in a browser.")
@options.takes(PageOptions, runs_user_code=False)
def report(chosen: PageOptions) -> int:
    """Make one HTML file of documents that --json wrote; it needs no other file and no network.

    FILEs may be of any commands: each document is a tab of the page, those that failed first. The shards of one check
    are joined into one tab. Nothing is run again, and the exit code says nothing of the results.

    Exit codes: 0 the page is written, 2 a FILE is not a document, or the page cannot be written.
    """
    if chosen.files[0] == Path("diff") and not chosen.files[0].exists():
        raise RequestError("`samebits report diff OLD NEW` is `samebits diff OLD NEW` now, with the same options")
    target = chosen.html or chosen.files[0].with_suffix(".html")
    if target.resolve() in {file.resolve() for file in chosen.files}:
        raise RequestError(f"--html {target}: is one of the documents; give another file")
    require_writable("--html", target)
    from samebits.cli.report_run import write_page

    write_page(chosen.files, target, opened=chosen.open)
    return 0
