"""`samebits bisect WHAT`: the smallest change that causes a difference. One file per WHAT beside this one."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from samebits.cli import options
from samebits.cli.common import OnDemand
from samebits.host.output_files import require_writable

if TYPE_CHECKING:
    from samebits.bisect.search.trials import Finding
    from samebits.bisect.session import Session

R = TypeVar("R")

HOW = frozenset(
    {
        *("json", "html", "markdown", "repeat", "journal", "fresh", "root", "platform", "devices", "most"),
        *("workers", "in_process", "timeout", "memory", "ray", "ray_task"),
    }
)
"""Options that say where and how a search runs, and not what is searched."""


SEARCHES = OnDemand(
    **{name: f"bisect_{name}:bisect_{name}" for name in ("commits", "flags", "mesh")},
    **{name: f"bisect_{name}:{name}" for name in ("pairs", "steps", "tensors")},
)


@click.group("bisect", commands=SEARCHES)
def bisect() -> None:
    """Find what causes a difference: the choice, step, tensor, mesh, commit or flag.

    Both ends are verified and repeated first; every point is judged PASS, FAIL, AMBIGUOUS or UNTESTABLE, and a failure
    counts only where it is the same failure. A journal records every judgement: a search that was killed continues
    where it was. Exit code 1 when the cause is found, 0 when nothing fails, 3 when the cause cannot be determined.
    """


search_options = options.together(
    click.option("--repeat", type=click.IntRange(1), default=1, show_default=True,
                 help="Runs of every point; those that disagree are AMBIGUOUS."),
    click.option("--journal", type=click.Path(path_type=Path), metavar="FILE",
                 help="Where judgements are recorded; in the cache by default."),
    click.option("--fresh", is_flag=True, help="Ignore what the journal has recorded."),
    options.platform,
    options.json_file("all"),
    options.markdown_file("the answer for a pull request"),
)  # fmt: skip
"""The options that every bisection has."""


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
        from samebits.bisect.session import Session

        self.report_files()
        require_writable("--journal", self.journal)
        return Session(journal=self.journal, fresh=self.fresh, repeat=self.repeat)

    def request(self, kind: Callable[..., R], **others: Any) -> R:
        """Return a request whose fields are the options of the same names, but for the others."""
        names = inspect.signature(kind).parameters.keys() & {field.name for field in fields(self)}
        return kind(**{name: getattr(self, name) for name in names} | others)

    def run(self, what: str, search: Callable[[Session], Finding], session: Session, **how: Any) -> int:
        """Search, and return the exit code; to be called once jax is prepared.

        Args:
            what: which bisection.
            search: the bisection.
            session: of the search.
            how: further fields of `BisectCommand`.
        """
        from samebits.cli.bisect_run import BisectCommand
        from samebits.cli.pipeline import run_command

        command = BisectCommand(what=what, search=search, session=session, asked=self.asked(), **how)
        return run_command(command, self.report_files())

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
