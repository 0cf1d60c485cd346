"""`samebits report`: the group of commands that read the documents of other commands."""

from __future__ import annotations

import click


@click.group()
def report() -> None:
    """Read the JSON documents that other commands wrote."""
