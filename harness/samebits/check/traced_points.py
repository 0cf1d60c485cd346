"""Interprets the points of a pair at the inputs of `check`, without compiling or executing them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from samebits.check.execution import Execution
from samebits.errors import CouldNotRun, DeclarationError
from samebits.interpret.machine_independence import Independence, independence_at_all_inputs
from samebits.interpret.problem import Question
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides, baseline, on_mesh_of
from samebits.prove.prover import Prover, Unproved
from samebits.prove.same_program import with_primal
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point

if TYPE_CHECKING:
    from samebits.interpret.alignment.align import Alignment


class PointInterpreter:
    """Interprets points of one pair."""

    def __init__(self, pair: Pair, programs: Programs) -> None:
        import jax

        self._execution = Execution(TracedSides(pair, programs))
        self._prover = Prover(self._execution.sides, jax.default_backend())
        self._everywhere: tuple[Point | None, dict[str, Independence] | str] = (None, {})

    def questions(self, point: Point) -> list[Question]:
        """Return the question whether the variant is the reference, at each input of a point.

        Raises:
            CouldNotRun: a side does not trace.
        """
        pair, (alone, on_mesh) = self._execution.pair, self._sites(point)
        inputs = self._execution.inputs(alone, pair.reference_name, point.direction)
        return [
            self._prover.question(point.direction, alone, point.variant, on_mesh, record, cotangents)
            for record, cotangents in inputs.values()
        ]

    def aligned(self, point: Point) -> Alignment:
        """Return both programs of a point at its first input, value by value.

        Raises:
            CouldNotRun: a side does not trace, or the programs cannot be aligned.
        """
        from samebits.interpret.alignment.align import align

        sides, functions = self._execution.sides, None
        if point.direction == "gradient":
            ends = zip((sides.pair.reference_name, point.variant), self._sites(point), strict=True)
            first, second = (sides.forward(*end).traced.jaxpr for end in ends)
            functions = first, second
        return align(self.questions(point)[0], sides.pair.name, forward=functions)

    def _sites(self, point: Point) -> tuple[Site, Site]:
        """Return where the reference and the variant of a point are traced."""
        pair, mesh = self._execution.pair, MeshSpec.parse(point.mesh)
        case, built = pair.case(point.case), mesh.abstract(point.mode)
        on_mesh = Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)
        sides = self._execution.sides
        on_mesh = with_primal(sides, point.direction, point.variant, on_mesh_of(sides, point.variant, on_mesh))
        return baseline(sides, on_mesh, runs=False)[0], on_mesh

    def everywhere(self, point: Point, leaf: str) -> Independence:
        """Return whether the bits of a leaf are the same on every machine, on both sides and at every input."""
        if self._everywhere[0] != point:
            try:
                self._everywhere = point, independence_at_all_inputs(self.questions(point))
            except (CouldNotRun, DeclarationError) as error:
                self._everywhere = point, str(error)
        independence = self._everywhere[1]
        if isinstance(independence, str):
            return Independence(False, independence)
        return independence.get(leaf, Independence(False, "the outputs have different tree structures"))

    def moves(self, point: Point) -> bool:
        """Return whether labels prove that both sides only move data, and to the same places."""
        try:
            proofs = [self._prover.movement(question) for question in self.questions(point)]
        except (CouldNotRun, DeclarationError):  # without a trace there is no proof; running it says why
            return False
        return not any(
            isinstance(proof, Unproved) or not all(leaf.equal for leaf in proof.values()) for proof in proofs
        )


@contextlib.contextmanager
def point_interpreter(pair: Pair) -> Iterator[PointInterpreter]:
    """Lend the points of a pair, with programs of their own."""
    programs = Programs(threads=1)
    try:
        yield PointInterpreter(pair, programs)
    finally:
        programs.close()
