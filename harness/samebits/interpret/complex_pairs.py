"""Complex numbers as pairs of real values: every operation on them is some operations on their parts.

So every domain has complex arithmetic without code of its own, and a conjugate is exact. A domain in which the rounding
of an operation counts does not see that the compiler divides or takes moduli otherwise: there, these are not covered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.errors import MissingRule
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.devices import PerDevice
from samebits.interpret.domain import AbstractDomain, InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type
from samebits.interpret.fourier import fourier
from samebits.interpret.rewritten import rewritten
from samebits.interpret.special_functions import MATRICES, OF_PARTS

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
    """The outputs of an equation on complex numbers.

    Raises:
        NotCovered: there is no rule, or none whose rounding is that of the compiled program.
    """
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
        results = iter(rewritten(interpreter, inner, flat, program, which, _parameters(step)))
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


def _operands(which: tuple[bool, ...], flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    rest, pairs = iter(flat), []
    for is_complex in which:
        real = next(rest)
        pairs.append((real, next(rest) if is_complex else jnp.zeros((), real.dtype)))
    return pairs


def _times(x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def multiplied(which: tuple[bool, ...], parameters: tuple[Any, ...], *flat: Any) -> Any:
    """A product."""
    return _times(*_operands(which, flat))


def squared(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """A square."""
    return _times((real, imag), (real, imag))


def conjugated(which: tuple[bool, ...], parameters: tuple[Any, ...], *flat: Any) -> Any:
    """The conjugate, also of a real number."""
    return flat[0], -flat[1] if len(flat) > 1 else jnp.zeros_like(flat[0])


def divided(which: tuple[bool, ...], parameters: tuple[Any, ...], *flat: Any) -> Any:
    """A quotient."""
    (a, b), (c, d) = _operands(which, flat)
    below = c * c + d * d
    return (a * c + b * d) / below, (b * c - a * d) / below


def modulus(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """The absolute value."""
    return (jnp.sqrt(real * real + imag * imag),)


def direction(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """The number over its absolute value; zero at zero."""
    square = real * real + imag * imag
    nothing = square == 0
    size = jnp.sqrt(jnp.where(nothing, 1, square))
    return jnp.where(nothing, real, real / size), jnp.where(nothing, imag, imag / size)


def exponential(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """exp(a + b i) = exp(a) (cos b + i sin b)."""
    return jnp.exp(real) * jnp.cos(imag), jnp.exp(real) * jnp.sin(imag)


def exponential_in_halves(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """The same with two factors exp(a / 2), as compilers do against overflow: its bound holds for either form."""
    half = jnp.exp(real / 2)
    return half * (half * jnp.cos(imag)), half * (half * jnp.sin(imag))


def logarithm(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """Log |z| + i arg z."""
    return jnp.log(real * real + imag * imag) / 2, lax.atan2(imag, real)


def raised(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """A power with an integer exponent, by squaring."""
    (exponent,) = parameters
    result, base, left = (jnp.ones_like(real), jnp.zeros_like(real)), (real, imag), abs(exponent)
    while left:
        result = _times(result, base) if left % 2 else result
        base, left = _times(base, base), left // 2
    return result if exponent >= 0 else divided((True, True), (), jnp.ones_like(real), jnp.zeros_like(real), *result)


def compared(which: tuple[bool, ...], parameters: tuple[Any, ...], a: Any, b: Any, c: Any, d: Any) -> Any:
    """Equality of both parts."""
    return ((a == c) & (b == d),)


def unequal(which: tuple[bool, ...], parameters: tuple[Any, ...], a: Any, b: Any, c: Any, d: Any) -> Any:
    """Inequality of a part."""
    return ((a != c) | (b != d),)


def finite(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """Whether both parts are finite."""
    return (jnp.isfinite(real) & jnp.isfinite(imag),)


def dotted(which: tuple[bool, ...], parameters: tuple[Any, ...], *flat: Any) -> Any:
    """Four products of matrices, fewer where an operand is real."""
    left_sum, right_sum, left_batch, right_batch = parameters
    numbers = ((left_sum, right_sum), (left_batch, right_batch))

    def dot(x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, numbers, precision=lax.Precision.HIGHEST)

    a, b = flat[0], flat[1] if which[0] else None
    c, d = flat[1 + which[0]], flat[-1] if which[1] else None
    real = dot(a, c) if b is None or d is None else dot(a, c) - dot(b, d)
    terms = [dot(x, y) for x, y in ((a, d), (b, c)) if x is not None and y is not None]
    return real, sum(terms[1:], terms[0])


def product_along(which: tuple[bool, ...], parameters: tuple[Any, ...], real: Any, imag: Any) -> Any:
    """The product over axes."""
    for axis in sorted(parameters, reverse=True):
        total = jnp.ones(()), jnp.zeros(())
        for number in range(real.shape[axis]):
            row = jnp.take(real, number, axis), jnp.take(imag, number, axis)
            total = row if number == 0 else _times(total, row)
        real, imag = total
    return real, imag


PROGRAMS: dict[str, Callable[..., Any]] = {
    "abs": modulus,
    "conj": conjugated,
    "div": divided,
    "dot_general": dotted,
    "eq": compared,
    "exp": exponential,
    "integer_pow": raised,
    "is_finite": finite,
    "log": logarithm,
    "mul": multiplied,
    "ne": unequal,
    "reduce_prod": product_along,
    "sign": direction,
    "square": squared,
}
"""By primitive, a function of its operands' parts."""

BOUNDED: dict[str, Callable[..., Any]] = {"exp": exponential_in_halves}
"""Programs whose error bound holds for each of the forms that compilers choose from."""
