"""Complex numbers as pairs of real values: every operation on them is some operations on their parts.

So every domain has complex arithmetic without code of its own, and a conjugate is exact. A domain in which the rounding
of an operation counts does not see that the compiler divides or takes moduli otherwise: there, these are not covered.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun
from numpy.typing import NDArray

from samebits.errors import MissingRule
from samebits.interpret.arrays import MATRICES, OF_PARTS
from samebits.interpret.composite_primitives import rewritten
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.devices import PerDevice
from samebits.interpret.domain import AbstractDomain, InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type

# Discrete Fourier transforms as products with matrices of cosines and sines, axis by axis.
Pair = tuple[Any, Any]

_ROOTS = {Fraction(0): 1.0, Fraction(1, 12): math.sqrt(0.75), Fraction(1, 8): math.sqrt(0.5), Fraction(1, 6): 0.5}
"""Cosines of parts of a turn that are roots of simple fractions."""


def fourier(interpreter: InterpreterProtocol, step: Step, parts: Sequence[Value]) -> list[Value]:
    """The parts of a transform, from the parts of its operand."""
    name = _NAMES[str(getattr(step.params["fft_type"], "name", step.params["fft_type"]))]
    return rewritten(interpreter, step, parts, transformed, name, tuple(step.params["fft_lengths"]))


_NAMES = {name: name for name in ("FFT", "IFFT", "RFFT", "IRFFT")} | {
    str(number): name for number, name in enumerate(("FFT", "IFFT", "RFFT", "IRFFT"))
}


def transformed(name: str, lengths: tuple[int, ...], *parts: Any) -> Any:
    """The transform over the last axes; of one part for a real operand."""
    dtype, rank = parts[0].dtype, parts[0].ndim
    wide = [part.astype(jnp.float64) for part in parts]
    axes = list(range(rank - len(lengths), rank))
    z: Pair = (wide[0], wide[1] if len(wide) > 1 else jnp.zeros_like(wide[0]))
    if name == "RFFT":
        z = _along(z, axes[-1], lengths[-1], -1, lengths[-1] // 2 + 1)
    elif name in ("FFT", "IFFT"):
        z = _along(z, axes[-1], lengths[-1], -1 if name == "FFT" else 1, lengths[-1])
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        z = _along(z, axis, length, -1 if name in ("FFT", "RFFT") else 1, length)
    if name == "IRFFT":
        z = (_to_real(z, lengths[-1]), z[1])
    scale = math.prod(lengths) if name.startswith("I") else 1
    outputs = [part / scale if scale > 1 else part for part in z]
    return tuple(part.astype(dtype) for part in (outputs[:1] if name == "IRFFT" else outputs))


def _along(z: Pair, axis: int, length: int, sign: int, count: int) -> Pair:
    """The sums of z exp(sign 2 pi i j k / length) over one axis, for k up to `count`."""
    cosines, sines = _tables(np.outer(np.arange(length), np.arange(count)), length)
    real, imag = (jnp.moveaxis(part, axis, -1) for part in z)
    outputs = (_dot(real, cosines) - _dot(imag, sign * sines), _dot(real, sign * sines) + _dot(imag, cosines))
    return jnp.moveaxis(outputs[0], -1, axis), jnp.moveaxis(outputs[1], -1, axis)


def _to_real(z: Pair, length: int) -> Any:
    """The real numbers, along the last axis, whose transform begins with these."""
    count = length // 2 + 1
    cosines, sines = _tables(np.outer(np.arange(count), np.arange(length)), length)
    twice = np.full((count, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    inner = np.ones((count, 1))
    inner[0] = 0  # of these two the imaginary part is not read
    if length % 2 == 0:
        inner[-1] = 0
    return _dot(z[0], twice * cosines) - _dot(z[1], twice * inner * sines)


def _dot(x: Any, matrix: Any) -> Any:
    return lax.dot_general(x, matrix, (((x.ndim - 1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


def _tables(products: NDArray[np.int64], length: int) -> Pair:
    """The cosines and sines of these many parts of a turn."""
    turns = [Fraction(int(number) % length, length) for number in products.reshape(-1)]
    cosines, sines = (_cosines(turns, shift).reshape(products.shape) for shift in (Fraction(0), Fraction(3, 4)))
    return cosines, sines


def _cosines(turns: Sequence[Fraction], shift: Fraction) -> Any:
    """cos(2 pi (turn + shift)), each from an angle of at most a quarter of a turn, so that symmetric ones are one."""
    signs, angles, known = [], [], []
    for turn in turns:
        part = (turn + shift) % 1
        part = min(part, 1 - part)  # cos is even
        sign = -1.0 if part > Fraction(1, 4) else 1.0
        part = min(part, Fraction(1, 2) - part)
        exact = 0.0 if part == Fraction(1, 4) else _ROOTS.get(part)
        signs.append(sign)
        angles.append(0.0 if exact is not None else float(2 * math.pi * part))
        known.append(exact)
    table = np.array([1.0 if exact is None else exact for exact in known]) * np.array(signs)
    if None not in known:
        return table
    unknown = np.array([exact is None for exact in known])
    return jnp.where(unknown, jnp.asarray(signs) * jnp.cos(jnp.asarray(angles)), table)


# Programs with complex inputs or outputs as programs of their parts, along one more dimension of two.
@functools.lru_cache(maxsize=256)
def real_program(closed: Any) -> Any:
    """A closed jaxpr whose complex inputs and outputs are pairs of reals; the same object where there are none."""
    if not any(_is_complex(aval) for aval in (*closed.in_avals, *closed.out_avals)):
        return closed

    def parted(*args: Any) -> list[Any]:
        joined = [
            jax.lax.complex(arg[..., 0], arg[..., 1]) if _is_complex(aval) else arg
            for arg, aval in zip(args, closed.in_avals, strict=True)
        ]
        outputs = jaxpr_as_fun(closed)(*joined)
        return [jnp.stack([jnp.real(out), jnp.imag(out)], -1) if _is_complex(out) else out for out in outputs]

    with jax.enable_x64(True):
        return jax.make_jaxpr(parted)(*map(_parted, closed.in_avals))


def _is_complex(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.complexfloating))


def _parted(aval: Any) -> jax.ShapeDtypeStruct:
    if not _is_complex(aval):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    real = jnp.finfo(aval.dtype).dtype
    return jax.ShapeDtypeStruct((*aval.shape, 2), real)


_REAL: dict[int, np.dtype[Any]] = {8: np.dtype(np.float32), 16: np.dtype(np.float64)}


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """The value of a complex array: two real values of its shape."""

    real: Value
    imag: Value


def real_kind(kind: Type) -> Type:
    """The type of the parts of a complex value; any other type as it is."""
    return Type(kind.shape, _REAL[kind.dtype.itemsize]) if kind.is_complex else kind


def part(value: Value, number: int) -> Value:
    """The real (0) or imaginary (1) part of a value on every device; what is not complex as it is."""
    if isinstance(value, PerDevice):
        return PerDevice(tuple(part(each, number) for each in value.values))
    return (value.real, value.imag)[number] if isinstance(value, ComplexPair) else value


def paired(real: Value, imag: Value) -> Value:
    """Two real values as a complex one, on every device on which they differ."""
    if isinstance(real, PerDevice) or isinstance(imag, PerDevice):
        count = len(real.values if isinstance(real, PerDevice) else imag.values)
        each = [[v.values[d] if isinstance(v, PerDevice) else v for v in (real, imag)] for d in range(count)]
        return PerDevice(tuple(ComplexPair(*both) for both in each))
    return ComplexPair(real, imag)


def same(domain: AbstractDomain, first: Value, second: Value) -> bool:
    """Whether two values are equal, both parts of complex ones."""
    if isinstance(first, ComplexPair) and isinstance(second, ComplexPair):
        return domain.same(first.real, second.real) and domain.same(first.imag, second.imag)
    return domain.same(first, second)


def constant(interpreter: InterpreterProtocol, array: Any, kind: Type) -> ComplexPair:
    """A complex constant."""
    array, real = np.asarray(array, kind.dtype), real_kind(kind)
    return ComplexPair(interpreter.constant(array.real, real), interpreter.constant(array.imag, real))


def by_parts(step: Step, values: Sequence[Value], evaluate: Callable[[Step, Sequence[Value]], Sequence[Value]]) -> Any:
    """The outputs of an equation that does the same to both parts, as what moves or adds elements."""
    kinds = [real_kind(kind) for kind in step.inputs], [real_kind(kind) for kind in step.outputs]
    params = dict(step.params)
    if "new_dtype" in params:
        params["new_dtype"] = real_kind(Type((), np.dtype(params["new_dtype"]))).dtype
    inner = step.like(step.name, *kinds, **params)
    real, imag = (evaluate(inner, [part(value, number) for value in values]) for number in (0, 1))
    return [paired(*both) if kind.is_complex else both[0] for *both, kind in zip(real, imag, step.outputs, strict=True)]


def complex_step(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """The outputs of an equation on complex numbers."""
    if step.name in STILL:
        return list(values)
    if step.name in MOVES:
        return list(by_parts(step, values, interpreter.local))
    if step.name == "convert_element_type" and not step.inputs[0].is_complex:
        real = real_kind(step.output)
        (converted,) = interpreter.local(step.like(step.name, step.inputs, [real], new_dtype=real.dtype), values)
        return [ComplexPair(converted, interpreter.constant(np.zeros(real.shape, real.dtype), real))]
    if step.name == "convert_element_type" and step.output.is_float:  # the imaginary part is dropped
        real = real_kind(step.inputs[0])
        return list(interpreter.local(step.like(step.name, [real], step.outputs, **step.params), [part(values[0], 0)]))
    if step.name in LINEAR and all(kind.is_complex for kind in step.outputs):
        return list(by_parts(step, values, interpreter.local))
    if step.name == "complex":
        return [ComplexPair(*_spread(interpreter, step, values))]
    if step.name in ("real", "imag"):
        return [part(values[0], int(step.name == "imag"))]
    if step.name == "iota":
        real = real_kind(step.output)
        (numbers,) = interpreter.local(step.like("iota", [], [real], **{**step.params, "dtype": real.dtype}), [])
        return [ComplexPair(numbers, interpreter.constant(np.zeros(real.shape, real.dtype), real))]
    program, whole = PROGRAMS.get(step.name), f"{step.name}{OF_PARTS}"
    if interpreter.domain.name == "rounding":
        program = BOUNDED.get(step.name, program)
    if (program is None and step.name != "fft" and whole not in MATRICES) or (
        interpreter.domain.name in ("rounding", "settled")
        and step.name not in PLAIN
        and not (step.name == "fft" and getattr(interpreter.domain, "widened", False))
    ):
        text = f"{step} of complex numbers has no rule in the domain '{interpreter.domain.name}'"
        raise MissingRule.of(text, step.name, step.place)
    flat: list[Value] = []
    kinds: list[Type] = []
    for value, kind in zip(values, step.inputs, strict=True):
        parts = [part(value, 0), part(value, 1)] if kind.is_complex else [value]
        flat, kinds = [*flat, *parts], [*kinds, *[real_kind(kind)] * len(parts)]
    outputs = [real_kind(kind) for kind in step.outputs for _ in range(2 if kind.is_complex else 1)]
    which = tuple(kind.is_complex for kind in step.inputs)
    inner = step.like(step.name, kinds, outputs, **step.params)
    if whole in MATRICES:
        results = iter(interpreter.local(step.like(whole, kinds, outputs, **step.params), flat))
    elif program is None:
        results = iter(fourier(interpreter, inner, flat))
    else:
        results = iter(rewritten(interpreter, inner, flat, real_and_imaginary_parts, program, which, _parameters(step)))
    return [ComplexPair(next(results), next(results)) if kind.is_complex else next(results) for kind in step.outputs]


def _spread(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Operands in the shape of the result: jax lets a scalar literal stand for an array."""
    spread, shape = [], step.output.shape
    for value, kind in zip(values, step.inputs, strict=True):
        index = np.broadcast_to(np.arange(math.prod(kind.shape)).reshape(kind.shape), shape)
        spread.append(value if kind.shape == shape else interpreter.taken([value], index, Type(shape, kind.dtype)))
    return spread


