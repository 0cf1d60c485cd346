"""The place in the source that an equation comes from, and the expression there."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from samebits.interpret.alignment.fingerprints import Node
from samebits.interpret.dead_code import only
from samebits.interpret.equation import frame_of, instruction_of, short
from samebits.interpret.inner_equations import float_kind, float_results
from samebits.interpret.interpreter import CALLS, called
from samebits.numerics import floats
from samebits.schema.line_difference import Change, LineDifference

_LONGEST = 72  # characters of an expression that are shown


class SourcePlace(NamedTuple):
    """A place in the source; `file` is the whole path."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{short(self.file)}:{self.line}" if self.line else self.file


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
    if node is None or source is None or instruction_of(node.written) is not None:
        return ()
    frames = node.written.source_info.traceback.frames
    lines = dict.fromkeys(frame.line_num for frame in frames if frame.file_name == source.file)
    return tuple(str(SourcePlace(source.file, line)) for line in [*lines][1:])


def code_of(node: Node | None) -> str:
    """The expression that a value was traced from: by its columns, else its line; empty where no file is."""
    return "" if node is None else code_at(node.written)


def code_at(equation: Any) -> str:
    """The expression that an equation was traced from, as `code_of` gives it."""
    instruction = instruction_of(equation)
    if instruction is not None:
        return str(instruction)
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
    instruction = instruction_of(equation)
    if instruction is not None:
        return source.file, source.line, hash(instruction.name)
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


# The lines at which an output gets its dtype, and at which numbers become narrower than anywhere in the other
# program.
_BODIES = {"scan": "jaxpr", "while": "body_jaxpr", "cond": "branches"}


def dtype_lines(reference: Any, variant: Any, number: int | None) -> tuple[LineDifference, ...]:
    """Find where an output gets its dtype or weak type on either side; nothing where it is that of an argument on both.

    Args:
        number: of the output, which has another type on both sides; None for the first that has another dtype.
    """
    if number is None:
        types = enumerate(zip(reference.out_avals, variant.out_avals, strict=True))
        number = next(place for place, kinds in types if kinds[0].dtype != kinds[1].dtype)
    kinds = [side.out_avals[number] for side in (reference, variant)]
    of: Callable[[Any], Hashable] = _weak if kinds[0].dtype == kinds[1].dtype else _dtype
    theirs, mine = (_setter(side, number, of)[0] for side in (reference, variant))
    return _line("dtype", mine, theirs)


def narrower_lines(reference: Any, variant: Any, number: int) -> tuple[LineDifference, ...]:
    """Find the first place of the variant at which floats are narrower than anywhere in the reference."""
    results = (float_results(only(side, (number,)).jaxpr) for side in (reference, variant))
    theirs, mine = ([(floats.digits(dtype), equation) for dtype, equation in side] for side in results)
    widest = (floats.digits(float_kind(aval)) for aval in reference.in_avals if float_kind(aval) is not None)
    least = min((*widest, *(digits for digits, _ in theirs)), default=0)
    return _line("narrower", next((equation for digits, equation in mine if digits < least), None), None)


def losing_line(equation: Any) -> tuple[LineDifference, ...]:
    """Return the place of the operation that loses the most accuracy."""
    return _line("accuracy", equation, None)


def _line(change: Change, mine: Any, theirs: Any) -> tuple[LineDifference, ...]:
    here, there = (None if equation is None else place_of(equation) for equation in (mine, theirs))
    if here is None and there is None:
        return ()
    named = mine if here is not None else theirs
    return (
        LineDifference(
            change=change,
            variant=None if here is None else str(here),
            variant_code="" if here is None else code_at(mine),
            reference=None if there is None else str(there),
            reference_code="" if there is None else code_at(theirs),
            primitive=named.primitive.name,
        ),
    )


def _setter(jaxpr: Any, number: int, of: Callable[[Any], Hashable]) -> tuple[Any, int | None]:
    """Find the equation that gives an output its type, or the number of the input that it gets it from."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    producers = {id(out): (eqn, place) for eqn in jaxpr.eqns for place, out in enumerate(eqn.outvars)}
    inputs = {id(var): place for place, var in enumerate(jaxpr.invars)}
    variable = jaxpr.outvars[number]
    kind = of(variable.aval)
    while id(variable) in producers:
        equation, place = producers[id(variable)]
        alike = [var for var in equation.invars if not hasattr(var, "val") and of(var.aval) == kind]
        if equation.primitive.name in CALLS:
            setting, source = _setter(called(equation), place, of)
            if source is None or source >= len(equation.invars) or hasattr(equation.invars[source], "val"):
                return (setting or equation), None
            variable = equation.invars[source]
        elif alike:
            variable = max(alike, key=lambda var: len(var.aval.shape))
        else:
            body = equation.params.get(_BODIES.get(equation.primitive.name, ""))
            body = body[0] if isinstance(body, tuple) else body
            setting = None if body is None else _setter(body, place, of)[0]
            return (setting or equation), None
    return None, inputs.get(id(variable))


def _dtype(aval: Any) -> Hashable:
    return str(getattr(aval, "dtype", None))


def _weak(aval: Any) -> Hashable:
    return bool(getattr(aval, "weak_type", False))
