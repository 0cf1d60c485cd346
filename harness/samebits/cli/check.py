"""`samebits check`: run the sweep, show and write the report, and return the exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from samebits.cli import engine_options, options
from samebits.cli.distributed_options import DistributedOptions, distributed, started
from samebits.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class CheckOptions(
    options.Filters,
    engine_options.EngineOptions,
    DistributedOptions,
    options.ContinuousIntegration,
    options.ReportOptions,
):
    """The options of `samebits check`."""

    pairs: tuple[str, ...]
    sizes: tuple[str, ...]
    devices: int | None
    platform: str | None
    shard: str | None
    fresh: bool
    full: bool
    no_skips: bool
    shake: bool
    no_assumptions: bool
    all_sizes: bool
    repeat: int
    verbose: bool
    root: Path | None

    def require_consistent(self) -> None:
        """Reject options that contradict each other.

        Raises:
            RequestError: two do.
        """
        self.alone_only(
            workers=self.workers,
            memory=self.memory,
            timeout=self.timeout,
            resume=self.resume,
            journal=self.journal,
            shard=self.shard,
            shake=self.shake,
            ray=self.ray,
        )
        if self.shake and self.ray is not None:
            raise RequestError(
                "--shake checks again in processes of this machine, not on Ray: leave out one of the two"
            )


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@options.filters
@options.sizes
@options.devices
@options.platform
@engine_options.engine_options
@engine_options.merged_shard
@click.option("--fresh", is_flag=True, help="Run everything; by default, unchanged results are reused.")
@distributed
@options.full
@click.option("--no-skips", is_flag=True, help="Fail where a mesh does not fit, instead of skipping it.")
@click.option("--shake", is_flag=True, help="Repeat under compiler options that change rounding; list fragile bits.")
@options.no_assumptions
@click.option(
    "--all-sizes",
    is_flag=True,
    help="Also prove variants for every size (auto mode); where all bits are proved, run one point only.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="N",
    help="How often each program runs on its first input.",
)
@options.verbose
@options.root
@options.builtin
@options.json_results
@options.markdown_file("a table for a pull request")
@options.continuous_integration
@options.takes(CheckOptions)
def check(chosen: CheckOptions) -> int:
    """Compare optimised variants with their reference, bit for bit, on every mesh, forward and gradient.

    PAIR is a name or shell pattern in the tree, module:PAIR or FILE.py:PAIR; by default all pairs of the tree.
    Filters can be repeated and take shell patterns ('context*').
    """
    chosen.require_consistent()
    files, spanning = chosen.report_files(), chosen.spanning()
    from samebits.host import environment

    environment.prepare(
        devices=chosen.devices, platform=chosen.driver_platform(chosen.platform), processes=chosen.workers or 1
    )
    # How many workers there are depends on the platform.
    settings = chosen.engine_settings(shard=chosen.shard, fresh=chosen.fresh, platform=chosen.platform)
    group = started(spanning)
    if group is not None:
        settings = replace(settings, in_process=True, group=group)
    from samebits.cli.check_run import CheckCommand, points_of
    from samebits.cli.pipeline import run_command
    from samebits.programs.plan import Request
    from samebits.schema.point import Effort

    request = chosen.request(chosen.full)
    # A request for certain points, or for more of each, executes every point: nothing is left to a proof alone.
    sparing = request == Request() and not chosen.shake and chosen.repeat == 2
    command = CheckCommand(
        pairs=chosen.pairs,
        request=request,
        root=chosen.root,
        settings=settings,
        no_skips=chosen.no_skips,
        effort=Effort(
            repeats=chosen.repeat,
            shake=chosen.shake,
            assuming=not chosen.no_assumptions,
            all_sizes=chosen.all_sizes,
            sparing=sparing,
        ),
        verbose=chosen.verbose,
    )
    if group is not None:
        from samebits.cli.distributed_run import run_together

        return run_together(command, files, group, lambda inputs: {**command.asked(), **points_of(inputs)})
    return run_command(command, files)
