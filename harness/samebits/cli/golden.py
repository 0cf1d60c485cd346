"""`samebits golden`: recorded training runs, checked, accepted, listed and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import click

from samebits.cli import engine_options, options
from samebits.cli.declared import option
from samebits.errors import RequestError

WINDOW = 20


@click.group()
def golden() -> None:
    """Recorded training runs: the same bits in the same environment, otherwise within the recorded evidence."""


Matrix = Annotated[tuple[str, ...], option("All runs of this matrix.", "NAME")]
Config = Annotated[tuple[str, ...], option("This configuration, such as MATRIX/RUN.", "NAME")]


@dataclass(frozen=True, kw_only=True)
class GoldenRuns:
    """Which runs are meant."""

    matrix: Matrix = ()
    config: Config = ()
    root: options.Tree = None


@dataclass(frozen=True, kw_only=True)
class GoldenCheckOptions(GoldenRuns, engine_options.EngineOptions, options.ReportOptions):
    """The options of `samebits golden check`."""

    verbose: options.Verbose = False
    platform: options.Platform = None
    shard: engine_options.ShardOption = None


@options.command(GoldenCheckOptions, "check")
def golden_check(chosen: GoldenCheckOptions) -> int:
    """Run configurations and compare them with their goldens; nothing is ever written.

    Without --matrix and --config: every run of each matrix that has goldens on this platform. A golden that is missing,
    or that no run uses, fails.
    Exit codes: 0 all hold, 1 one changed, is missing or unused, 2 a file is damaged, 3 a run could not be made.
    """
    return options.run("golden_run:check_goldens", chosen, chosen.prepared(shard=chosen.shard))


@dataclass(frozen=True, kw_only=True)
class GoldenAcceptOptions(GoldenRuns, options.JsonOption):
    """The options of `samebits golden accept`."""

    reason: Annotated[str, option("Why today's run is right; mandatory, and recorded in the file.", "TEXT")] = ""
    author: Annotated[str | None, option("Who says so; git's user by default.", "NAME")] = None
    steps: Annotated[int, option("How many steps; at least 20.", "N")] = WINDOW
    confirm: Annotated[bool, option("Only add this environment to the evidence of goldens that hold in it.")] = False
    platform: options.Platform = None

    def why(self) -> str:
        """Return the reason that is recorded."""
        return self.reason or ("confirmed" if self.confirm else "")


@options.command(GoldenAcceptOptions, "accept")
def golden_accept(chosen: GoldenAcceptOptions) -> int:
    """Make today's runs the goldens, with the evidence of how far rounding moves them; shows old and new.

    Rejected where CI is set, on a dirty tree, without a reason, with fewer than 20 steps, with a NaN, and where an
    array or a step is lost.
    """
    if not chosen.matrix and not chosen.config:
        raise RequestError(
            "name what to accept: --matrix NAME or --config MATRIX/RUN; goldens are not accepted wholesale"
        )
    from samebits.host import environment

    environment.prepare(platform=chosen.platform)
    return options.run("golden_run:accept_runs", chosen)


@dataclass(frozen=True, kw_only=True)
class GoldenListOptions(options.JsonOption):
    """The options of `samebits golden list`."""

    matrix: Matrix = ()
    root: options.Tree = None


@options.command(GoldenListOptions, "list")
def golden_list(chosen: GoldenListOptions) -> int:
    """The goldens of all platforms, from their files alone; no jax is started."""
    return options.run("golden_run:list_goldens", chosen)


@dataclass(frozen=True, kw_only=True)
class GoldenShowOptions(options.JsonOption):
    """The options of `samebits golden show`."""

    config: Config = ()
    root: options.Tree = None


@options.command(GoldenShowOptions, "show")
def golden_show(chosen: GoldenShowOptions) -> int:
    """One golden on every platform that has it: environment, evidence, history and all losses."""
    if not chosen.config:
        raise RequestError("name what to show: --config MATRIX/RUN; `samebits golden list` lists them")
    return options.run("golden_run:show_goldens", chosen)


for _command in (golden_accept, golden_check, golden_list, golden_show):
    golden.add_command(_command)
