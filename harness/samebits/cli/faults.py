"""`samebits audit faults`: plant every known fault, and show that the check catches each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option
from samebits.rooms import door


@dataclass(frozen=True, kw_only=True)
class FaultsOptions(engine_options.EngineOptions, options.ReportOptions):
    """The options of `samebits audit faults`."""

    patterns: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    fault: Annotated[tuple[str, ...], option("Only the fault of this name; shell patterns allowed.", "NAME")] = ()
    root: options.AnyTree = None
    verbose: options.Verbose = False
    platform: options.Platform = None
    shard: engine_options.ShardOption = None


@options.command(FaultsOptions)
def faults(chosen: FaultsOptions) -> int:
    """Plant the faults of a tree's `suites/faults/` in its pairs and in samebits itself; show what the check says.

    PAIR limits the table to some pairs, shell patterns allowed. Each fault is checked in a worker process: one that
    crashes or hangs has no answer, and the others go on. Exit code 1 when a fault is not caught, or when an honest
    implementation fails where its fault is planted; 3 when one has no answer.
    """
    files = chosen.report_files()
    from samebits.host import environment

    environment.prepare(platform=chosen.driver_platform(chosen.platform), processes=chosen.workers or 1)
    # How many workers there are depends on the platform.
    settings = chosen.engine_settings(platform=chosen.platform, shard=chosen.shard)
    from samebits.cli.pipeline import run_command

    return run_command(door("cli.faults_run").FaultsCommand(chosen=chosen, settings=settings), files)
