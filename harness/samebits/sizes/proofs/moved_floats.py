"""Programs that only move their floating-point numbers: what is shown of them in one dtype holds in every other one.

`bfloat16[8, 4]` turned round is `float32[8, 4]` turned round: no operation looks at the numbers. So both are written as
one program, with one word for their dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from samebits.interpret.inner_equations import equations
from samebits.interpret.interpreter import CALLS
from samebits.numerics.floats import is_float
from samebits.prove.same_program import WrittenProgram

ANY_FLOAT = "any floating-point dtype"

WITH_ZEROS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""The dtypes that share proofs: all have infinities and a zero of each sign, of which narrower ones lack some."""

MOVING = frozenset(
    {
        "all_gather",
        "all_gather_invariant",
        "all_to_all",
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "copy_p",
        "dynamic_slice",
        "dynamic_update_slice",
        "expand_dims",
        "gather",
        "mesh_cast",
        "optimization_barrier",
        "pad",
        "pbroadcast",
        "ppermute",
        "pvary",
        "reshape",
        "reshard",
        "rev",
        "scatter",
        "select_n",
        "shard_map",
        "sharding_constraint",
        "slice",
        "split",
        "squeeze",
        "transpose",
        # Into a place that no other update has; else a sum, of which formulas are shown and dtypes count as nothing.
        "scatter-add",
    }
    | CALLS.keys()
)
"""What gives floating-point numbers their places and looks at none of them."""


def one_moved_dtype(programs: Iterable[Any]) -> str | None:
    """The dtype of `WITH_ZEROS` whose numbers programs only move; None where they do more, or have another float.

    Args:
        programs: open jaxprs.
    """
    dtypes: set[str] = set()
    for jaxpr in programs:
        dtypes.update(_floats((*jaxpr.invars, *jaxpr.outvars, *jaxpr.constvars)))
        for equation in equations(jaxpr):
            floats = _floats((*equation.invars, *equation.outvars))
            if floats and equation.primitive.name not in MOVING:
                return None
            dtypes.update(floats)
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= WITH_ZEROS else None


def _floats(variables: Iterable[Any]) -> set[str]:
    dtypes = (getattr(variable.aval, "dtype", None) for variable in variables)
    return {str(dtype) for dtype in dtypes if dtype is not None and is_float(dtype)}


def in_any_float(program: WrittenProgram, dtype: str) -> WrittenProgram | None:
    """Return a program with one word for a dtype whose numbers it only moves; None where it has such constants."""
    text = _in_any_float(program.text, dtype)
    return None if text is None else WrittenProgram(text)


def _in_any_float(text: Any, dtype: str) -> Any:
    """Return a text with one word for its dtype; None where it holds other numbers of it than zeros and plain NaNs.

    Those two are distinguished in every dtype, and so are the places where they stand.

    Args:
        text: nested tuples, in which a constant is `("array", shape, dtype, bytes)` or `("float", "0.0")`.
        dtype: such as `bfloat16`.
    """
    if isinstance(text, str):
        return ANY_FLOAT if text == dtype else text
    if not isinstance(text, tuple):
        return text
    if len(text) == 4 and text[0] == "array" and text[2] == dtype:
        return _constant(text[1], dtype, text[3])
    if len(text) == 2 and text[0] == "float" and text[1] not in ("0.0", "nan"):
        return None
    changed = tuple(_in_any_float(part, dtype) for part in text)
    lost = any(after is None and before is not None for before, after in zip(text, changed, strict=True))
    return None if lost else changed


def _constant(shape: Any, dtype: str, data: bytes) -> Any:
    """A constant of zeros, or of NaNs as `jnp.nan` is one, in any dtype; None of anything else."""
    if not any(data):
        return "array", shape, ANY_FLOAT, b""
    nan = np.array(np.nan, dtype).tobytes()
    return ("array", shape, ANY_FLOAT, b"NaN") if data == nan * (len(data) // len(nan)) else None
