"""Other cotangents than those of the case, at which both programs are evaluated: large, small and zero ones.

What a gradient is multiplied by comes from the rest of a model, and nothing is known of it: a loss is scaled, most rows
of a batch are masked, or only one of the outputs is used. Where both programs are linear in their cotangents, random
ones show every difference. Elsewhere a clip or a guard on the way back depends on their size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from samebits.interpret.complex_pairs import LINEAR
from samebits.interpret.control_flow import scan_sizes
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array, type_of
from samebits.interpret.float64_differences import values_of
from samebits.interpret.interpreter import CALLS, called
from samebits.interpret.problem import Question

FACTORS = (2.0**6, 2.0**20, 2.0**-10, 2.0**-30)
"""By how much cotangents are scaled: beyond a clip at 5, 50 or 1e5, and below a guard such as 1e-6.

Powers of two, so that no number is rounded.
"""

ONES = "cotangents of one"
_EACH = 4  # outputs that are tried with zero cotangents of all others: each costs an evaluation of both programs
_LAST = slice(-1, None)

_LINEAR = frozenset({*MOVES, *LINEAR, "conj", "fft", "imag", "real", "reduce_precision", "reduce_window_sum"})
"""Primitives that are linear in all float operands together; no integer depends on a cotangent linearly."""

_BILINEAR = frozenset({"conv_general_dilated", "dot_general", "mul", "ragged_dot_general"})

_LINEAR_IN = {"div": 0, "select_and_scatter_add": 0, "triangular_solve": 1}
"""By primitive, the only operand in which it is linear."""


def other_cotangents(question: Question) -> Iterator[tuple[Question, str, bool]]:
    """Yield the question at other cotangents, where programs decide by them: in words, and whether they are finite."""
    if not _decides(question):
        return
    places = [place for place, argument in enumerate(question.inputs) if argument.is_cotangent]
    drawn = [np.asarray(question.inputs[place].values, np.float64) for place in places]
    names = [question.inputs[place].name for place in places]
    for arrays, words, allowed in changed(
        drawn, names, [type_of(question.reference.in_avals[p]).dtype for p in places]
    ):
        inputs = list(question.inputs)
        for place, array in zip(places, arrays, strict=True):
            inputs[place] = replace(inputs[place], values=array)
        yield replace(question, inputs=inputs), words, allowed


def must_run(question: Question, output: str) -> bool:
    """Tell whether a program may decide by cotangents, and an output cannot be evaluated in float64 to see it."""
    return output in question.outputs and _decides(question) and values_of(question, output) is None


def _decides(question: Question) -> bool:
    places = tuple(place for place, argument in enumerate(question.inputs) if argument.is_cotangent)
    return any(decides_by(program, places) for program in (question.reference, question.variant))


def changed(
    drawn: Sequence[Array], names: Sequence[str], dtypes: Sequence[Any]
) -> Iterator[tuple[list[Array], str, bool]]:
    """Yield other cotangents, in words, and whether they are finite.

    Args:
        dtypes: whose range they keep.
    """
    for factor in FACTORS:
        if all(_holds(array, factor, dtype) for array, dtype in zip(drawn, dtypes, strict=True)):
            power = abs(int(math.log2(factor)))
            times = f"{2**power if power <= 10 else f'2^{power}'} times {'as large' if factor > 1 else 'smaller'}"
            yield [array * factor for array in drawn], f"cotangents {times}", True
    yield [np.zeros_like(array) for array in drawn], "cotangents of zero", True
    yield [np.ones_like(array) for array in drawn], ONES, True
    for number, name in enumerate(names[:_EACH] if len(names) > 1 else ()):
        alone = [array if n == number else np.zeros_like(array) for n, array in enumerate(drawn)]
        yield alone, f"all cotangents zero but {name}", True
    for part, indices in (
        ("last row", [(_LAST,) * min(array.ndim, 1) for array in drawn]),
        ("last column", [(..., _LAST) if array.ndim > 1 else () for array in drawn]),
        ("first element", [(slice(1),) * array.ndim for array in drawn]),
    ):
        if any(indices):  # else these are the drawn ones
            alone = [_alone(*each) for each in zip(drawn, indices, strict=True)]
            yield alone, f"cotangents of zero but in their {part}", True
    infinite = [np.array(array) for array in drawn]
    for array in infinite:
        array.reshape(-1)[:1] = math.inf
    yield infinite, "cotangents with an infinite first element", False


def _holds(array: Array, factor: float, dtype: Any) -> bool:
    """Tell whether scaled numbers of an array are in the normal range of a dtype."""
    info = ml_dtypes.finfo(dtype)
    sizes = np.abs(array[array != 0]) * factor
    return not sizes.size or bool(np.max(sizes) <= float(info.max) and np.median(sizes) >= float(info.tiny))


def _alone(array: Array, index: Any) -> Array:
    """Return an array that is zero except at an index."""
    other = np.zeros_like(array)
    other[index] = array[index]
    return other


@functools.lru_cache(maxsize=256)
def decides_by(closed: Any, places: tuple[int, ...]) -> bool:
    """Tell whether a program does anything to some of its inputs that is not linear in them."""
    program = live(closed).jaxpr
    try:
        _followed(program, [number in places for number in range(len(program.invars))])
    except _NotLinear:  # which is what was asked
        return True
    return False


class _NotLinear(Exception):
    """A program is not linear in the marked inputs, or an equation has a primitive that is not known to be."""


def _followed(jaxpr: Any, inputs: Sequence[bool]) -> list[bool]:
    """Tell which outputs depend on the marked inputs."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    marked = {var for var, is_marked in zip(jaxpr.invars, inputs, strict=True) if is_marked}

    def of(values: Sequence[Any]) -> list[bool]:
        return [not hasattr(var, "val") and var in marked for var in values]

    for equation in jaxpr.eqns:
        operands = of(equation.invars)
        if any(operands):
            results = _results(equation, operands)
            marked |= {var for var, is_marked in zip(equation.outvars, results, strict=True) if is_marked}
    return of(jaxpr.outvars)


def _results(equation: Any, operands: list[bool]) -> list[bool]:
    name, params = equation.primitive.name, equation.params
    if name in CALLS or name == "shard_map":
        return _followed(params["jaxpr"] if name == "shard_map" else called(equation), operands)
    if name == "scan":
        return _looped(params, operands)
    if name in STILL:
        return operands
    first = operands.index(True)
    if name == "cond" and first > 0:
        branches = [_followed(branch, operands[1:]) for branch in params["branches"]]
        return [any(each) for each in zip(*branches, strict=True)]
    alone = sum(operands) == 1 and (name in _BILINEAR or _LINEAR_IN.get(name) == first)
    kinds = [type_of(var.aval) for var in equation.outvars]
    if (alone or name in _LINEAR) and all(kind.is_float or kind.is_complex for kind in kinds):
        return [True] * len(kinds)
    raise _NotLinear


def _looped(params: Any, operands: list[bool]) -> list[bool]:
    """Tell which outputs of a scan depend on the marked inputs, by any number of iterations."""
    constants, carried = scan_sizes(params)
    while True:
        results = _followed(params["jaxpr"], operands)
        carry = slice(constants, constants + carried)
        grown = [before or after for before, after in zip(operands[carry], results[:carried], strict=True)]
        if grown == operands[carry]:
            return results
        operands[carry] = grown
