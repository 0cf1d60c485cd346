"""`samebits check`: run the sweep, show and write the report, and return the exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option, words_of
from samebits.cli.engine_options import DistributedOptions, started
from samebits.errors import RequestError
from samebits.rooms import door


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
    budget: options.Budget = None
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
            "Only part K of N, with about as many items as the others; `samebits run merge` joins the documents.",
            "K/N",
        ),
    ] = None

    def again(self) -> list[str]:
        """Return the words of the same check in another process, without what it does for this one alone."""
        groups = (CheckOptions, options.Filters, options.SizedFilters, engine_options.WorkerOptions)
        alone = ("--shake", "--repeat", "--all-sizes", "--no-skips", "--verbose", "--fresh", "--shard")
        return ["check", *words_of(self, *groups, but=alone)]

    def require_consistent(self) -> None:
        """Reject options that contradict each other."""
        self.alone_only("workers", "memory", "timeout", "resume", "journal", "shard", "shake", "ray", "budget")
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
    spanning = chosen.spanning()
    settings = chosen.prepared(shard=chosen.shard, fresh=chosen.fresh, devices=chosen.devices)
    group = started(spanning)
    if group is not None:
        settings = replace(settings, in_process=True, group=group)
    from samebits.programs.plan import Request
    from samebits.schema.point import Effort

    request = chosen.request()
    task = door("cli.check_run").CheckTask(
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
            budget=chosen.budget,
            # A request for certain points, or for more of each, executes every point: nothing is left to a proof alone.
            sparing=request == Request() and not chosen.shake and chosen.repeat == 2,
        ),
    )
    return options.run("check_run:check_pairs", chosen, task, group=group)


@dataclass(frozen=True, kw_only=True)
class MergeOptions(options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits run merge`."""

    files: Annotated[tuple[Path, ...], argument("FILE...")]
    no_skips: Annotated[bool, option("Fail where a mesh did not fit, instead of skipping it.")] = False
    verbose: options.Verbose = False
    root: options.AnyTree = None


@options.command(MergeOptions)
def merge(chosen: MergeOptions) -> int:
    """Join the shards of one `samebits check`: documents of --json, or journals of runs that were killed.

    Each FILE is one shard of the same request, as from `samebits check --shard 3/8 --json three.json`. Nothing is run
    again; contracts are audited and snapshots compared, which needs all results. The document equals that of a check
    without shards.

    Exit codes: as for `samebits check`; 3 also if a shard, or one of its results, is missing.
    """
    from samebits.host import environment

    environment.prepare()
    return options.run("merge_run:merge_shards", chosen)
