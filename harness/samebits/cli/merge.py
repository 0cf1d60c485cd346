"""`samebits merge`: the documents or journals of the shards of one check as one document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from samebits.cli import options
from samebits.cli.declared import argument, option


@dataclass(frozen=True, kw_only=True)
class MergeOptions(options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits merge`."""

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
    files = chosen.report_files()
    from samebits.host import environment

    environment.prepare()
    from samebits.cli.merge_run import merge_command
    from samebits.cli.pipeline import run_command

    command = merge_command(chosen.files, chosen.root, no_skips=chosen.no_skips)
    return run_command(replace(command, verbose=chosen.verbose), files)
