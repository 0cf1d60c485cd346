"""Discrete Fourier transforms as products with matrices of cosines and sines, axis by axis.

For transforms of 1, 2, 3, 4, 6, 8 and 12 numbers the matrix holds roots of simple fractions, which a field holds
exactly; in others its entries are cosines of constants, which are the same for the same angle and have no other law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step
from samebits.interpret.rewritten import rewritten

Pair = tuple[Any, Any]

_ROOTS = {Fraction(0): 1.0, Fraction(1, 12): math.sqrt(0.75), Fraction(1, 8): math.sqrt(0.5), Fraction(1, 6): 0.5}
"""Cosines of parts of a turn that are roots of simple fractions."""


def fourier(interpreter: InterpreterProtocol, step: Step, parts: Sequence[Value]) -> list[Value]:
    """The parts of a transform, from the parts of its operand.

    Args:
        interpreter: evaluates it.
        step: an `fft` whose inputs and outputs are parts.
        parts: one real value, or the real and the imaginary one.
    """
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
    outputs = (
        _dot(real, cosines) - _dot(imag, sign * sines),
        _dot(real, sign * sines) + _dot(imag, cosines),
    )
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
