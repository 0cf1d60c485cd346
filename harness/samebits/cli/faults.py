"""`samebits faults`: plant every known fault, and show that the check catches each."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_writable, say, write_text
from samebits.errors import RequestError
from samebits.programs.catalogue import default_root


@click.command()
@click.argument("patterns", nargs=-1, metavar="[PAIR]...")
@options.root
@options.builtin
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes.")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the table as JSON.")
@guarded
def faults(patterns: tuple[str, ...], root: Path | None, workers: int, json: Path | None) -> int:
    """Plant the faults of a tree's `suites/faults/` in its pairs and in the harness itself; show what the check says.

    PAIR limits the table to some pairs, shell patterns allowed. Exit code 1 when a fault is not caught, or when an
    honest implementation fails where its fault is planted.
    """
    require_writable("--json", json)
    from samebits.host import environment

    environment.prepare()
    from samebits.audit.faults.find import all_faults
    from samebits.audit.faults.run import checked
    from samebits.report.faults import FaultRow, encode_faults, show_fault, show_faults_end
    from samebits.report.terminal import console

    tree = (root or default_root()).resolve()
    known = all_faults(tree)
    numbers = [
        number
        for number, fault in enumerate(known)
        if not patterns or any(fnmatchcase(fault.pair, text) for text in patterns)
    ]
    if not numbers:
        names = ", ".join(dict.fromkeys(fault.pair for fault in known))
        raise RequestError(f"no fault is planted in {' '.join(patterns)}; expected some of {names}")
    to, rows = console(), []
    try:
        for count, (number, found) in enumerate(checked(tree, numbers, workers), 1):
            fault = known[number]
            rows.append(
                FaultRow(
                    pair=fault.pair,
                    side=fault.side,
                    fault=fault.name,
                    expected=f"{fault.verdict} ({fault.kind})" if fault.kind else fault.verdict,
                    caught=found.caught,
                    honest=found.honest,
                    said=found.said,
                    results=found.results,
                    failed=found.failed,
                    by=found.by,
                )
            )
            show_fault(to, count, len(numbers), rows[-1])
    except KeyboardInterrupt:
        say("interrupted")
    show_faults_end(to, rows, len(numbers))
    if json is not None:
        write_text(json, encode_faults(rows))
    if any(not (row.caught and row.honest) for row in rows):
        return 1
    return 0 if len(rows) == len(numbers) else 3
