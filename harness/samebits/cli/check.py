"""`samebits check`: run the sweep, show and write the report, and return the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import engine_options, options


@dataclass(frozen=True, kw_only=True)
class CheckOptions(options.Filters, engine_options.EngineOptions, options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits check`."""

    pairs: tuple[str, ...]
    devices: int | None
    platform: str | None
    shard: str | None
    fresh: bool
    full: bool
    no_skips: bool
    shake: bool
    no_assumptions: bool
    repeat: int
    root: Path | None


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@options.filters
@options.devices
@click.option("--platform", type=click.Choice(["cpu", "tpu", "gpu"]), help="Where to run; jax chooses by default.")
@engine_options.engine_options
@engine_options.shard
@click.option("--fresh", is_flag=True, help="Run everything; by default, what nothing has changed since is remembered.")
@options.full
@click.option("--no-skips", is_flag=True, help="Fail where a mesh does not fit, instead of skipping it.")
@click.option("--shake", is_flag=True, help="Again under compiler options that move rounding; says what is fragile.")
@click.option(
    "--no-assumptions",
    is_flag=True,
    help="Accept no verdict by a proof that assumes anything beyond shapes and rounding.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="N",
    help="How often each program runs on its first input.",
)
@options.root
@options.builtin
@options.json_results
@options.markdown_file("a table for a pull request")
@options.continuous_integration
@options.takes(CheckOptions)
def check(chosen: CheckOptions) -> int:
    """Compare optimised variants with their reference, bit for bit, on every mesh, forward and gradient.

    PAIR is a name of the tree or a shell pattern, module:PAIR or FILE.py:PAIR; all pairs of the tree without one.
    Filters can be repeated and take shell patterns ('context*').
    """
    files, settings = chosen.report_files(), chosen.engine_settings(shard=chosen.shard, fresh=chosen.fresh)
    # jax reads its environment when it is imported: before this line nothing may import it.
    from samebits.host import environment

    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    from samebits.cli.check_run import CheckCommand
    from samebits.cli.pipeline import run_command
    from samebits.schema.point import Effort

    command = CheckCommand(
        pairs=chosen.pairs,
        request=chosen.request(chosen.full),
        root=chosen.root,
        settings=settings,
        no_skips=chosen.no_skips,
        effort=Effort(repeats=chosen.repeat, shake=chosen.shake, assuming=not chosen.no_assumptions),
    )
    return run_command(command, files)
