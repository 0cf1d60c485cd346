"""`samebits bisect steps`: the first step at which two trainings do something else."""

from __future__ import annotations

import click

from samebits.cli import options
from samebits.cli.bisect import search_options
from samebits.cli.bisect_pairs import EndpointOptions, training_options


@click.command("steps")
@training_options
@search_options
@options.takes(EndpointOptions)
def steps(chosen: EndpointOptions) -> int:
    """The first step that does something else, and whether forward, backward or in the update.

    Every step of the training that differs is taken from the good one's state before that step, so that what a run only
    carries along is not blamed.
    """
    session, request = chosen.session(), chosen.endpoints()
    from samebits.bisect.steps import bisect_steps
    from samebits.cli.bisect_run import BisectCommand
    from samebits.cli.pipeline import run_command

    command = BisectCommand(what="steps", search=lambda session: bisect_steps(request, session), session=session)
    return run_command(command, chosen.report_files())
