"""`samebits compare`: two functions by name, without a declaration."""

from __future__ import annotations

from samebits.cli import options
from samebits.cli.compare_options import CompareFunctionsOptions


@options.command(CompareFunctionsOptions)
def compare(chosen: CompareFunctionsOptions) -> int:
    """Compare two functions, without a declaration: the second with the first, forward and gradient.

    Each is MODULE:FUNCTION, or FILE.py:FUNCTION; --arg declares the arrays that both take, by the first's names.
    """
    files = chosen.report_files()
    from samebits.host import environment

    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    from samebits.cli.compare_run import CompareCommand
    from samebits.cli.pipeline import run_command
    from samebits.engine.sweep import IN_PROCESS
    from samebits.programs.plan import Request
    from samebits.schema.point import Effort

    command = CompareCommand(
        pairs=(),
        request=Request(),
        root=None,
        settings=IN_PROCESS,
        no_skips=False,
        effort=Effort(assuming=not chosen.no_assumptions),
        audited=False,
        verbose=True,  # two functions have few results
        chosen=chosen,
    )
    return run_command(command, files)
