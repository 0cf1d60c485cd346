"""Constants that a program computes in floating point, whose bits its compiler decides as much as its code does.

A product and a sum become one operation that rounds once, a narrow result stays wide, and `exp` is rounded otherwise
elsewhere. What a single correctly rounded operation gives has its bits for certain, and so has what does not round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.interpret.equation import Array, Step
from samebits.numerics import floats

_ROUNDED_ONCE = {"add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply}
_CORRECTLY_ROUNDED = frozenset({*_ROUNDED_ONCE, "div", "sqrt", "convert_element_type", "reduce_precision"})
_EXACT = frozenset(
    {"abs", "bitcast_convert_type", "ceil", "clamp", "copy", "copysign", "cummax", "cummin", "floor", "max", "min"}
    | {"neg", "nextafter", "optimization_barrier", "reduce_max", "reduce_min", "round", "select_n", "sign"}
)


class ComputedConstants:
    """The bits of constants that operations have rounded, by dtype: of one or more, and of more than one."""

    def __init__(self) -> None:
        self._rounded: dict[Any, set[int]] = {}
        self._computed: dict[Any, set[int]] = {}

    def note(self, step: Step, values: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Note down what an operation on constants gave."""
        for output in (output for output in outputs if floats.is_float(output.dtype)):
            before, computed = (_where(known, values, output.shape) for known in (self._rounded, self._computed))
            rounded = np.zeros(output.shape, bool) if step.name in _EXACT else _is_rounded(step, values, output)
            again = rounded if step.name not in _CORRECTLY_ROUNDED else rounded & before
            inexact = ~_is_simple(output)
            for known, places in ((self._rounded, before | rounded), (self._computed, computed | again)):
                known.setdefault(output.dtype, set()).update(_bits(output[places & inexact]))

    def holds(self, value: Any) -> bool:
        """Whether more than one operation has rounded an element of a constant."""
        value = np.asarray(value)
        return not self._computed.get(value.dtype, set()).isdisjoint(_bits(value))


def _is_simple(value: Array) -> Array:
    """Where a number is what any way to compute it gives: an integer, none, or infinite."""
    wide = value.astype(np.float64)
    return np.asarray(~np.isfinite(wide) | (wide == np.rint(wide)))


def _is_rounded(step: Step, values: Sequence[Array], output: Array) -> Array:
    """Where an operation rounds: not where exact numbers give what it gives."""
    operands, wide = [np.asarray(value).astype(np.float64) for value in values], output.astype(np.float64)
    if step.name in _ROUNDED_ONCE and output.dtype.itemsize < 8:
        return np.asarray(_ROUNDED_ONCE[step.name](*operands) != wide)
    if step.name in ("convert_element_type", "reduce_precision"):
        return np.asarray(operands[0] != wide)
    return np.ones(output.shape, bool)


def _where(known: dict[Any, set[int]], values: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The elements of a result that come from known bits: of operands of its shape their own, else from any."""
    places = np.zeros(shape, bool)
    for value in map(np.asarray, values):
        if not known.get(value.dtype):
            continue
        among = np.isin(floats.raw_bits(value), np.array(sorted(known[value.dtype]), floats.raw_bits(value).dtype))
        places |= among if value.shape == shape else among.any()
    return places


def _bits(value: Array) -> list[int]:
    bits: list[int] = np.unique(floats.raw_bits(value)).tolist() if floats.is_float(value.dtype) else []
    return bits
