"""The options of commands that have an engine run items: processes, limits, journal, cache and shard."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samebits.cli.common import require_writable
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.engine.run_work import EngineSettings

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_WORKER_OPTIONS = (
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many worker processes; one per processor by default, at most 8.",
    ),
    click.option("--in-process", is_flag=True, help="Run in this process, without isolation: for debuggers."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="End an item that takes longer; 900 by default.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="End an item whose process holds more, such as 8G; a share of the machine's memory by default.",
    ),
)

_JOURNAL_OPTIONS = (
    click.option("--resume", is_flag=True, help="Go on where an earlier run of the same request was interrupted."),
    click.option(
        "--journal",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write each result here at once, and leave the file; in the cache folder by default, until the end.",
    ),
)

shard = click.option(
    "--shard", metavar="K/N", help="Only part K of N equal parts; `samebits merge` joins the documents."
)


def worker_options(command: Any) -> Any:
    """The options of worker processes, in this order in `--help`."""
    for option in reversed(_WORKER_OPTIONS):
        command = option(command)
    return command


def engine_options(command: Any) -> Any:
    """The options of worker processes and of the journal."""
    for option in reversed(_JOURNAL_OPTIONS):
        command = option(command)
    return worker_options(command)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Where items run, and what each may take."""

    workers: int | None
    in_process: bool
    timeout: float | None
    memory: str | None

    def engine_settings(self) -> EngineSettings:
        """The settings of the engine.

        Raises:
            RequestError: two options contradict each other, or a size is malformed.
        """
        from samebits.engine.run_work import EngineSettings, usual_settings

        for name, value in (("workers", self.workers), ("timeout", self.timeout), ("memory", self.memory)):
            if self.in_process and value is not None:
                raise RequestError(f"--{name} is about worker processes, and --in-process has none: leave one out")
        if self.in_process:
            return EngineSettings(in_process=True)
        limit = None if self.memory is None else bytes_of(self.memory)
        return usual_settings(workers=self.workers, seconds=self.timeout, limit=limit)


@dataclass(frozen=True, kw_only=True)
class EngineOptions(WorkerOptions):
    """Where items run, and where their results are at once."""

    resume: bool
    journal: Path | None

    def engine_settings(self, *, shard: str | None = None, fresh: bool = False) -> EngineSettings:
        """The settings of the engine.

        Args:
            shard: the text of `--shard`.
            fresh: whether remembered results are ignored.

        Raises:
            RequestError: two options contradict each other, or a size or a shard is malformed.
        """
        from samebits.engine.shard import Shard

        part = None if shard is None else Shard.parse(shard)
        require_writable("--journal", self.journal)
        return replace(super().engine_settings(), resume=self.resume, journal=self.journal, fresh=fresh, shard=part)


def bytes_of(text: str) -> int:
    """A size such as `8G`, `512M` or `2.5GiB` in bytes.

    Raises:
        RequestError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    size = 0 if match is None else int(float(match[1]) * _UNITS[match[2].upper()])
    if size < 1:
        raise RequestError(f"--memory {text}: expected a size such as 8G or 512M")
    return size
