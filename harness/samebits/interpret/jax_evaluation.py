"""Arithmetic on constants by jax itself, one equation at a time: the bits are those that the program would compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core.primitives
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Array, Step, Type, is_key


def execute(step: Step, values: Sequence[Array]) -> list[Any]:
    """The outputs of an equation on constants, in their own dtypes."""
    if step.equation is None or step.equation.primitive.name != step.name:
        raise NotCovered(f"{step} on constants has no equation of its own")
    try:
        outputs = _bound(step.equation.primitive, step, [jax.numpy.asarray(value) for value in values])
    except Exception as error:
        raise NotCovered(f"{step} on constants does not run alone: {type(error).__name__}") from error
    return [np.asarray(output) for output in outputs]


def _bound(primitive: Any, step: Step, operands: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a primitive outside of every mesh: constants lie on one device."""
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        result = primitive.bind(
            *operands, **{name: None if "sharding" in name else value for name, value in step.params.items()}
        )
    return result if primitive.multiple_results else [result]


def in_float64(step: Step, values: Sequence[Array]) -> list[Array]:
    """The outputs of an equation by jax itself, on the CPU, with every float widened to float64."""
    primitive = _primitive(step)
    try:
        with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
            outputs = _bound(primitive, step, [jax.numpy.asarray(value) for value in values])
            return [np.asarray(output) for output in outputs]
    except Exception as error:
        raise NotCovered(f"{step} does not run in float64: {type(error).__name__}") from error


def _primitive(step: Step) -> Any:
    """The primitive of a step, which may be part of another equation."""
    if step.equation is not None and step.equation.primitive.name == step.name:
        return step.equation.primitive
    known = _public().get(step.name)
    if known is None:
        raise NotCovered(f"{step} has no equation of its own")
    return known


@functools.cache
def _public() -> dict[str, Any]:
    values = vars(jax.extend.core.primitives).values()
    return {value.name: value for value in values if isinstance(value, jax.extend.core.Primitive)}


def holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether a float format holds every number of another."""
    order = ("bfloat16", "float32", "float64")
    if wide == narrow:
        return True
    return wide.name in order and narrow.name in order and order.index(wide.name) >= order.index(narrow.name)


# Random keys and random bits: known data, computed by jax itself, so that a proof is for these keys.
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
    """The outputs of an equation on random keys or on the state of a generator, as jax computes them here."""
    numbers = [_known(interpreter, step, value) for value in values]
    dtype = _key_dtype(step)
    name = None if dtype is None else _implementation(step, dtype)
    if name != PORTABLE and step.name not in _PORTABLE_NAMES:
        if interpreter.domain.name == "settled":
            raise NotCovered(f"{step} gives bits that depend on the platform")
        if interpreter.platform not in (None, jax.default_backend()):
            raise NotCovered(f"{step} gives the bits of {jax.default_backend()}, not of {interpreter.platform}")
    outputs = _of_keys(step, numbers)
    return [
        data_of(output, kind) if is_key(output.dtype) else np.asarray(output)
        for output, kind in zip(outputs, step.outputs, strict=True)
    ]


def _of_keys(step: Step, numbers: Sequence[Array]) -> Sequence[Any]:
    """The outputs of an equation as jax computes them."""
    operands = []
    for number, var in zip(numbers, step.equation.invars, strict=True):
        if is_key(var.aval.dtype):
            name = _implementation(step, var.aval.dtype)
            operands.append(jax.random.wrap_key_data(jax.numpy.asarray(_words(number)), impl=name))
        else:
            operands.append(jax.numpy.asarray(number))
    return _bound(step.equation.primitive, step, operands)


def sampled(step: Step, numbers: Sequence[Array]) -> Array:
    """The one output of a sampler."""
    return np.asarray(_of_keys(step, numbers)[0])


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
    """Read known integers as floats, as samplers do with random bits: the numbers, not what they may be short for."""
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
