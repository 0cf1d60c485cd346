"""The lines of the source that make a leaf differ: both programs of a point aligned, value by value.

Only for leaves that fail: both programs are interpreted once more, and parts of the variant many times. A gradient
whose forward outputs differ too is wrong for the reason that these are.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from samebits.check.execution import Execution, PendingPoint
from samebits.check.point_proofs import PointProofs
from samebits.check.sites import traced_sites
from samebits.errors import CouldNotRun, DeclarationError, NotCovered
from samebits.host.cache_keys import digest_of
from samebits.interpret.machine_independence import Independence
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.step_bounds import Blame
from samebits.programs.host_trees import named_leaves
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.prove.problem import at_inputs
from samebits.prove.prover import Prover, Unproved
from samebits.schema.contract import Direction
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference, NamedLines
from samebits.schema.pair import Pair
from samebits.schema.point import Point

if TYPE_CHECKING:
    from samebits.interpret.alignment.align import Alignment


POINTS = 4
"""Points of one variant and direction for which lines are searched: more of them rarely say more."""


NO_TYPE = "on either side the output has the dtype of an argument"
NO_LINE = "the outputs differ, but no source line is known to cause it"
NO_PLACE = "no line of either function is known: their code is jax's own, or was not read from a file"


def few_lines(results: Sequence[Finding]) -> list[Finding]:
    """Return the results with lines for only the first failing points of each variant and direction.

    A process names lines for the first ones that it meets, in the order of the plan, whatever others have met.

    Args:
        results: in the order of the plan.
    """
    first: defaultdict[tuple[str, str, str], dict[tuple[str, ...], None]] = defaultdict(dict)
    few = []
    for result in results:
        if result.named.lines or result.named.why is not None:
            points = first[result.place.pair, result.place.variant, result.place.direction]
            point = (result.place.case, result.place.dtype, result.place.mesh, result.place.mode)
            if point not in points and len(points) >= POINTS:
                few.append(replace(result, named=NamedLines(why=not_searched(result.place.variant))))
                continue
            points[point] = None
        few.append(result)
    return few


def not_searched(variant: str) -> str:
    """Explain why a failing point has no lines where enough others of its variant have."""
    return f"lines were searched for {POINTS} points of '{variant}', not for this one"


@dataclass(slots=True)
class LineFinder:
    """Names lines for the leaves of the points of one pair."""

    proofs: PointProofs
    _points: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _aligned: tuple[PendingPoint | None, dict[str, Alignment | str]] = (None, {})

    def lines(
        self,
        job: PendingPoint,
        path: str,
        label: str | None,
        other: Question | None = None,
        *,
        typed: bool = False,
        losing: Blame | None = None,
    ) -> NamedLines:
        """Find the lines that make a leaf of a point differ.

        Args:
            path: of the leaf; `*` of a gradient whose forward outputs differ in type.
            label: of the input at which it was seen.
            other: the programs at the inputs at which it was seen, where these are not of the case.
            typed: whether it has another dtype.
            losing: the operation that loses most accuracy, where one is known.
        """
        point = job.point
        searched = self._points.setdefault((point.variant, point.direction), [])
        if str(point) not in searched and len(searched) >= POINTS:
            return NamedLines(why=not_searched(point.variant))
        searched.append(str(point))
        try:
            if typed:
                lines = self._of_types(job, path)
                return NamedLines(lines, None if lines else NO_TYPE)
            named = self._named(job, path, label, other)
            lossy = () if named.lines or other is not None else self._losing(job, path, losing)
            return NamedLines(lossy) if lossy else named
        except CouldNotRun as error:
            return NamedLines(why=str(error))
        except Exception as error:  # a verdict that was found must not be lost to what explains it
            return NamedLines(why=f"the search failed ({type(error).__name__}: {error}), which is a bug of samebits")

    def _of_types(self, job: PendingPoint, path: str) -> tuple[LineDifference, ...]:
        """Find the lines at which an output gets its dtype; of a gradient that is not compared, a forward output."""
        from samebits.interpret.alignment.sources import dtype_lines

        direction = "forward" if path == "*" else job.point.direction
        names, first, second = self._programs(job, direction)
        return dtype_lines(first, second, names.index(path) if path in names else None)

    def _losing(self, job: PendingPoint, path: str, losing: Blame | None) -> tuple[LineDifference, ...]:
        """Find the line of the variant that loses accuracy: where numbers become narrower, or a known operation."""
        from samebits.interpret.alignment.sources import losing_line, narrower_lines

        names, first, second = self._programs(job, job.point.direction)
        lines = narrower_lines(first, second, names.index(path)) if path in names else ()
        return lines or (() if losing is None else losing_line(losing.step.equation))

    def _programs(self, job: PendingPoint, direction: Direction) -> tuple[list[str], Any, Any]:
        """Return the names of the outputs, and both programs."""
        execution = self.proofs.execution
        first, second = (execution.program(*end, direction).traced for end in execution.ends(job))
        return [*named_leaves(first.out_info, direction)], first.jaxpr, second.jaxpr

    def _named(self, job: PendingPoint, path: str, label: str | None, other: Question | None) -> NamedLines:
        if job.point.direction == "gradient":
            forward = self._forward(job, other)
            if forward is not None:
                return forward
        if other is None:
            questions = self.proofs.questions(job)
            known = self.proofs.field_identity(job, path)
            refuted = not isinstance(known, Unproved) and not known.equal and not known.undecided
            tried = {name: questions[name] for name in (next(iter(questions)), label) if name in questions}
        else:
            refuted, tried = True, {_digest(other): other}
        why = None
        for name, question in tried.items():
            if path not in question.outputs:
                continue
            aligned = self._alignment(job, name, question)
            if isinstance(aligned, str):
                why = why or aligned
                continue
            number = [*question.outputs].index(path)
            lines = aligned.lines(number, refuted=refuted)
            if lines:
                return NamedLines(lines)
            if aligned.differs(number):
                why = why or (NO_LINE if aligned.has_places() else NO_PLACE)
        return NamedLines(why=why or "as written, both sides compute the same formulas at these inputs")

    def _forward(self, job: PendingPoint, other: Question | None) -> NamedLines | None:
        """Find the lines of the forward outputs of a gradient's point; None where these are the same formulas."""
        execution, point = self.proofs.execution, job.point
        reference = execution.pair.reference_name
        inputs = execution.inputs(job.alone, reference, "forward")
        first = {label: inputs[label] for label in [*inputs][:1]}
        if other is not None:
            first = {_digest(other): (at_inputs(record, other), {}) for record, _ in first.values()}
        questions = self.proofs.prover.questions("forward", job.alone, point.variant, job.on_mesh, first)
        for label, question in questions.items():
            aligned = self._alignment(job, f"forward {label}", question)
            if isinstance(aligned, str):
                return None
            for number in range(len(question.outputs)):
                lines = aligned.lines(number)
                if lines:
                    return NamedLines(lines)
        return None

    def align(self, job: PendingPoint, question: Question) -> Alignment:
        """Return both programs of a point, value by value.

        Raises:
            NotCovered: they cannot be aligned.
        """
        from samebits.interpret.alignment.align import align

        forward = self._programs(job, "forward")[1:] if job.point.direction == "gradient" else None
        return align(question, self.proofs.execution.pair.name, forward=forward)

    def _alignment(self, job: PendingPoint, name: str, question: Question) -> Alignment | str:
        """Align both programs, or say why they cannot be aligned; those of the latest point are cached."""
        if self._aligned[0] is not job:
            self._aligned = job, {}
        cached = self._aligned[1]
        if name not in cached:
            try:
                cached[name] = self.align(job, question)
            except NotCovered as error:
                cached[name] = f"the programs cannot be aligned: {error}"
        return cached[name]


def _digest(question: Question) -> str:
    return digest_of([argument.values for argument in question.inputs])


# Interprets the points of a pair at the inputs of `check`, without compiling or executing them.
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
