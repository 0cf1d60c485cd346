"""Interprets the points of a pair at the inputs of `check`, without compiling or executing them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from samebits.check.execution import Execution, PendingPoint
from samebits.check.line_evidence import LineFinder
from samebits.check.point_proofs import PointProofs
from samebits.check.sites import traced_sites
from samebits.errors import CouldNotRun, DeclarationError
from samebits.interpret.machine_independence import Independence
from samebits.interpret.problem import Question
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.prove.prover import Prover
from samebits.schema.pair import Pair
from samebits.schema.point import Point

if TYPE_CHECKING:
    from samebits.interpret.alignment.align import Alignment


class PointInterpreter:
    """Interprets points of one pair."""

    def __init__(self, pair: Pair, programs: Programs) -> None:
        import jax

        sides = TracedSides(pair, programs)
        self._proofs = PointProofs(Execution(sides), Prover(sides, jax.default_backend()))
        self._latest: PendingPoint | None = None

    def _job(self, point: Point) -> PendingPoint:
        if self._latest is None or self._latest.point != point:
            self._latest = traced_sites(self._proofs.execution.sides, point)
        return self._latest

    def questions(self, point: Point) -> list[Question]:
        """Return the question whether the variant is the reference, at each input of a point.

        Raises:
            CouldNotRun: a side does not trace.
        """
        return [*self._proofs.questions(self._job(point)).values()]

    def aligned(self, point: Point) -> Alignment:
        """Return both programs of a point at its first input, value by value.

        Raises:
            CouldNotRun: a side does not trace, or the programs cannot be aligned.
        """
        return LineFinder(self._proofs).align(self._job(point), self.questions(point)[0])

    def everywhere(self, point: Point, leaf: str) -> Independence:
        """Return whether the bits of a leaf are the same on every machine, on both sides and at every input."""
        try:
            return self._proofs.independence(self._job(point), leaf)
        except (CouldNotRun, DeclarationError) as error:
            return Independence(False, str(error))

    def moves(self, point: Point) -> bool:
        """Return whether labels prove that both sides only move data, and to the same places."""
        try:
            return self._proofs.movement(self._job(point)).holds
        except (CouldNotRun, DeclarationError):  # without a trace there is no proof; running it says why
            return False


@contextlib.contextmanager
def point_interpreter(pair: Pair) -> Iterator[PointInterpreter]:
    """Lend the points of a pair, with programs of their own."""
    programs = Programs(threads=1)
    try:
        yield PointInterpreter(pair, programs)
    finally:
        programs.close()
