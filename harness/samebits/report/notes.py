"""Notes on a check: lines that say what a reader should know besides its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from samebits.report.document import Document
from samebits.report.tally import exempted, not_interpreted, skipped
from samebits.report.words import plural
from samebits.schema.finding import Finding

REMEDY = (
    "such inputs fail where they are declared, as by values=Integers(...); exactly= says of given integers and masks "
    "that they are all there are"
)


def note_lines(document: Document) -> list[str]:
    """Known differences, what was skipped or not interpreted, outputs laid out otherwise, and the notes of the run."""
    lines = [
        f"{pair}/{variant}: {plural(len(known), 'known difference')}: {reason}"
        for (pair, variant, reason), known in exempted(document.results).items()
    ]
    lines += [
        f"{pair}: {plural(count, 'result')} on mesh {mesh} skipped: {reason}"
        for (pair, mesh, reason), count in skipped(document.results).items()
    ]
    lines += [
        f"{pair}/{variant}: {plural(count, 'result')} not interpreted: {what}"
        for (pair, variant, what), count in not_interpreted(document.results).items()
    ]
    return [*lines, *other_input_notes(document.results), *layout_notes(document), *document.summary.notes]


def other_input_notes(results: Iterable[Finding]) -> list[str]:
    """Write a line for each variant, direction and leaf that is not the same at other values, and what to do.

    Args:
        results: of a check or of proofs.
    """
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for result in results:
        for assumption in result.proof.assumptions:
            if assumption.counterexample is not None:
                place = result.place.pair, result.place.variant, result.place.direction, result.place.leaf
                derived = assumption.word == "derivatives"
                only = "but not its own gradient" if derived else "only at inputs like those tried"
                seen.setdefault(place, []).append(f"{only}: {assumption.counterexample}")
    lines = [
        f"{pair}/{variant}: {direction}, {leaf}: the same {texts[0]}"
        + (f"; and in {plural(len(texts) - 1, 'more setting')}" if len(texts) > 1 else "")
        for (pair, variant, direction, leaf), texts in seen.items()
    ]
    return [*lines, *([REMEDY] if lines else [])]


def layout_notes(document: Document) -> list[str]:
    """A line for each variant and output whose layout in explicit mode is not the reference's.

    There layouts are part of the types: what follows such an output may not trace, or pays for a resharding.
    """
    references = {head.pair: head.reference for head in document.pairs}
    runs: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for result in document.results:
        if result.place.mode == "explicit" and result.place.direction == "forward" and result.run.layout:
            point = result.place.pair, result.place.case, result.place.dtype, result.place.mesh
            runs.setdefault(point, {})[result.place.variant] = result.run.layout
    moved: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for (pair, *_), sides in runs.items():
        for variant, output, layouts in _moved(sides, references.get(pair, "")):
            moved.setdefault((pair, variant, output), []).append(layouts)
    return [
        f"{pair}/{variant}: in explicit mode {output} is {pairs[0][1]} where the reference's is {pairs[0][0]}"
        + (f", and has another layout in {plural(len(pairs) - 1, 'more setting')}" if len(pairs) > 1 else "")
        for (pair, variant, output), pairs in moved.items()
    ]


def _moved(sides: Mapping[str, Mapping[str, str]], reference: str) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """The variant, the output, and both layouts."""
    expected = sides.get(reference, {})
    for variant, layout in sides.items():
        for output in layout:
            if _is_output(output) and layout[output] != expected.get(output, layout[output]):
                yield variant, output, (expected[output], layout[output])


def _is_output(path: str) -> bool:
    return path == "out" or path.startswith(("out[", "out."))
