"""The start of an accelerator in a process of its own: one that hangs is ended, and one that works is let go again.

So the process that drives workers lists the devices without holding them, and every start has a time limit.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.host.accelerator import expected_platform, jax_platforms, no_answer, why_not_started
from samebits.host.environment import Environment
from samebits.host.subprocesses import run_process, samebits_environment

START_SECONDS = 300.0
"""How long an accelerator may take to start; one TPU host takes about ten seconds, a large slice a minute or two."""

_MARK = "samebits-environment "
_CODE = "from samebits.host.backend_start import print_environment; print_environment()"


def capture_apart(seconds: float = START_SECONDS) -> Environment:
    """Return the environment that a process started from here would have, captured by one that ends at once."""
    platform = expected_platform()
    words = [sys.executable, "-c", _CODE]
    try:
        ended = run_process(words, Path.cwd(), samebits_environment(os.environ), seconds)
    except CouldNotRun:
        raise RequestError(no_answer(platform, seconds)) from None
    for line in ended.out.splitlines():
        if line.startswith(_MARK):
            answer = json.loads(line.removeprefix(_MARK))
            if "error" in answer:
                raise RequestError(answer["error"])
            return Environment(**{**answer, "instruction_sets": tuple(answer["instruction_sets"])})
    how = signal.Signals(-ended.code).name if ended.code < 0 else f"exit code {ended.code}"
    last = f": {ended.last}" if ended.last else ""
    raise RequestError(why_not_started(platform, f"the process that tried ended with {how}{last}"))


def require_answer(seconds: float = START_SECONDS) -> None:
    """Have another process show that the accelerator answers before jax starts in this one; not for the CPU.

    One that does not is tried once, since a hundred tests of a session must not wait for it a hundred times.
    """
    if environment.backend_started() or expected_platform() == "cpu" or _spans_processes():
        return
    why = _tried(seconds)
    if why is not None:
        raise RequestError(why)


def _spans_processes() -> bool:
    """Return whether this is one of several processes with one mesh, whose accelerators start all at once."""
    jax = sys.modules.get("jax")
    return jax is not None and bool(jax.distributed.is_initialized())


@functools.cache
def _tried(seconds: float) -> str | None:
    try:
        capture_apart(seconds)
    except RequestError as error:
        return str(error)
    return None


def leave_to_workers(workers: int) -> Environment:
    """Have jax start on the CPU in this process alone; return the environment of the processes that it starts."""
    environment.prepare(processes=workers)
    here = capture_apart()
    import jax

    if here.platform in ("gpu", "tpu"):
        os.environ.setdefault("JAX_PLATFORMS", jax_platforms(here.platform))
    jax.config.update("jax_platforms", "cpu")
    return here


def print_environment() -> None:
    """Print what `capture_apart` reads: the environment, or why there is none."""
    try:
        answer = asdict(environment.capture())
    except RequestError as error:
        answer = {"error": str(error)}
    print(_MARK + json.dumps(answer), flush=True)
