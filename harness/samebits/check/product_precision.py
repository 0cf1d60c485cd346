"""The precision of the products of two programs, which decides their bits on a TPU or with TF32 and not on a CPU.

In: two traced programs. Out: a remark where the second has less than the first.
"""

from __future__ import annotations

from collections.abc import Collection
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
        lowest: of those of wide floats, as a number in `_NAMES`; None where there are none.
        algorithms: the names of the algorithms that are prescribed in place of a precision.
    """

    lowest: int | None
    algorithms: Collection[str]

    @classmethod
    def of(cls, jaxpr: Any) -> ProductPrecision:
        """The precision of a program's products.

        Args:
            jaxpr: the program, closed or not.
        """
        levels: list[int] = []
        algorithms: set[str] = set()
        for equation in equations(jaxpr):
            if equation.primitive.name not in _PRODUCTS or not any(_is_wide(var.aval) for var in equation.invars[:2]):
                continue
            precision = equation.params["precision"]
            for each in precision if isinstance(precision, tuple) else (precision,):
                name = "DEFAULT" if each is None else str(getattr(each, "name", each))
                if name in _NAMES:
                    levels.append(_NAMES.index(name))
                else:
                    algorithms.add(name)
        return cls(min(levels, default=None), frozenset(algorithms))

    def __str__(self) -> str:
        names = sorted(self.algorithms)
        return " and ".join(names if self.lowest is None else [_NAMES[self.lowest], *names])


def precision_remark(reference: Any, variant: Any) -> str | None:
    """What to say where the variant's products have a lower precision or another algorithm; else None.

    Args:
        reference, variant: the programs, as jaxprs.
    """
    first, second = ProductPrecision.of(reference), ProductPrecision.of(variant)
    if "" in (str(first), str(second)):  # a side without products has none of a lower precision
        return None
    lower = first.lowest is not None and second.lowest is not None and second.lowest < first.lowest
    if not lower and first.algorithms == second.algorithms:
        return None
    return (
        f"its products have precision {second}, the reference's {first}: equal on a CPU, not on a TPU or with TF32"
        if first.algorithms == second.algorithms
        else f"its products have precision {second}, the reference's {first}: other bits where hardware follows that"
    )


def _is_wide(aval: Any) -> bool:
    """Whether a value holds floats, or complex numbers, that hardware shortens where the precision is low."""
    kind = type_of(aval)
    return (kind.is_float and kind.dtype.itemsize >= _WIDTH) or kind.is_complex
