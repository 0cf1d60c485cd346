"""A traced program in float64: the ideal value of what is written, whatever dtypes are fixed in it.

A program that casts to a fixed float32 does not become more accurate by wider arguments. So it is not traced again with
these: its own jaxpr is evaluated with every float in float64, and rounding casts as identities, as the fields and the
interpreter take them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.interpret.interpreter import CALLS
from samebits.interpret.literals import number
from samebits.numerics import floats

OPAQUE = frozenset(
    {"shard_map", "pallas_call", "pure_callback", "io_callback", "debug_callback", "ffi_call", "custom_call", "new_ref"}
)
"""Primitives that are bound to the dtypes (or, in `shard_map`, to the types per device) that they were traced with.

An array that is written in place (`jax.new_ref`) cannot be replaced by a wider value.
"""

_DTYPES = ("new_dtype", "dtype", "preferred_element_type", "out_dtype")


def widened(closed: Any) -> Callable[..., list[Any]] | None:
    """A function of the flat arguments of a closed jaxpr that evaluates it in float64.

    Returns:
        None where the program holds an opaque primitive; it must be traced again with wider arguments.
    """
    if OPAQUE & set(primitives(closed)):
        return None

    def run(*args: Any) -> list[Any]:
        return _evaluate(closed, args)

    return run


def wide(dtype: Any) -> np.dtype[Any]:
    """The dtype that stands for another: float64 for floats, complex128 for complex numbers."""
    dtype = np.dtype(dtype)
    if floats.is_float(dtype):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def _evaluate(closed: Any, args: Sequence[Any]) -> list[Any]:
    jaxpr = getattr(closed, "jaxpr", closed)
    environment: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for var, const in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
        environment[var] = _constant(const, var.aval)

    def read(var: Any) -> Any:
        return _constant(var.val, var.aval) if hasattr(var, "val") else environment[var]

    for eqn in jaxpr.eqns:
        environment.update(zip(eqn.outvars, _equation(eqn, [read(var) for var in eqn.invars]), strict=True))
    return [read(var) for var in jaxpr.outvars]


def _equation(eqn: Any, values: list[Any]) -> Sequence[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS:
        return _evaluate(params[CALLS[name]], values)
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        first, last = lengths.matvec + lengths.vecmat, sum(lengths)
        return _evaluate(params["jaxprs"].solve, [*values[first : first + lengths.solve], *values[last:]])
    if name == "reduce_precision" or (name == "convert_element_type" and _rounds(eqn)):
        return values
    if name == "bitcast_convert_type":  # bits are those of the dtype that was declared
        values = [jnp.asarray(value, var.aval.dtype) for value, var in zip(values, eqn.invars, strict=True)]
        return [jnp.asarray(eqn.primitive.bind(*values, **params), _dtype(eqn.outvars[0].aval))]
    outputs = eqn.primitive.bind(*values, **{key: _parameter(key, value) for key, value in params.items()})
    return outputs if eqn.primitive.multiple_results else [outputs]


def _constant(value: Any, aval: Any) -> Any:
    """A constant in float64: floats stand for the numbers that they were rounded from, as they do in the fields."""
    if not jnp.issubdtype(aval.dtype, np.inexact):
        return jnp.asarray(value, _dtype(aval))
    array = np.asarray(value)
    if array.dtype.kind == "c":
        kind = "float32" if array.dtype.itemsize == 8 else "float64"
        return jnp.asarray(_exact(array.real, kind) + 1j * _exact(array.imag, kind)).reshape(aval.shape)
    return jnp.asarray(_exact(array, np.dtype(aval.dtype).name).reshape(aval.shape))


def _exact(array: Any, dtype: str) -> Any:
    """The numbers in float64 that those of an array were rounded from."""
    unique, places = np.unique(array.astype(np.float64), return_inverse=True, equal_nan=True)
    exact = [float(number(v, dtype)) if np.isfinite(v) else v for v in unique.tolist()]
    return np.array(exact, np.float64)[places].reshape(array.shape)


def _rounds(eqn: Any) -> bool:
    """Whether a cast is from one float to another."""
    return floats.is_float(np.dtype(eqn.invars[0].aval.dtype)) and floats.is_float(np.dtype(eqn.params["new_dtype"]))


def _parameter(key: str, value: Any) -> Any:
    """A parameter of an equation: inner programs and dtypes are widened, and no algorithm is asked for."""
    if _is_program(value):
        return _program(value)
    if isinstance(value, tuple) and value and all(map(_is_program, value)):
        return tuple(map(_program, value))
    if key in _DTYPES and value is not None:
        return wide(value)
    return None if key == "precision" else value


def _is_program(value: Any) -> bool:
    return hasattr(getattr(value, "jaxpr", value), "eqns")


def _program(closed: Any) -> Any:
    """The jaxpr of an inner program, as that of a loop, in float64."""
    inputs = getattr(closed, "jaxpr", closed).invars
    types = [jax.ShapeDtypeStruct(var.aval.shape, _dtype(var.aval)) for var in inputs]
    return jax.make_jaxpr(lambda *args: _evaluate(closed, args))(*types)


def _dtype(aval: Any) -> Any:
    """The dtype of a value in float64; random keys stay what they are."""
    return aval.dtype if jnp.issubdtype(aval.dtype, jax.dtypes.extended) else wide(aval.dtype)


def primitives(closed: Any) -> set[str]:
    """The names of all primitives of a program, those of its inner programs included."""
    names: set[str] = set()
    for eqn in getattr(closed, "jaxpr", closed).eqns:
        names.add(eqn.primitive.name)
        for value in eqn.params.values():
            for parameter in value if isinstance(value, tuple) else (value,):
                if _is_program(parameter):
                    names |= primitives(parameter)
    return names
