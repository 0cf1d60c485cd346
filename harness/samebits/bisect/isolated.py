"""`Recompiled` in a child process, because XLA may abort the process when some of its passes are disabled."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from samebits.bisect.recompile import Recompiled, RecompiledSides
from samebits.errors import CouldNotRun, SamebitsError
from samebits.host.file_reads import READS
from samebits.host.interrupts import withheld_from_children
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import Array
from samebits.schema.point import Point
from samebits.user_errors import one_line

PATIENCE = 180.0
"""Seconds after which a run counts as hanging."""


class IsolatedSides:
    """Compiles and runs both sides of a point in a child process, which is restarted if it crashes.

    Args:
        locator, point: the pair and the point; the child process loads the pair itself.
    """

    def __init__(self, locator: Locator, point: Point) -> None:
        self.locator, self.point = locator, point
        self._process: Any = None
        self._ours: Any = None

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """As `Recompiled.recompile`.

        Raises:
            CouldNotRun: the compiler rejects an option, fails, or crashes the process.
        """
        recompiled: RecompiledSides = self._ask("recompile", dict(options), collect)
        return recompiled

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """As `Recompiled.oracle`.

        Raises:
            CouldNotRun: the value cannot be computed.
        """
        ideal: tuple[Array, str] = self._ask("oracle", label, leaf)
        return ideal

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(5)
            self._ours.close()
            self._process = None

    def _ask(self, *question: Any) -> Any:
        if self._process is None:
            self._start()
        try:
            self._ours.send(question)
            if not self._ours.poll(PATIENCE):
                raise CouldNotRun(f"did not end within {PATIENCE:.0f} s")
            answer, reads = self._ours.recv()
        except CouldNotRun:
            self.close()
            raise
        except (EOFError, OSError):
            self._process.join(5)
            how = self._process.exitcode
            cause = signal.Signals(-how).name if how is not None and how < 0 else f"exit code {how}"
            self.close()
            raise CouldNotRun(f"crashed its process ({cause})") from None
        READS.add(reads)
        if isinstance(answer, SamebitsError):
            raise answer
        return answer

    def _start(self) -> None:
        import jax

        # A fresh interpreter: a forked child would inherit jax's threads without their locks.
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        devices = len(jax.devices()) if jax.default_backend() == "cpu" else None
        args = (theirs, self.locator, self.point, devices, os.environ.get("JAX_PLATFORMS"))
        self._process = context.Process(target=_serve, args=args, daemon=True)
        with withheld_from_children():
            self._process.start()
        theirs.close()  # otherwise `recv` would not see the child process end


def _serve(
    connection: Connection[Any, Any], locator: Locator, point: Point, devices: int | None, platform: str | None
) -> None:
    # Discard XLA's output on abort: the table of trials reports the crash.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from samebits.host import environment

    READS.look()
    environment.prepare(devices=devices, platform=platform)
    from samebits.programs.program_cache import Programs

    sides = None
    while True:
        try:
            what, *args = connection.recv()
        except (EOFError, OSError):  # the parent has closed the connection: there are no more questions
            return
        try:
            if sides is None:
                sides = Recompiled(load(locator), point, Programs())
            answer: Any = sides.recompile(args[0], collect=args[1]) if what == "recompile" else sides.oracle(*args)
        except SamebitsError as error:
            answer = type(error)(*error.args)
        except Exception as error:
            answer = CouldNotRun(f"samebits itself {one_line(error)}")
        connection.send((answer, READS.all()))
