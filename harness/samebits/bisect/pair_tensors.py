"""The first tensor of a variant that occurs nowhere in the reference, for any pair: both programs are aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.bisect.point import PointRequest, point_of
from samebits.bisect.search.trials import SearchFinding
from samebits.errors import CouldNotRun, RequestError
from samebits.interpret.alignment.align import Alignment
from samebits.schema.line_difference import AlignedTensor, LineDifference
from samebits.schema.pair import Pair
from samebits.schema.point import Point


def first_point(pair: Pair, request: PointRequest) -> Point:
    """Return the point of a request; a variant, case or mesh that is not given is the first of the pair.

    Raises:
        RequestError: the pair has none, or not that one.
    """
    variants = [side for side in pair.sides if side != pair.reference_name]
    if not variants:
        raise RequestError(f"pair '{pair.name}' has no variant; there is nothing to align with '{pair.reference_name}'")
    case = request.case or pair.cases[0].id
    known = {each.id: each for each in pair.cases}
    meshes = (known[case].meshes if case in known else None) or pair.meshes
    return point_of(
        pair, replace(request, variant=request.variant or variants[0], case=case, mesh=request.mesh or str(meshes[0]))
    )


def align_pair(pair: Pair, request: PointRequest, replay: str) -> SearchFinding:
    """Find the first value of a variant that makes one of its outputs differ.

    Raises:
        RequestError: the pair has no such point or output.
    """
    from samebits.check.line_evidence import point_interpreter

    point = first_point(pair, request)
    where = f"{pair.name}/{point.variant}, case {point.case}, {point.dtype}, mesh {point.mesh}, {point.direction}"
    with point_interpreter(pair) as points:
        try:
            aligned = points.aligned(point)
        except CouldNotRun as error:
            sentence = f"{where}: could not tell: {error}"
            return SearchFinding(what="tensors", found=False, sentence=sentence, skipped=(str(error),))
        number = _output(aligned, request.leaf)
        if number is None:
            sentence = f"{where}: every output of the variant is that of the reference in float64"
            return SearchFinding(what="tensors", found=False, sentence=sentence, runs=2)
        lines, tensors = aligned.lines(number), aligned.tensors(number)
    return _finding(where, aligned.question.outputs[number], lines, tensors, replay)


def _output(aligned: Alignment, leaf: str | None) -> int | None:
    """Return the number of the output, or of the first that differs; None where none does."""
    outputs = [*aligned.question.outputs]
    if leaf is not None and leaf not in outputs:
        raise RequestError(f"--leaf {leaf}: unknown output; expected one of {', '.join(outputs)}")
    chosen = range(len(outputs)) if leaf is None else [outputs.index(leaf)]
    return next((number for number in chosen if aligned.differs(number)), None)


def _finding(
    where: str, leaf: str, lines: Sequence[LineDifference], tensors: Sequence[AlignedTensor], again: str
) -> SearchFinding:
    """Return the answer: the lines, and every tensor up to the first that differs."""
    first = next((tensor for tensor in tensors if tensor.first), None)
    witness = ""
    if first is not None:
        inside = "" if first.iteration is None else f", iteration {first.iteration}"
        witness = (
            f"{first.primitive} {first.type} at {first.variant}{inside} occurs nowhere in the reference, "
            "although its operands do"
        )
    best = str(lines[0]) if lines else "no line can be named"
    return SearchFinding(
        what="tensors",
        found=bool(lines),
        sentence=f"{where}: '{leaf}' differs: {best}",
        culprits=tuple((line.variant or line.reference or "",) for line in lines),
        witness=witness,
        replay=again,
        runs=2,
        detail={"leaf": leaf, "lines": tuple(lines), "tensors": tuple(tensors)},
        skipped=() if lines else ("no line can be named",),
    )
