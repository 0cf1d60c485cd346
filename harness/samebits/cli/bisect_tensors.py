"""`samebits bisect tensors`: the first tensor that is wrong although its inputs are right."""

from __future__ import annotations

import click

from samebits.cli import options
from samebits.cli.bisect import search_options
from samebits.cli.bisect_pairs import EndpointOptions, training_options


@click.command("tensors")
@training_options
@search_options
@options.takes(EndpointOptions)
def tensors(chosen: EndpointOptions) -> int:
    """Find the first tensor, in the order of computation, that exceeds its bound when its block gets the good inputs.

    Both steps are interpreted at the smallest sizes, without compiling; what goes into each part of the model, and the
    cotangents of what comes out of it, are those of the good training. Forward and backward.
    """
    session, request = chosen.session(), chosen.endpoints()
    from samebits.bisect.tensors import bisect_tensors
    from samebits.cli.bisect_run import BisectCommand
    from samebits.cli.pipeline import run_command

    command = BisectCommand(what="tensors", search=lambda session: bisect_tensors(request, session), session=session)
    return run_command(command, chosen.report_files())
