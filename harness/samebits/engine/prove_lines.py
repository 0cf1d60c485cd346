"""The lines of the source that make a refuted leaf differ; nothing is compiled or run for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from samebits.check.judge import AT_OTHERS
from samebits.check.line_evidence import POINTS
from samebits.errors import CouldNotRun, NotCovered
from samebits.host.cache_keys import digest_of
from samebits.interpret.alignment.align import Alignment, align
from samebits.interpret.alignment.dtype_lines import dtype_lines
from samebits.interpret.problem import Question
from samebits.programs.inputs import Record
from samebits.programs.sides import Site
from samebits.prove.problem import at_inputs, cotangents_of
from samebits.prove.prover import Prover
from samebits.schema.line_difference import LineDifference
from samebits.schema.point import Point
from samebits.schema.proof import ProofResult

TYPES = ("dtype: ", "weak type: ")
"""How the witness begins where a leaf has another type."""


class RefutedLines:
    """Names lines for the refuted leaves of one pair, of a few points of each variant and direction.

    Args:
        prover: of the pair.
    """

    def __init__(self, prover: Prover) -> None:
        self.prover = prover
        self._points: dict[tuple[str, str], set[Point]] = {}
        self._latest: tuple[Point | None, dict[tuple[str, str], Alignment | NotCovered]] = (None, {})

    def named(
        self, point: Point, ends: tuple[Site, Site], records: Mapping[str, Record], arguments: Iterable[ProofResult]
    ) -> list[ProofResult]:
        """The leaves of a point, the refuted ones with the lines that make them differ or why none are named.

        Args:
            point: of the pair.
            ends: where the reference and the variant are traced.
            records: the inputs, the ordinary ones first.
            arguments: of its leaves.
        """
        record = next(iter(records.values()))
        return [self._named(argument, point, ends, record) for argument in arguments]

    def _named(self, argument: ProofResult, point: Point, ends: tuple[Site, Site], record: Record) -> ProofResult:
        typed = str(argument.witness).startswith(TYPES)
        if argument.verdict != "different" or argument.ok or not (typed or argument.method in ("labels", "fields")):
            return argument
        points = self._points.setdefault((point.variant, point.direction), set())
        if point not in points and len(points) >= POINTS:
            return argument
        points.add(point)
        if self._latest[0] != point:
            self._latest = point, {}
        try:
            return replace(argument, lines=self._lines(argument, point, ends, record))
        except (CouldNotRun, NotCovered) as error:
            return replace(argument, no_lines=str(error))
        except Exception as error:  # a proof must not be lost to what explains it
            return replace(argument, no_lines=f"the search failed ({type(error).__name__}: {error}), a bug of samebits")

    def _lines(
        self, argument: ProofResult, point: Point, ends: tuple[Site, Site], record: Record
    ) -> tuple[LineDifference, ...]:
        alone, on_mesh = ends
        leaf, cotangents = argument.leaf, {}
        if point.direction == "gradient":
            cotangents = cotangents_of(self.prover.sides, self.prover.sides.pair.reference_name, alone)
        question = self.prover.question(point.direction, alone, point.variant, on_mesh, record, cotangents)
        if str(argument.witness).startswith(AT_OTHERS):
            other = self.prover.counterexample({"": question}, leaf)
            if other is not None and other.question is not None:  # where the difference was seen
                question, record = other.question, at_inputs(record, other.question)
        forward = self.prover.question("forward", alone, point.variant, on_mesh, record, {})
        if str(argument.witness).startswith(TYPES):
            typed = question if leaf in question.outputs else forward
            names = [*typed.outputs]
            return dtype_lines(typed.reference, typed.variant, names.index(leaf) if leaf in names else None)
        aligned = self._aligned("forward", forward, None)
        if point.direction == "forward":
            return aligned.lines([*forward.outputs].index(leaf), refuted=True)
        for number in range(len(forward.outputs)):
            lines = aligned.lines(number)
            if lines:  # then the gradient is wrong for the same reason
                return lines
        aligned = self._aligned("gradient", question, (forward.reference, forward.variant))
        return aligned.lines([*question.outputs].index(leaf), refuted=True)

    def _aligned(self, direction: str, question: Question, functions: tuple[Any, Any] | None) -> Alignment:
        """Both programs aligned; those of the latest point are cached, and so is why they cannot be."""
        cached, name = self._latest[1], (direction, digest_of([each.values for each in question.inputs]))
        if name not in cached:
            try:
                cached[name] = align(question, self.prover.sides.pair.name, forward=functions)
            except NotCovered as error:
                cached[name] = error
        aligned = cached[name]
        if isinstance(aligned, NotCovered):
            raise aligned
        return aligned
