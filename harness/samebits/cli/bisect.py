"""`samebits bisect WHAT`: the smallest change that causes a difference. One file per WHAT beside this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


@click.group("bisect")
def bisect() -> None:
    """Find what causes a difference: the choice, step, tensor, mesh, commit or flag.

    Both ends are verified and repeated first; every point is judged PASS, FAIL, AMBIGUOUS or UNTESTABLE, and a failure
    counts only where it is the same failure. What was judged is kept in a journal: a search that was killed goes on
    where it was. Exit code 1 when the cause is found, 0 when nothing fails, 3 when the cause cannot be told.
    """


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every bisection has."""
    options = (
        click.option("--repeat", type=click.IntRange(1), default=1, show_default=True,
                     help="Runs of every point; those that disagree are AMBIGUOUS."),
        click.option("--journal", type=click.Path(path_type=Path), metavar="FILE",
                     help="Where judgements are kept; in the cache by default."),
        click.option("--fresh", is_flag=True, help="Forget what the journal knows."),
        click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write all as JSON."),
        click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE",
                     help="Write the answer for a pull request."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def session_of(repeat: int, journal: Path | None, fresh: bool, json: Path | None, markdown: Path | None) -> Any:
    """The session that the options ask for.

    Raises:
        RequestError: a file cannot be written.
    """
    from samebits.bisect.result import Session
    from samebits.cli.common import require_reports, require_writable

    require_reports(json, markdown)
    require_writable("--journal", journal)
    return Session(journal=journal, fresh=fresh, repeat=repeat)
