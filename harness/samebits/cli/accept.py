"""`samebits accept`: what this environment gives beyond the contracts becomes its snapshot of verdicts."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_writable
from samebits.errors import RequestError


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@click.option("--verdicts", is_flag=True, help="Accept verdicts of check; goldens have `samebits golden accept`.")
@click.option("--reason", default="", metavar="TEXT", help="Why; mandatory, and recorded in the file.")
@click.option("--author", metavar="NAME", help="Who says so; git's user by default.")
@options.filters
@options.devices
@options.workers
@options.full
@options.root
@options.json_results
@guarded
def accept(
    pairs: tuple[str, ...],
    verdicts: bool,
    reason: str,
    author: str | None,
    devices: int | None,
    workers: int,
    full: bool,
    root: Path | None,
    json: Path | None,
    **chosen: tuple[str, ...],
) -> int:
    """Check pairs, and record which bits are equal in this environment beyond what the contracts require everywhere.

    Files: suites/verdicts/PLATFORM/PAIR.json, several environments side by side. In a known environment a lost bit
    then fails `samebits check`; elsewhere it is reported. Rejected where CI is set, on a dirty tree, without a reason,
    and for a pair with a failing result.
    Exit codes: 0 accepted, 1 a pair fails, 2 a wrong request or a damaged file, 3 could not tell.
    """
    if not verdicts:
        raise RequestError("name what to accept: --verdicts; training runs have `samebits golden accept`")
    if any(":" in pair for pair in pairs):
        raise RequestError("verdicts are recorded in a tree of pairs: name a pair of the tree, not module:PAIR")
    require_writable("--json", json)
    from samebits.host import environment

    environment.prepare(devices=devices)
    from samebits.cli.snapshot_run import run_accept

    request = options.requested(chosen, full)
    return run_accept(pairs, request, root=root, workers=workers, json=json, reason=reason, author=author)
