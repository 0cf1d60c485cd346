"""The field domain with constants computed first: in float64, and each standing for the number it is a rounding of.

What a program computes from constants alone (frequencies, a scale) has no formula to compare: a table of the same
numbers is the same. The domain of `field` knows constants by their formulas and their last bit; this one, by their
values, and `stands` names those that are roundings of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.interpret import literals
from samebits.interpret.arrays import ARITHMETIC, evaluate
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field.domain import Field
from samebits.interpret.field.element import FieldElement
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.source_constants import SourceConstant

_LIMIT = 1 << 16


class FoldedField(Field):
    """A field domain whose constants stay float64 arrays until they meet a symbolic value.

    Args:
        stands: by value, the number that a constant stands for.
        args, known: of `Field`.
    """

    name = "field"
    keeps_constants = True

    def __init__(self, *args: Any, stands: Mapping[float, SurdLiteral], **known: Any) -> None:
        super().__init__(*args, **known)
        self._stands = stands
        self._step: Step | None = None
        self._literals: set[float] = set()
        self._exact: dict[float, SurdLiteral] = {}
        self.met: tuple[dict[float, SourceConstant], dict[float, SourceConstant]] = {}, {}
        """By side: the constants that met symbolic values."""
        self.inner: tuple[dict[float, SourceConstant], dict[float, SourceConstant]] = {}, {}
        """By side: the constants that were computed, or that others were computed from."""
        self.used: set[float] = set()
        """Constants that came to stand for others."""

    def lift(self, array: Array, kind: Type) -> Any:
        """A float constant as the float64 numbers that it stands for; integers made from floats as elements."""
        array = np.asarray(array)
        if not kind.is_float or array.dtype.kind in "biu":
            return super().lift(array, kind)
        unique, places = np.unique(array.astype(np.float64), return_inverse=True, equal_nan=True)
        numbers = [self._float(v, array.dtype.name) if np.isfinite(v) else v for v in unique.tolist()]
        if array.size == 1:
            self._literals.update(numbers)
        return np.array(numbers, np.float64)[places].reshape(array.shape)

    def element(self, value: Any, kind: Type) -> FieldElement:
        """A value as an element: here a constant meets one."""
        if isinstance(value, FieldElement):
            return value
        array = np.asarray(value)
        if not kind.is_float or array.dtype.kind in "biu":
            return super().lift(array, kind)
        self._note(self.met, array, kind)
        return super().lift(array.astype(np.float64), kind)

    def number(self, value: float, dtype: str) -> SurdLiteral:
        """What a constant stands for."""
        if value in self._stands:
            self.used.add(value)
            return self._stands[value]
        return self._exact[value] if value in self._exact else literals.standing(value, dtype)

    def _float(self, value: float, dtype: str) -> float:
        """A literal in float64, from which its number is found again."""
        if value in self._stands:
            self.used.add(value)
            number = self._stands[value]
        else:
            number = literals.number(value, dtype)
        self._exact[float(number)] = number
        return float(number)

    def _note(self, known: tuple[dict[float, SourceConstant], ...], array: Array, kind: Type) -> None:
        if array.size > _LIMIT:
            return
        unique = np.unique(array[np.isfinite(array)]).tolist()
        place = "" if self._step is None else self._step.place
        for value in unique:
            written = value in self._literals
            table = len(unique) > 1 and not written
            constant = SourceConstant(value, kind.dtype.name, place, not written, table, self._exact.get(value))
            known[self.side].setdefault(value, constant)

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Constants are computed; all else is as in the field."""
        self._step = step
        try:
            if step.name not in ARITHMETIC or any(isinstance(value, FieldElement) for value in values):
                return super().apply(step, values)
            outputs = evaluate(step, values)
            for array, kind in zip([*values, *outputs], [*step.inputs, *step.outputs], strict=True):
                if kind.is_float:
                    self._note(self.inner, array, kind)
            return outputs
        finally:
            self._step = None
