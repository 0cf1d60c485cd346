"""`samebits report` as a run: documents are read and joined, and a page is written."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click

from samebits.cli.common import say
from samebits.errors import RequestError
from samebits.host.output_files import write_text
from samebits.host.own_output import is_stdout, own_stdout
from samebits.report.any_document import join_shards, read_any_document
from samebits.report.html.sections import page_of, section_of


def write_page(files: Sequence[Path], target: Path, *, opened: bool) -> None:
    """Write the page of documents, and say what is in it.

    Args:
        files: the documents.
        target: the page.
        opened: whether a browser is to show it.

    Raises:
        RequestError: a file is not a document, the documents do not belong together, or the page cannot be written.
    """
    documents = join_shards([(file, read_any_document(file)) for file in files])
    sections = [section_of(document, name) for name, document in documents]
    try:
        write_text(target, page_of(sections))
    except OSError as error:
        raise RequestError(f"--html {target}: cannot be written: {error.strerror or error}") from None
    if is_stdout(target):
        return
    click.echo(f"wrote {target}", file=own_stdout())
    for section in sections:
        words = f"  {section.source}: {section.title}: {section.state}: {section.headline}"
        click.echo(words, file=own_stdout())
    if opened and not webbrowser.open(target.resolve().as_uri()):
        say(f"no browser could be started; open {target} yourself")
