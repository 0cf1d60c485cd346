"""`samebits emulate`: pairs checked on processors that are not at hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, say
from samebits.errors import RequestError


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@options.filters
@click.option("--processor", "processors", multiple=True, metavar="NAME", help="As `qemu-x86_64 -cpu help` lists them.")
@click.option("--seconds", type=click.IntRange(min=1), metavar="N", help="The longest that one processor may take.")
@options.root
@options.builtin
@guarded
def emulate(
    pairs: tuple[str, ...],
    processors: tuple[str, ...],
    seconds: int | None,
    root: Path | None,
    **chosen: tuple[str, ...],
) -> int:
    """Check PAIRs natively and on emulated processors (qemu's user mode); slow, so select little.

    By default IvyBridge, Haswell and EPYC, which differ in fused multiply-add, AVX2 and vendor. `moved` counts leaves
    whose reference has other bits than natively: where none moved, a processor is no evidence.
    Exit codes: 0 all contracts hold, 1 one breaks on a processor, 2 a wrong request, 3 a processor could not be run.
    """
    from samebits.cli.check_subprocess import Again
    from samebits.cli.emulate_run import PROCESSORS, columns, gravest, require_emulator, run_on, table
    from samebits.report.failure import point_block
    from samebits.report.terminal import console

    require_emulator()
    if not pairs:
        raise RequestError("name the pairs to emulate: every result takes seconds there, the whole tree takes hours")
    request = options.requested(chosen)
    again = Again(pairs=pairs, request=request, root=root)
    found = columns(
        again,
        processors or tuple(PROCESSORS),
        partial(run_on, seconds=seconds),
        lambda name: say(f"{name}: checking {', '.join(pairs)}"),
    )
    to, rows = console(), table(found)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        to.print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip(), soft_wrap=True)
    for column in found:
        if column.document is None:
            say(f"{column.processor}: {column.why}")
            continue
        for result in column.document.results:
            if result.failed:
                to.print("\n".join([f"FAILED  {column.processor}:", *point_block([result])]), soft_wrap=True)
        for problem in column.document.problems:
            say(f"{column.processor}: {problem.message}")
    return gravest(found)
