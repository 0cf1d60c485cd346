"""`samebits bisect tensors`: the first tensor that is wrong although what it is computed from is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samebits.cli.bisect import search_options, session_of
from samebits.cli.bisect_pairs import prepare_devices, training_options
from samebits.cli.common import guarded


@click.command("tensors")
@training_options
@search_options
@guarded
def tensors(
    repeat: int, journal: Path | None, fresh: bool, json: Path | None, markdown: Path | None, **asked: Any
) -> int:
    """The first tensor, in the order of computation, that exceeds its bound when its block gets the good inputs.

    Both steps are walked at the smallest sizes, without compiling; what goes into each part of the model, and the
    cotangents of what comes out of it, are those of the good training. Forward and backward.
    """
    session = session_of(repeat, journal, fresh, json, markdown)
    from samebits.bisect.endpoints import EndpointsRequest

    request = EndpointsRequest(**asked)
    prepare_devices(request)
    from samebits.bisect.tensors import bisect_tensors
    from samebits.cli.bisect_run import run_bisection

    return run_bisection("tensors", lambda told: bisect_tensors(request, told), session, json=json, markdown=markdown)
