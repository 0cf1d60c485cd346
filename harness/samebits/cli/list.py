"""`samebits list`: the pairs of a tree, from their declarations alone; no jax backend is started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samebits.cli import options
from samebits.errors import SamebitsError

if TYPE_CHECKING:
    from samebits.cli.pipeline import CommandRun
    from samebits.report.list import Listing


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.JsonOption):
    """The options of `samebits list`."""

    devices: options.Devices = None
    root: options.AnyTree = None


@options.command(ListOptions, "list")
def list_pairs(chosen: ListOptions) -> int:
    """The pairs of a tree: sides, cases, dtypes, meshes, and how much of the product a check runs."""
    return options.run("list:loaded_pairs", chosen)


def loaded_pairs(chosen: ListOptions, run: CommandRun) -> Listing:
    """Load and plan one pair after the other; one that is wrong is a problem, and the others go on."""
    from samebits.cli.supervision import importing
    from samebits.host.environment import asked_devices
    from samebits.programs.catalogue import Locator, default_root, load, names
    from samebits.programs.plan import Request, plan
    from samebits.report.list import Listing, PairRow
    from samebits.schema.result import Problem

    rows: list[PairRow] = []
    for name in names(chosen.root or default_root()):
        try:
            with importing(name):
                pair = load(Locator(name=name, root=None if chosen.root is None else str(chosen.root)))
                rows.append(PairRow.of(pair, plan(pair, Request(), chosen.devices or asked_devices())))
        except SamebitsError as error:
            run.problem(Problem(pair=name, message=str(error), exit_code=error.exit_code))
    return Listing(results=tuple(rows), problems=tuple(run.problems))
