"""`samebits golden`: recorded training runs, checked, accepted, listed and shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import engine_options, options
from samebits.errors import RequestError

WINDOW = 20


@click.group()
def golden() -> None:
    """Recorded training runs: the same bits in the same environment, otherwise within the recorded evidence."""


_matrix = click.option("--matrix", multiple=True, metavar="NAME", help="All runs of this matrix.")
_config = click.option("--config", multiple=True, metavar="NAME", help="This configuration, such as MATRIX/RUN.")
_root = click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree; here by default.")


@dataclass(frozen=True, kw_only=True)
class GoldenCheckOptions(engine_options.EngineOptions, options.ReportOptions):
    """The options of `samebits golden check`."""

    matrix: tuple[str, ...]
    config: tuple[str, ...]
    root: Path | None
    platform: str | None
    shard: str | None
    verbose: bool


@golden.command()
@_matrix
@_config
@_root
@engine_options.engine_options
@engine_options.shard
@options.platform
@options.verbose
@options.json_results
@options.markdown_file("a table for a pull request")
@options.takes(GoldenCheckOptions)
def check(chosen: GoldenCheckOptions) -> int:
    """Run configurations and compare them with their goldens; nothing is ever written.

    Without --matrix and --config: every run of each matrix that has goldens on this platform. A golden that is missing,
    or that no run uses, fails.
    Exit codes: 0 all hold, 1 one changed, is missing or unused, 2 a file is damaged, 3 a run could not be made.
    """
    files = chosen.report_files()
    _prepare(chosen.driver_platform(chosen.platform), processes=chosen.workers or 1)
    settings = chosen.engine_settings(platform=chosen.platform, shard=chosen.shard)
    from samebits.cli.golden_run import GoldenCheckCommand
    from samebits.cli.pipeline import run_command

    command = GoldenCheckCommand(
        matrices=chosen.matrix,
        configs=chosen.config,
        root=chosen.root,
        settings=settings,
        verbose=chosen.verbose,
    )
    return run_command(command, files)


@dataclass(frozen=True, kw_only=True)
class GoldenAcceptOptions(options.JsonOption):
    """The options of `samebits golden accept`."""

    matrix: tuple[str, ...]
    config: tuple[str, ...]
    reason: str
    author: str | None
    steps: int
    confirm: bool
    root: Path | None
    platform: str | None


@golden.command()
@_matrix
@_config
@click.option(
    "--reason", default="", metavar="TEXT", help="Why today's run is right; mandatory, and recorded in the file."
)
@click.option("--author", metavar="NAME", help="Who says so; git's user by default.")
@click.option("--steps", type=int, default=WINDOW, show_default=True, metavar="N", help="How many steps; at least 20.")
@click.option("--confirm", is_flag=True, help="Only add this environment to the evidence of goldens that hold in it.")
@_root
@options.platform
@options.json_results
@options.takes(GoldenAcceptOptions)
def accept(chosen: GoldenAcceptOptions) -> int:
    """Make today's runs the goldens, with the evidence of how far rounding moves them; shows old and new.

    Rejected where CI is set, on a dirty tree, without a reason, with fewer than 20 steps, with a NaN, and where an
    array or a step is lost.
    """
    files = chosen.report_files()
    if not chosen.matrix and not chosen.config:
        raise RequestError(
            "name what to accept: --matrix NAME or --config MATRIX/RUN; goldens are not accepted wholesale"
        )
    _prepare(chosen.platform)
    from samebits.cli.golden_run import GoldenAcceptCommand
    from samebits.cli.pipeline import run_command

    command = GoldenAcceptCommand(
        matrices=chosen.matrix,
        configs=chosen.config,
        root=chosen.root,
        reason=chosen.reason or ("confirmed" if chosen.confirm else ""),
        author=chosen.author,
        steps=chosen.steps,
        only_confirm=chosen.confirm,
    )
    return run_command(command, files)


@dataclass(frozen=True, kw_only=True)
class GoldenListOptions(options.JsonOption):
    """The options of `samebits golden list`."""

    matrix: tuple[str, ...]
    root: Path | None


@golden.command("list")
@_matrix
@_root
@options.json_results
@options.takes(GoldenListOptions)
def list_goldens(chosen: GoldenListOptions) -> int:
    """The goldens of all platforms, from their files alone; no jax is started."""
    files = chosen.report_files()
    from samebits.cli.golden_files_run import GoldenListCommand
    from samebits.cli.pipeline import run_command

    return run_command(GoldenListCommand(matrices=chosen.matrix, root=chosen.root), files)


@dataclass(frozen=True, kw_only=True)
class GoldenShowOptions(options.JsonOption):
    """The options of `samebits golden show`."""

    config: tuple[str, ...]
    root: Path | None


@golden.command()
@_config
@_root
@options.json_results
@options.takes(GoldenShowOptions)
def show(chosen: GoldenShowOptions) -> int:
    """One golden on every platform that has it: environment, evidence, history and all losses."""
    files = chosen.report_files()
    if not chosen.config:
        raise RequestError("name what to show: --config MATRIX/RUN; `samebits golden list` lists them")
    from samebits.cli.golden_files_run import GoldenShowCommand
    from samebits.cli.pipeline import run_command

    return run_command(GoldenShowCommand(configs=chosen.config, root=chosen.root), files)


def _prepare(platform: str | None, processes: int = 1) -> None:
    from samebits.host import environment

    environment.prepare(platform=platform, processes=processes)
