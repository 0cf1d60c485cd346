"""`samebits report`: documents that other commands wrote as one HTML file."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from samebits.cli import options
from samebits.cli.common import say
from samebits.cli.declared import argument, option
from samebits.errors import RequestError
from samebits.host.output_files import require_writable, write_text
from samebits.host.own_output import is_stdout, own_stdout


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The options of `samebits report`."""

    files: Annotated[tuple[Path, ...], argument("FILE...")]
    html: Annotated[
        Path | None,
        option("The page to write; by default beside the first FILE, with .html for its ending.", "OUT"),
    ] = None
    open: Annotated[bool, option("Open the page in a browser.")] = False


@options.command(PageOptions, runs_user_code=False)
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
    from samebits.report.any_document import join_shards, read_any_document
    from samebits.report.html.sections import page_of, section_of

    documents = join_shards([(file, read_any_document(file)) for file in chosen.files])
    sections = [section_of(document, name) for name, document in documents]
    try:
        write_text(target, page_of(sections))
    except OSError as error:
        raise RequestError(f"--html {target}: cannot be written: {error.strerror or error}") from None
    if is_stdout(target):
        return 0
    click.echo(f"wrote {target}", file=own_stdout())
    for section in sections:
        words = f"  {section.source}: {section.title}: {section.page.state}: {section.page.headline}"
        click.echo(words, file=own_stdout())
    if chosen.open and not webbrowser.open(target.resolve().as_uri()):
        say(f"no browser could be started; open {target} yourself")
    return 0
