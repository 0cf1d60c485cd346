"""`samebits bisect WHAT`: the smallest change that causes a difference. One file per WHAT beside this one."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samebits.cli import options
from samebits.host.output_files import require_writable

if TYPE_CHECKING:
    from samebits.bisect.result import Session


HOW = frozenset(
    {
        *("json", "html", "markdown", "repeat", "journal", "fresh", "root", "platform", "devices", "most"),
        *("workers", "in_process", "timeout", "memory", "ray", "ray_task"),
    }
)
"""Options that say where and how a search runs, and not what is searched."""


@click.group("bisect")
def bisect() -> None:
    """Find what causes a difference: the choice, step, tensor, mesh, commit or flag.

    Both ends are verified and repeated first; every point is judged PASS, FAIL, AMBIGUOUS or UNTESTABLE, and a failure
    counts only where it is the same failure. A journal records every judgement: a search that was killed continues
    where it was. Exit code 1 when the cause is found, 0 when nothing fails, 3 when the cause cannot be determined.
    """


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every bisection has."""
    shared = (
        click.option("--repeat", type=click.IntRange(1), default=1, show_default=True,
                     help="Runs of every point; those that disagree are AMBIGUOUS."),
        click.option("--journal", type=click.Path(path_type=Path), metavar="FILE",
                     help="Where judgements are recorded; in the cache by default."),
        click.option("--fresh", is_flag=True, help="Ignore what the journal has recorded."),
        options.platform,
        options.json_file("all"),
        options.markdown_file("the answer for a pull request"),
    )  # fmt: skip
    for option in reversed(shared):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class SearchOptions(options.ReportOptions):
    """What `search_options` gives."""

    repeat: int
    journal: Path | None
    fresh: bool
    platform: str | None

    def session(self) -> Session:
        """The session of the search.

        Raises:
            RequestError: a file cannot be written.
        """
        from samebits.bisect.result import Session

        self.report_files()
        require_writable("--journal", self.journal)
        return Session(journal=self.journal, fresh=self.fresh, repeat=self.repeat)

    def asked(self) -> str:
        """What is searched, in words such as `--config moe --against base`; not where, and not with which workers."""
        words: list[str] = []
        for name in sorted({field.name for field in fields(self)} - HOW):
            value = getattr(self, name)
            if value in (None, False, ()):
                continue
            words += [f"--{name.strip('_').replace('_', '-')}"]
            words += [] if value is True else map(str, value) if isinstance(value, tuple) else [str(value)]
        return shlex.join(words)
