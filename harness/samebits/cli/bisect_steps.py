"""`samebits bisect steps`: the first step at which two trainings do something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samebits.cli.bisect import search_options, session_of
from samebits.cli.bisect_pairs import prepare_devices, training_options
from samebits.cli.common import guarded


@click.command("steps")
@training_options
@search_options
@guarded
def steps(
    repeat: int, journal: Path | None, fresh: bool, json: Path | None, markdown: Path | None, **asked: Any
) -> int:
    """The first step that does something else, and whether forward, backward or in the update.

    Every step of the training that differs is taken from the good one's state before that step, so that what a run only
    carries along is not blamed.
    """
    session = session_of(repeat, journal, fresh, json, markdown)
    from samebits.bisect.endpoints import EndpointsRequest

    request = EndpointsRequest(**asked)
    prepare_devices(request)
    from samebits.bisect.steps import bisect_steps
    from samebits.cli.bisect_run import run_bisection

    return run_bisection("steps", lambda told: bisect_steps(request, told), session, json=json, markdown=markdown)
