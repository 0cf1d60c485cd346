"""`samebits compare`: two functions by name, without a declaration."""

from __future__ import annotations

import click

from samebits.cli import options
from samebits.cli.compare_options import CompareFunctionsOptions
from samebits.schema.argument_text import EXAMPLES


@click.command()
@click.argument("reference", metavar="MODULE:FUNCTION")
@click.argument("variant", metavar="MODULE:FUNCTION")
@click.option("--arg", multiple=True, metavar="WORD", help=f"An array argument, as in {EXAMPLES}.")
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="A static argument, a Python literal: eps=1e-6.")
@click.option("--rename", multiple=True, metavar="NAME=OTHER", help="What the second function calls an argument.")
@click.option(
    "--mesh", default="none", show_default=True, metavar="NAME", help="The mesh of the second, as in dp2_tp4."
)
@click.option("--mode", type=click.Choice(["auto", "explicit"]), default="auto", show_default=True, help="Its axes.")
@click.option(
    "--accept",
    type=click.Choice(["proved", "bitwise", "rounding"]),
    help="The lowest verdict that passes; by default the bits of what moves data, and rounding of what computes.",
)
@click.option("--forward", is_flag=True, help="No gradients.")
@click.option("--has-aux", is_flag=True, help="The functions return (outputs, auxiliary); the first is differentiated.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many sets of inputs.")
@options.no_assumptions
@options.devices
@options.platform
@options.json_results
@options.markdown_file("a table for a pull request")
@options.takes(CompareFunctionsOptions)
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
