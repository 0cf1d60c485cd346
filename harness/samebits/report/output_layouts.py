"""Outputs that a variant lays out on the mesh otherwise than the reference, where layouts are part of the types.

What follows such an output in explicit mode may not trace, or pays for a resharding. In auto mode the compiler chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samebits.report.document import Document
from samebits.report.words import plural


def layout_notes(document: Document) -> list[str]:
    """A line for each variant and output whose layout in explicit mode is not the reference's."""
    references = {head.pair: head.reference for head in document.pairs}
    runs: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for result in document.results:
        if result.mode == "explicit" and result.direction == "forward" and result.layout:
            point = result.pair, result.case, result.dtype, result.mesh
            runs.setdefault(point, {})[result.variant] = result.layout
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
