"""`samebits accept`: what this environment gives beyond the contracts becomes its snapshot of verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option
from samebits.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class AcceptOptions(options.Filters, engine_options.WorkerOptions, options.JsonOption):
    """The options of `samebits accept`."""

    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    verdicts: Annotated[bool, option("Accept verdicts of check; goldens have `samebits golden accept`.")] = False
    reason: Annotated[str, option("Why; mandatory, and recorded in the file.", "TEXT")] = ""
    author: Annotated[str | None, option("Who says so; git's user by default.", "NAME")] = None
    devices: options.Devices = None
    platform: options.Platform = None
    root: options.Tree = None


@options.command(AcceptOptions)
def accept(chosen: AcceptOptions) -> int:
    """Check pairs, and record which bits are equal in this environment beyond what the contracts require everywhere.

    Files: suites/verdicts/PLATFORM/PAIR.json, several environments side by side. In a known environment a lost bit
    then fails `samebits check`; elsewhere it is reported. Rejected where CI is set, on a dirty tree, without a reason,
    and for a pair with a failing result.
    Exit codes: 0 accepted, 1 a pair fails, 2 a wrong request or a damaged file, 3 undecided.
    """
    if not chosen.verdicts:
        raise RequestError("name what to accept: --verdicts; training runs have `samebits golden accept`")
    if any(":" in pair for pair in chosen.pairs):
        raise RequestError("verdicts are recorded in a tree of pairs: name a pair of the tree, not module:PAIR")
    from samebits.host import environment

    environment.prepare(devices=chosen.devices, platform=chosen.platform, processes=chosen.workers or 1)
    settings = chosen.engine_settings()  # how many workers there are depends on the platform
    return options.run("snapshot_run:accept_pairs", chosen, settings)
