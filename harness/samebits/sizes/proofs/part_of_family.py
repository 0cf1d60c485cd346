"""Whether the programs of a family are those of another family, for some of its sizes: then its proof holds for both.

On 8 devices of which each has `rows` rows, an array of `8*rows` rows is one of `rows` rows on one device. Where the
traced programs are the same too, what is proved on one device for every number of rows holds on 8 devices.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.errors import NotCovered, SamebitsError
from samebits.interpret.inner_equations import equations
from samebits.interpret.interpreter import CALLS
from samebits.numerics.floats import is_float
from samebits.prove.same_program import WrittenProgram, written
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.proofs.attempts import Attempt
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.family_proof import SizesProof
from samebits.sizes.proofs.of_case import expression
from samebits.sizes.proofs.tracing import Sides, traced

# Programs that only move their floating-point numbers: what is shown of them in one dtype holds in every other one.
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


_CONDITION = re.compile(r"(?P<size>.+) (?P<than>>=|<=) (?P<number>-?\d+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def known_by(family: Family, sides: Sides, direction: str) -> Hashable | None:
    """What a proof depends on: the shapes and both programs; None where these are not all that code does.

    Programs that only move their floating-point numbers have one key for all dtypes of these.

    Args:
        family: the shapes.
        sides: the programs.
        direction: `forward` or `gradient`.
    """
    texts = [written(side.closed) for side in sides]
    if None in texts or any(side.comparisons or side.asked for side in sides):
        return None
    moved = one_moved_dtype(side.closed.jaxpr for side in sides)
    general = [in_any_float(text, moved) if text and moved else None for text in texts]
    texts, moved = (general, moved) if all(general) else (texts, None)
    shapes = tuple(
        (name, arg.shape, ANY_FLOAT if arg.dtype == moved else arg.dtype, arg.below, arg.equals)
        for name, arg in family.args.items()
    )
    names = tuple((side.inputs, side.outputs) for side in sides)
    return direction, family.platform, tuple(family.free.items()), shapes, family.differentiable, names, tuple(texts)


def as_part(
    general: Attempt, leaves: Sequence[SizesProof], attempt: Attempt, sides: Sides, direction: str
) -> tuple[SizesProof, ...] | None:
    """The proofs of a family that hold for another one too; None where that is not shown.

    Args:
        general: the family of which something is shown.
        leaves: what is shown of it, for all sizes.
        attempt: the other family.
        sides: its programs.
        direction: `forward` or `gradient`.
    """
    values = values_in(general.family, attempt.family)
    if values is None or any(side.comparisons or side.asked for side in sides):
        return None
    try:
        for function, side in zip(general.functions, sides, strict=True):
            again = traced(function, attempt.family, direction)
            text = written(again.closed)
            if again.comparisons or text is None or text != written(side.closed):
                return None
            if (again.inputs, again.outputs) != (side.inputs, side.outputs):
                return None
    except NotCovered:  # it cannot be traced for these sizes, or takes others
        return None
    lowest = _lowest(attempt.family)
    moved = []
    for leaf in leaves:
        conditions = _moved(leaf.conditions, values, set(_lowest(general.family)))
        if conditions is None:
            return None
        moved.append(replace(leaf, conditions=tuple(dict.fromkeys((*lowest, *conditions))), asked=0))
    return tuple(moved)


def values_in(general: Family, family: Family) -> dict[str, Polynomial] | None:
    """By symbol of a family, the size in another one at which it has the shapes of that one; None where there is none.

    Args:
        general: the family whose symbols get values.
        family: the other one.
    """
    pairs = _sizes_of_both(general, family)
    if pairs is None:
        return None
    values: dict[str, Polynomial] = {}
    for first, second in pairs:
        if len(first.terms) == 1 and len(first.variables) == 1 and len(first.terms[0][0]) == 1:
            (name,), factor = first.terms[0]
            size = second.quotient(of(factor))
            if size is not None:
                values.setdefault(name, size)
    free = family.free
    for name in general.free:
        if name not in values and name in free:
            values[name] = variable(name)
    if set(values) != set(general.free) or any(first.substitute(values) != second for first, second in pairs):
        return None
    return values if all(_from_on(size, general.free[name], free) for name, size in values.items()) else None


def _sizes_of_both(first: Family, second: Family) -> list[tuple[Polynomial, Polynomial]] | None:
    """The sizes of two families beside each other; None where they are not of the same arguments."""
    of_first, of_second = (
        [(name, arg.dtype, len(arg.shape), arg.below is None, arg.equals is None) for name, arg in family.args.items()]
        for family in (first, second)
    )
    names = [{n for n, v in family.statics.items() if isinstance(v, SizeOf)} for family in (first, second)]
    if of_first != of_second or names[0] != names[1] or first.differentiable != second.differentiable:
        return None
    pairs = []
    for name, arg in first.args.items():
        other = second.args[name]
        pairs += [(first.sizes(a), second.sizes(b)) for a, b in zip(arg.shape, other.shape, strict=True)]
        if arg.below is not None and other.below is not None:
            pairs.append((first.sizes(arg.below), second.sizes(other.below)))
        if arg.equals is not None and other.equals is not None:
            pairs.append((first.sizes(arg.equals), second.sizes(other.equals)))
    return pairs + [
        (first.sizes(first.statics[n].text), second.sizes(second.statics[n].text)) for n in sorted(names[0])
    ]


def _from_on(size: Polynomial, low: int, free: Mapping[str, int]) -> bool:
    """Whether a size is at least a number at all values of its symbols; it grows with each of them."""
    return all(factor > 0 for monomial, factor in size.terms if monomial) and size.value(free) >= low


def _lowest(family: Family) -> tuple[str, ...]:
    return tuple(f"{name} >= {low}" for name, low in family.free.items())


def _moved(conditions: Sequence[str], values: Mapping[str, Polynomial], left_out: set[str]) -> list[str] | None:
    """Conditions in the symbols of another family; None where one of what changes is not an inequality of sizes."""
    changed = {name for name, size in values.items() if size != variable(name)}
    moved = []
    for condition in conditions:
        if condition in left_out:
            continue
        if changed & set(_NAME.findall(condition)):
            matched = _CONDITION.fullmatch(condition)
            try:
                if matched is None:
                    return None
                size = expression(matched["size"]).substitute(values)
            except SamebitsError:  # a condition on more than sizes
                return None
            condition = f"{size} {matched['than']} {matched['number']}"
        moved.append(condition)
    return moved
