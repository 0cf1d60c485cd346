"""The precision of the products of two programs, which decides their bits on a TPU or with TF32 and not on a CPU.

In: two traced programs. Out: a remark where the second has another one than the first: equal bits are promised nowhere.
"""

from __future__ import annotations

from typing import Any

from samebits.interpret.equation import type_of
from samebits.programs.captured_values import equations

_PRODUCTS = frozenset({"dot_general", "ragged_dot_general", "conv_general_dilated"})

_LEVELS = frozenset({"DEFAULT", "HIGH", "HIGHEST"})
"""Names of precisions; any other one is that of an algorithm, which is prescribed in place of a precision."""

_WIDTH = 4
"""Bytes of a real number from which the precision counts: hardware multiplies the shorter floats as they are."""


def precision_remark(reference: Any, variant: Any) -> str | None:
    """Say that the variant's products have another precision, algorithm or dtype of their sums; None where they do not.

    Args:
        reference, variant: the programs, as jaxprs.
    """
    (first, sums), (second, own) = _precisions(reference), _precisions(variant)
    if sums and own and sums != own:
        names = [" and ".join(sorted(each)) for each in (own, sums)]
        return f"its products are summed in {names[0]}, the reference's in {names[1]}: other bits on other hardware"
    changed = {*first} ^ {*second}
    if not first or not second or not (changed or (len(first) == len(second) and first != second)):
        return None  # a side without products has none of another precision
    if changed:
        subject, names = "its products have", [" and ".join(dict.fromkeys(each)) for each in (second, first)]
    else:
        subject = "one of its products has"
        names = next([own, other] for own, other in zip(second, first, strict=True) if own != other)
    where = (
        "equal on a CPU, not on a TPU or with TF32" if changed <= _LEVELS else "other bits where hardware follows that"
    )
    return f"{subject} precision {names[0]}, the reference's {names[1]}: {where}"


def _precisions(jaxpr: Any) -> tuple[list[str], set[str]]:
    """List the precisions of products of wide floats, in order, and the dtypes of sums of products of shorter ones."""
    wide: list[str] = []
    sums: set[str] = set()
    for equation in equations(jaxpr):
        if equation.primitive.name not in _PRODUCTS:
            continue
        if any(_is_wide(var.aval) for var in equation.invars[:2]):
            precision = equation.params["precision"]
            levels = dict.fromkeys(precision if isinstance(precision, tuple) else (precision,))
            wide += ["DEFAULT" if level is None else str(getattr(level, "name", level)) for level in levels]
        elif type_of(equation.outvars[0].aval).is_float:
            sums.add(str(equation.outvars[0].aval.dtype))
    return wide, sums


def _is_wide(aval: Any) -> bool:
    """Tell whether a value holds floats, or complex numbers, that hardware shortens where the precision is low."""
    kind = type_of(aval)
    return (kind.is_float and kind.dtype.itemsize >= _WIDTH) or kind.is_complex
