"""`samebits check`: run the sweep, show and write the report, and return the exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option, words_of
from samebits.cli.distributed_options import DistributedOptions, started
from samebits.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class CheckOptions(
    options.SizedFilters,
    engine_options.EngineOptions,
    DistributedOptions,
    options.ContinuousIntegration,
    options.ReportOptions,
):
    """The options of `samebits check`."""

    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    no_skips: Annotated[bool, option("Fail where a mesh does not fit, instead of skipping it.")] = False
    shake: Annotated[bool, option("Repeat under compiler options that change rounding; list fragile bits.")] = False
    no_assumptions: options.NoAssumptions = False
    all_sizes: Annotated[
        bool,
        option("Also prove variants for every size (auto mode); where all bits are proved, run one point only."),
    ] = False
    repeat: Annotated[int, option("How often each program runs on its first input.", "N", least=2)] = 2
    verbose: options.Verbose = False
    root: options.AnyTree = None
    fresh: Annotated[bool, option("Run everything; by default, unchanged results are reused.")] = False
    devices: options.Devices = None
    platform: options.Platform = None
    shard: Annotated[
        str | None,
        option(
            "Only part K of N, with about as many items as the others; `samebits merge` joins the documents.",
            "K/N",
        ),
    ] = None

    def again(self) -> list[str]:
        """Return the words of the same check in another process, without what it does for this one alone."""
        groups = (CheckOptions, options.Filters, options.SizedFilters, engine_options.WorkerOptions)
        alone = ("--shake", "--repeat", "--all-sizes", "--no-skips", "--verbose", "--fresh", "--shard")
        return ["check", *words_of(self, *groups, but=alone)]

    def require_consistent(self) -> None:
        """Reject options that contradict each other.

        Raises:
            RequestError: two do.
        """
        self.alone_only("workers", "memory", "timeout", "resume", "journal", "shard", "shake", "ray")
        if self.shake and self.ray is not None:
            raise RequestError(
                "--shake checks again in processes of this machine, not on Ray: leave out one of the two"
            )


@options.command(CheckOptions)
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

    request = chosen.request()
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
        again=chosen.again(),
    )
    if group is not None:
        from samebits.cli.distributed_run import run_together

        return run_together(command, files, group, lambda inputs: {**command.asked(), **points_of(inputs)})
    return run_command(command, files)
