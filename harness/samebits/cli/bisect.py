"""`samebits bisect WHAT`: the smallest change that causes a difference. One file per WHAT beside this one."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from samebits.cli import options
from samebits.cli.common import OnDemand
from samebits.cli.declared import option, words_of
from samebits.cli.engine_options import ClusterOptions, WorkerOptions
from samebits.errors import RequestError
from samebits.host.output_files import require_writable

if TYPE_CHECKING:
    from samebits.bisect.search.trials import SearchFinding
    from samebits.bisect.session import Session

R = TypeVar("R")

HOW = ("--root", "--devices", "--most")
"""Options of no group that say where and how a search runs, and not what is searched."""


SEARCHES = OnDemand(
    **{name: f"bisect_{name}:bisect_{name}" for name in ("commits", "flags", "mesh")},
    pairs="bisect_pairs:pairs",
    steps="bisect_pairs:steps",
    tensors="bisect_tensors:tensors",
)


@click.group("bisect", commands=SEARCHES)
def bisect() -> None:
    """Find what causes a difference: the choice, step, tensor, mesh, commit or flag.

    Both ends are verified and repeated first; every point is judged PASS, FAIL, AMBIGUOUS or UNTESTABLE, and a failure
    counts only where it is the same failure. A journal records every judgement: a search that was killed continues
    where it was. Exit code 1 when the cause is found, 0 when nothing fails, 3 when the cause cannot be determined.
    """


@dataclass(frozen=True, kw_only=True)
class SearchOptions(options.ReportOptions):
    """How a search runs, and where its answer goes."""

    HEADING = "The search"

    repeat: Annotated[int, option("Runs of every point; those that disagree are AMBIGUOUS.", "N", least=1)] = 1
    journal: Annotated[Path | None, option("Where judgements are recorded; in the cache by default.", "FILE")] = None
    fresh: Annotated[bool, option("Ignore what the journal has recorded.")] = False
    platform: options.Platform = None

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

    def run(self, what: str, search: Callable[[Session], SearchFinding], session: Session, **how: Any) -> int:
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
        how = {*SearchOptions.__mro__, ClusterOptions, WorkerOptions}
        groups = [kind for kind in type(self).__mro__ if kind not in how]
        return shlex.join(words_of(self, *groups, but=HOW))


@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """At which point of a pair a search begins."""

    HEADING = "Of a pair"

    variant: Annotated[str | None, option("The side that differs.", "NAME")] = None
    case: Annotated[str | None, option("At which it differs.", "NAME")] = None
    dtype: Annotated[str | None, option("The first of the case by default.", "NAME")] = None
    mode: Annotated[str | None, option("The first of the case by default.", "auto|explicit")] = None
    direction: Annotated[str | None, option("forward by default.", "forward|gradient")] = None
    leaf: Annotated[str | None, option("The output that differs; the first one by default.", "NAME")] = None

    def require(self, *names: str) -> None:
        """Reject a point that is not complete.

        Args:
            names: the fields that must be given.

        Raises:
            RequestError: one is missing.
        """
        missing = [f"--{name}" for name in names if not getattr(self, name)]
        if missing:
            raise RequestError(f"a search begins at one point of a pair: give {' and '.join(missing)} too")
