"""Products of float32 numbers in passes of bfloat16, as a TPU takes them.

Its unit multiplies numbers of bfloat16 and adds them up in float32. A number of float32 is a sum of three of bfloat16:
at the default precision the first of them counts alone; at higher ones products of parts are added, the smallest first.
Of an infinity the first part alone counts.

Source: XLA, `PrecisionConfig`, and the algorithms of dots, which drop the NaN of small parts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.hlo.steps import HloStep

_HIGHEST = 2
"""Precisions are 0, 1 and 2, default, high and highest: the largest sum of the numbers of two parts that count."""

_ALGORITHMS = {5: 0, 6: 0, 7: 1, 8: 2}
"""The same by algorithm, of those in bfloat16 with one, three and six passes."""


def in_passes(rule: Callable[[HloStep], Any]) -> Callable[[HloStep], Any]:
    """Return the meaning of a product, in one, three or six passes of bfloat16 where the translation takes them so."""

    def product(step: HloStep) -> Any:
        order = _order(step) if step.program.in_passes else None
        if order is None:
            return rule(step)
        lhs, rhs = (_parts(value, order) for value in step.values)
        pairs = [(i, j) for i in range(len(lhs)) for j in range(len(rhs)) if i + j <= order]
        pairs.sort(key=sum, reverse=True)
        *small, first = (rule(replace(step, values=[lhs[i], rhs[j]])) for i, j in pairs)
        if not small:
            return first
        rest = sum(small[1:], start=small[0])
        return first + jnp.where(jnp.isnan(rest), 0, rest)

    return product


def _order(step: HloStep) -> int | None:
    """Return up to which order parts are multiplied; None where the product is taken otherwise."""
    said = step.inst.precision
    if said.algorithm:
        return _ALGORITHMS.get(said.algorithm)
    precision = max(said.operands, default=0)
    return precision if precision <= _HIGHEST else None


def _parts(value: Any, order: int) -> Sequence[Any]:
    """Return the numbers of bfloat16 that a number of float32 is the sum of, as float32; others as they are."""
    if value.dtype != np.float32:
        return [value]
    parts, rest = [], jnp.asarray(value)
    for _ in range(order + 1):
        parts.append(lax.reduce_precision(rest, exponent_bits=8, mantissa_bits=7))
        rest = rest - parts[-1]
    return parts
