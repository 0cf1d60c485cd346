"""`samebits bisect steps`: the first step at which two trainings differ."""

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
    """Find the first step that differs, and whether in the forward pass, the backward pass or the update.

    Every step of the training that differs starts from the good one's state before that step, so that differences which
    a run only carries along are not attributed to it.
    """
    session, request = chosen.session(), chosen.endpoints()
    from samebits.bisect.steps import bisect_steps

    return chosen.run("steps", lambda session: bisect_steps(request, session), session)
