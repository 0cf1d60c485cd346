"""Further draws of a point's inputs, for the programs that are compiled already: errors against the ideal value."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.check.error_groups import error_ratios, without_constants
from samebits.check.execution import Execution, Inputs, PendingPoint
from samebits.check.sequential_test import More, Ratios
from samebits.errors import DeclarationError, NotCovered
from samebits.host.cache_keys import digest_of
from samebits.interpret.equation import Array
from samebits.interpret.field_proof.float64_noise import IdealValue, floored_values
from samebits.interpret.rounding_error.estimate import ideal_values
from samebits.numerics import floats
from samebits.programs.given_values import keeps_places
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site
from samebits.prove.prover import Prover
from samebits.schema.contract import Direction
from samebits.schema.values import Given

CACHED = 512
"""How many ideal values are held, each for one program and input."""


class FurtherDraws:
    """Draws of the points of one pair.

    Args:
        execution: what runs programs.
        prover: what interprets them.
        platform: where they run, which decides how wide products of matrices are.
    """

    def __init__(self, execution: Execution, prover: Prover, platform: str) -> None:
        self.execution = execution
        self.prover = prover
        self.platform = platform
        self._depend: dict[tuple[str, str], bool] = {}
        self._ideals: dict[tuple[Program, str, bool], dict[str, IdealValue]] = {}

    def depend(self, job: PendingPoint) -> bool:
        """Whether the draws of a point depend on each other, being variations of one array in its places."""
        key = job.point.case, job.point.mesh
        if key not in self._depend:
            args = self.execution.pair.arguments(job.alone.case, job.alone.mesh)
            self._depend[key] = any(isinstance(arg.values, Given) and keeps_places(arg.values) for arg in args.values())
        return self._depend[key]

    def ratios(self, job: PendingPoint, path: str, floored: Collection[str] = (), constants: bool = False) -> More:
        """What gives the error ratios of one leaf, draw by draw.

        Args:
            job: of the point.
            path: of the leaf.
            floored: the inputs at which numbers of the leaf are zero but for rounding.
            constants: the sides are the same formula but for the rounding of constants.
        """

        def more(draw: int, labels: Collection[str]) -> dict[str, Ratios] | None:
            drawn = replace(job, alone=replace(job.alone, draw=draw), on_mesh=replace(job.on_mesh, draw=draw))
            reference, direction = self.execution.pair.reference_name, job.point.direction
            try:
                inputs = self.execution.inputs(drawn.alone, reference, direction)
            except DeclarationError:  # this draw has equal rows, say; another will not
                return {}
            if _equal(inputs, self.execution.inputs(job.alone, reference, direction)):
                return None
            alone, variant = (
                self.execution.run(self._program(side, site, direction), side, site, direction, list(labels))
                for side, site in ((reference, drawn.alone), (job.point.variant, drawn.on_mesh))
            )
            ratios: dict[str, Ratios] = {}
            for label in (label for label in labels if label in inputs):
                ideal = self._ideal(drawn, label, inputs, label in floored)[path]
                first, second = (floats.parts(outputs.trees[label].leaves[path].array) for outputs in (alone, variant))
                if constants:
                    second, _ = without_constants(second, ideal.value, self._own(drawn, inputs[label])[path])
                ratios[label] = error_ratios(first, second, floats.parts(ideal.value), ideal.floor)
            return ratios

        return more

    def _ideal(self, job: PendingPoint, label: str, inputs: Inputs, floored: bool) -> dict[str, IdealValue]:
        """The ideal values of a point's leaves at one input: interpreted, or executed in float64."""
        record, cotangents = inputs[label]
        reference = self._program(self.execution.pair.reference_name, job.alone, job.point.direction)
        key = reference, digest_of([*record.values(), *cotangents.values()], *record, *cotangents), floored
        if key not in self._ideals:
            if len(self._ideals) >= CACHED:
                self._ideals.clear()
            self._ideals[key] = self._evaluate(job, label, inputs, floored)
        return self._ideals[key]

    def _own(self, job: PendingPoint, record: Any) -> dict[str, Array]:
        """The variant in float64, with its own constants."""
        question = self.prover.question(job.point.direction, job.alone, job.point.variant, job.on_mesh, *record)
        return ideal_values(question.variant, question, [np.asarray(argument.values) for argument in question.inputs])

    def _program(self, side: str, site: Site, direction: Direction) -> Program:
        """The program of a side, which is the same in every draw and is compiled already."""
        return self.execution.sides.programs.start(self.execution.program(side, site, direction))

    def _evaluate(self, job: PendingPoint, label: str, inputs: Inputs, floored: bool) -> dict[str, IdealValue]:
        direction, reference = job.point.direction, self.execution.pair.reference_name
        try:
            question = self.prover.question(direction, job.alone, job.point.variant, job.on_mesh, *inputs[label])
            if floored:
                return floored_values(question, self.platform)
            plain = ideal_values(
                question.reference, question, [np.asarray(argument.values) for argument in question.inputs]
            )
            return {path: IdealValue(value) for path, value in plain.items()}
        except NotCovered:
            wide = replace(job.alone, x64=True)
            outputs = self.execution.run(self._program(reference, wide, direction), reference, wide, direction, [label])
            return {path: IdealValue(leaf.array) for path, leaf in outputs.trees[label].leaves.items()}


def _equal(inputs: Inputs, others: Inputs) -> bool:
    """Whether two draws are one: the declaration gives fixed values, and there is nothing to draw."""
    return all(
        np.array_equal(array, other[name])
        for label, (record, cotangents) in inputs.items()
        for arrays, other in ((record, others[label][0]), (cotangents, others[label][1]))
        for name, array in arrays.items()
    )
