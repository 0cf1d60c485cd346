"""The precision of the products of two programs, which decides their bits on a TPU or with TF32 and not on a CPU.

In: two traced programs. Out: a remark where the second has another one than the first: equal bits are promised nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samebits.interpret.equation import type_of
from samebits.programs.captured_values import equations

_PRODUCTS = frozenset({"dot_general", "ragged_dot_general", "conv_general_dilated"})

_NAMES = ("DEFAULT", "HIGH", "HIGHEST")
"""From the lowest to the highest."""

_WIDTH = 4
"""Bytes of a real number from which the precision counts: hardware multiplies the shorter floats as they are."""


@dataclass(frozen=True, slots=True)
class ProductPrecision:
    """The precision of the products of a program.

    Args:
        wide: that of those of wide floats, in the order of the program: a name in `_NAMES`, or an algorithm that is
            prescribed in its place.
        results: the dtypes in which those of shorter floats are summed.
    """

    wide: Sequence[str]
    results: frozenset[str]

    @classmethod
    def of(cls, jaxpr: Any) -> ProductPrecision:
        """The precision of a program's products.

        Args:
            jaxpr: the program, closed or not.
        """
        wide: list[str] = []
        results: set[str] = set()
        for equation in equations(jaxpr):
            if equation.primitive.name not in _PRODUCTS:
                continue
            if any(_is_wide(var.aval) for var in equation.invars[:2]):
                precision = equation.params["precision"]
                each = dict.fromkeys(precision if isinstance(precision, tuple) else (precision,))
                wide += ["DEFAULT" if level is None else str(getattr(level, "name", level)) for level in each]
            elif type_of(equation.outvars[0].aval).is_float:
                results.add(str(equation.outvars[0].aval.dtype))
        return cls(wide, frozenset(results))

    @property
    def algorithms(self) -> list[str]:
        """The algorithms that are prescribed."""
        return sorted(set(self.wide) - set(_NAMES))

    def __str__(self) -> str:
        return " and ".join([*[name for name in _NAMES if name in self.wide][:1], *self.algorithms])


def precision_remark(reference: Any, variant: Any) -> str | None:
    """What to say where the variant's products have another precision, algorithm or type of their sums; else None.

    Args:
        reference, variant: the programs, as jaxprs.
    """
    first, second = ProductPrecision.of(reference), ProductPrecision.of(variant)
    if first.results and second.results and first.results != second.results:
        sums = [" and ".join(sorted(side.results)) for side in (second, first)]
        return f"its products are summed in {sums[0]}, the reference's in {sums[1]}: other bits on other hardware"
    if not first.wide or not second.wide:  # a side without products has none of another precision
        return None
    names, reordered = (str(second), str(first)), len(first.wide) == len(second.wide) and first.wide != second.wide
    if names[0] == names[1]:
        if set(first.wide) == set(second.wide) and not reordered:
            return None
        names = ", ".join(second.wide), ", ".join(first.wide)
    where = "equal on a CPU, not on a TPU or with TF32"
    if first.algorithms != second.algorithms:
        where = "other bits where hardware follows that"
    return f"its products have precision {names[0]}, the reference's {names[1]}: {where}"


def _is_wide(aval: Any) -> bool:
    """Whether a value holds floats, or complex numbers, that hardware shortens where the precision is low."""
    kind = type_of(aval)
    return (kind.is_float and kind.dtype.itemsize >= _WIDTH) or kind.is_complex
