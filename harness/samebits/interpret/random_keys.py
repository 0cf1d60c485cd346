"""Random keys and random bits: known data, computed by jax itself, so that a proof is for these keys.

A key is an element of as many bytes as its data (`equation.key_bytes`), which moves like any other element. Bits of
the default implementation are the same on every machine; those of `rbg` are what this platform's generator gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Array, Step, Type, is_key

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
"""The names under which jax wraps the data of keys."""

PORTABLE = "threefry2x32"
"""The implementation whose bits are defined, and not those of a platform."""


def data_of(keys: Any, kind: Type) -> Array:
    """The elements of keys: of a jax array of keys, of its data, or of elements already."""
    if isinstance(keys, np.ndarray) and keys.dtype == kind.dtype:
        return keys
    data = np.asarray(jax.random.key_data(keys) if is_key(getattr(keys, "dtype", np.dtype("i4"))) else keys)
    return np.ascontiguousarray(data).view(kind.dtype).reshape(kind.shape)


def _words(keys: Array) -> Array:
    """The data of keys, as unsigned words along a new last axis."""
    words = keys.dtype.itemsize // 4
    return np.ascontiguousarray(keys).reshape(-1).view(np.uint32).reshape(*keys.shape, words)


def _implementation(step: Step, dtype: Any) -> str:
    """The implementation of a key dtype."""
    for name in IMPLEMENTATIONS:
        if jax.eval_shape(lambda name=name: jax.random.key(0, impl=name)).dtype == dtype:
            return name
    raise NotCovered(f"{step} has keys of an implementation that is not one of {', '.join(IMPLEMENTATIONS)}")


def _key_dtype(step: Step) -> Any:
    for var in (*step.equation.invars, *step.equation.outvars):
        if is_key(var.aval.dtype):
            return var.aval.dtype
    return None


def generated(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The outputs of an equation on random keys or on the state of a generator, as jax computes them here.

    Raises:
        NotCovered: the keys are not known, or the bits are those of another platform.
    """
    numbers = [_known(interpreter, step, value) for value in values]
    dtype = _key_dtype(step)
    name = None if dtype is None else _implementation(step, dtype)
    if name != PORTABLE and step.name not in _PORTABLE_NAMES:
        if interpreter.domain.name == "settled":
            raise NotCovered(f"{step} gives bits that depend on the platform")
        if interpreter.platform not in (None, jax.default_backend()):
            raise NotCovered(f"{step} gives the bits of {jax.default_backend()}, not of {interpreter.platform}")
    outputs = _bound(step, numbers)
    return [
        data_of(output, kind) if is_key(output.dtype) else np.asarray(output)
        for output, kind in zip(outputs, step.outputs, strict=True)
    ]


def _bound(step: Step, numbers: Sequence[Array]) -> Sequence[Any]:
    """The outputs of an equation as jax computes them."""
    operands = []
    for number, var in zip(numbers, step.equation.invars, strict=True):
        if is_key(var.aval.dtype):
            name = _implementation(step, var.aval.dtype)
            operands.append(jax.random.wrap_key_data(jax.numpy.asarray(_words(number)), impl=name))
        else:
            operands.append(jax.numpy.asarray(number))
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        result = step.equation.primitive.bind(*operands, **step.params)
    return result if step.equation.primitive.multiple_results else [result]


def sampled(step: Step, numbers: Sequence[Array]) -> Array:
    """The one output of a sampler."""
    return np.asarray(_bound(step, numbers)[0])


def _known(interpreter: InterpreterProtocol, step: Step, value: Value) -> Array:
    """The numbers of a value that is known."""
    if not isinstance(value, np.ndarray):
        raise NotCovered(
            f"{step} has no rule in the domain '{interpreter.domain.name}', where its operands are unknown"
        )
    return value


def wrapped(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Data as keys."""
    words = np.ascontiguousarray(_known(interpreter, step, values[0]), np.uint32)
    return [words.view(step.output.dtype).reshape(step.output.shape)]


def unwrapped(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Keys as data."""
    return [_words(_known(interpreter, step, values[0])).reshape(step.output.shape)]


def bits_as_float(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Known integers read as floats, as samplers do with random bits; of the numbers, not what they may be short for.

    Raises:
        NotCovered: the integers are not known, or floats are read as integers.
    """
    source, target = step.inputs[0], step.output
    if step.is_plain or not target.is_float or source.is_float or source.dtype.itemsize != target.dtype.itemsize:
        raise NotCovered(f"{step}: bits are read as another type, which real numbers do not have")
    floats = np.ascontiguousarray(_known(interpreter, step, values[0])).view(target.dtype).reshape(target.shape)
    if interpreter.domain.name == "labels":
        return [floats]
    with np.errstate(invalid="ignore"):
        return [interpreter.domain.lift(floats.astype(np.float64), Type(target.shape, np.dtype(np.float64)))]


_PORTABLE_NAMES = ("threefry2x32", "iota_2x32_shape")

RANDOM: dict[str, Callable[[Any, Step, Sequence[Value]], list[Value]]] = {
    **dict.fromkeys(
        ("iota_2x32_shape", "random_bits", "random_clone", "random_fold_in", "random_seed", "random_split"), generated
    ),
    **dict.fromkeys(("rng_bit_generator", "threefry2x32"), generated),
    "random_unwrap": unwrapped,
    "random_wrap": wrapped,
}
"""By primitive, its rule: all operands must be known."""