def _parameters(step: Step) -> tuple[Any, ...]:
    """What a program needs of the parameters, hashable."""
    if step.name == "integer_pow":
        return (step.params["y"],)
    if step.name == "dot_general":
        (sums, batch) = step.params["dimension_numbers"]
        return tuple(tuple(map(int, dims)) for dims in (*sums, *batch))
    if step.name == "reduce_prod":
        return tuple(step.params["axes"])
    return ()


LINEAR = frozenset(
    {"add", "add_any", "convert_element_type", "cumsum", "neg", "reduce_sum", "scatter-add", "sub", "copy"}
    | {"all_gather", "all_gather_invariant", "all_to_all", "pbroadcast", "ppermute", "psum", "psum_invariant"}
    | {"psum_scatter", "reduce_scatter", "ragged_all_to_all"}
)
"""What does the same to both parts."""

PLAIN = frozenset({"conj", "dot_general", "eq", "exp", "integer_pow", "is_finite", "mul", "ne", "square"})
"""Operations that the compiler does as they are written here."""


def real_and_imaginary_parts(
    program: Callable[..., Any], which: tuple[bool, ...], parameters: tuple[Any, ...], *flat: Any
) -> Any:
    """The parts of what a program of pairs gives; a real operand has no second part."""
    rest = iter(flat)
    operands = [(next(rest), next(rest) if is_complex else None) for is_complex in which]
    return program(*operands, *parameters)


