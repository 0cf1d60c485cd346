"""The place in the source that an equation comes from, and the expression there."""

from __future__ import annotations

import linecache
from typing import Any, NamedTuple

from samebits.interpret.alignment.graph import Node
from samebits.interpret.equation import frame_of, short

_LONGEST = 72  # characters of an expression that are shown


class SourcePlace(NamedTuple):
    """A place in the source; `file` is the whole path."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{short(self.file)}:{self.line}"


def place_of(equation: Any) -> SourcePlace | None:
    """Where an equation was written, in the code that was traced; None where that is not known."""
    frame = frame_of(equation)
    return None if frame is None else SourcePlace(frame.file_name, frame.line_num)


def source_of(node: Node | None) -> SourcePlace | None:
    """Where a value is computed, in the code that was traced; None where that is not known."""
    return None if node is None else place_of(node.written)


def calls_of(node: Node | None) -> tuple[str, ...]:
    """The places in the same file from which the function that computes a value was called, innermost first."""
    source = source_of(node)
    if node is None or source is None:
        return ()
    frames = node.written.source_info.traceback.frames
    lines = dict.fromkeys(frame.line_num for frame in frames if frame.file_name == source.file)
    return tuple(str(SourcePlace(source.file, line)) for line in [*lines][1:])


def code_of(node: Node | None) -> str:
    """The expression that a value was traced from: by its columns, else its line; empty where no file is."""
    return "" if node is None else code_at(node.written)


def code_at(equation: Any) -> str:
    """The expression that an equation was traced from, as `code_of` gives it."""
    source = place_of(equation)
    if source is None:
        return ""
    text = _expression(equation, source) or linecache.getline(source.file, source.line)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def position_of(node: Node) -> tuple[str, int, int]:
    """The file and the instruction that a value was traced from: the same in all copies of an unrolled loop."""
    source, equation = source_of(node), node.written
    if source is None:
        return "", 0, 0
    place = _instruction(equation, source)
    return source.file, source.line, -1 if place is None else place[1]


def _instruction(equation: Any, source: SourcePlace) -> tuple[Any, int] | None:
    """The code object and the instruction in it; None where the traceback does not say."""
    frames = getattr(equation.source_info.traceback, "raw_frames", None)
    if frames is None:
        return None
    for code, last in zip(*frames(), strict=True):
        if code.co_filename == source.file:
            return code, last
    return None


def _expression(equation: Any, source: SourcePlace) -> str:
    """The characters of the expression; empty where the traceback does not say which."""
    place = _instruction(equation, source)
    if place is None:
        return ""
    code, last = place
    start, end, left, right = next((p for n, p in enumerate(code.co_positions()) if n == last // 2), (None,) * 4)
    if start != source.line or end is None or left is None or right is None:
        return ""
    lines = [linecache.getline(source.file, number).encode() for number in range(start, end + 1)]
    if len(lines) == 1:
        return lines[0][left:right].decode(errors="replace")
    return b" ".join([lines[0][left:], *lines[1:-1], lines[-1][:right]]).decode(errors="replace")
