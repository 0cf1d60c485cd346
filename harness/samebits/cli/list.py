"""`samebits list`: the pairs of a tree, from their declarations alone; no jax is imported."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.cli import options
from samebits.rooms import door


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.JsonOption):
    """The options of `samebits list`."""

    devices: options.Devices = None
    root: options.AnyTree = None


@options.command(ListOptions, "list")
def list_pairs(chosen: ListOptions) -> int:
    """The pairs of a tree: sides, cases, dtypes, meshes, and how much of the product a check runs."""
    files = chosen.report_files()
    from samebits.cli.pipeline import run_command

    return run_command(door("cli.list_run").ListCommand(chosen=chosen), files)