def _both(x: Pair) -> Pair:
    """Both parts of a number, of a real one with a zero."""
    return (x[0], jnp.zeros((), x[0].dtype)) if x[1] is None else x


def _times(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = _both(x), _both(y)
    return a * c - b * d, a * d + b * c


def _divided(x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = _both(x), _both(y)
    below = c * c + d * d
    return (a * c + b * d) / below, (b * c - a * d) / below


def _direction(x: Pair) -> Pair:
    """The number over its absolute value; zero at zero."""
    square = x[0] * x[0] + x[1] * x[1]
    nothing = square == 0
    size = jnp.sqrt(jnp.where(nothing, 1, square))
    return jnp.where(nothing, x[0], x[0] / size), jnp.where(nothing, x[1], x[1] / size)


def _exponential_in_halves(x: Pair) -> Pair:
    """exp(x) with two factors exp(a / 2), as compilers do against overflow: its bound holds for either form."""
    half = jnp.exp(x[0] / 2)
    return half * (half * jnp.cos(x[1])), half * (half * jnp.sin(x[1]))


def _raised(x: Pair, exponent: int) -> Pair:
    """A power with an integer exponent, by squaring."""
    unit: Pair = jnp.ones_like(x[0]), jnp.zeros_like(x[0])
    result, base, left = unit, x, abs(exponent)
    while left:
        result = _times(result, base) if left % 2 else result
        base, left = _times(base, base), left // 2
    return result if exponent >= 0 else _divided(unit, result)


def _dotted(x: Pair, y: Pair, *dimensions: tuple[int, ...]) -> Pair:
    """Four products of matrices, fewer where an operand is real."""
    left_sum, right_sum, left_batch, right_batch = dimensions
    numbers = ((left_sum, right_sum), (left_batch, right_batch))

    def dot(left: Any, right: Any) -> Any:
        return lax.dot_general(left, right, numbers, precision=lax.Precision.HIGHEST)

    (a, b), (c, d) = x, y
    real = dot(a, c) if b is None or d is None else dot(a, c) - dot(b, d)
    terms = [dot(left, right) for left, right in ((a, d), (b, c)) if left is not None and right is not None]
    return real, sum(terms[1:], terms[0])


def _product_along(x: Pair, *axes: int) -> Pair:
    real, imag = x
    for axis in sorted(axes, reverse=True):
        total = jnp.ones(()), jnp.zeros(())
        for number in range(real.shape[axis]):
            row = jnp.take(real, number, axis), jnp.take(imag, number, axis)
            total = row if number == 0 else _times(total, row)
        real, imag = total
    return real, imag


PROGRAMS: dict[str, Callable[..., Any]] = {
    "abs": lambda x: (jnp.sqrt(x[0] * x[0] + x[1] * x[1]),),
    "conj": lambda x: (x[0], jnp.zeros_like(x[0]) if x[1] is None else -x[1]),
    "div": _divided,
    "dot_general": _dotted,
    "eq": lambda x, y: ((x[0] == y[0]) & (x[1] == y[1]),),
    "exp": lambda x: (jnp.exp(x[0]) * jnp.cos(x[1]), jnp.exp(x[0]) * jnp.sin(x[1])),
    "integer_pow": _raised,
    "is_finite": lambda x: (jnp.isfinite(x[0]) & jnp.isfinite(x[1]),),
    "log": lambda x: (jnp.log(x[0] * x[0] + x[1] * x[1]) / 2, lax.atan2(x[1], x[0])),
    "mul": _times,
    "ne": lambda x, y: ((x[0] != y[0]) | (x[1] != y[1]),),
    "reduce_prod": _product_along,
    "sign": _direction,
    "square": lambda x: _times(x, x),
}
"""By primitive, a function of its operands, each a pair of parts, and of `_parameters`."""

BOUNDED: dict[str, Callable[..., Any]] = {"exp": _exponential_in_halves}
"""Programs whose error bound holds for each of the forms that compilers choose from."""
