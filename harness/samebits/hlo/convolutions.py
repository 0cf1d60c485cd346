"""XLA's convolution, as a matrix product where it is one: libtpu writes every product as a convolution.

Along each spatial dimension a convolution relates places of the output, the kernel and the operand. Where that relation
is one of a matrix product (a free dimension of either side, a sum, or a batch), the convolution becomes a
`dot_general`, perhaps of reordered operands; else it stays a convolution.

Source: XLA, "Operation semantics", `ConvWithGeneralPadding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.hlo.steps import HloStep


@dataclass(frozen=True, slots=True)
class _Spatial:
    """One spatial dimension as one of a matrix product.

    Args:
        kind: `lhs` or `rhs` where it is a free dimension of that side, `batch` or `sum`.
        lhs, rhs: the places that are taken of each side, in the order of the output (or of each other, in a sum).
    """

    kind: str
    lhs: Sequence[int]
    rhs: Sequence[int]


def convolution(step: HloStep) -> Any:
    """Return the convolution of two arrays."""
    numbers, inst = step.inst.convolution, step.inst
    lhs, rhs = step.values
    groups = inst.feature_group_count or 1, inst.batch_group_count or 1
    if groups == (1, 1):
        sizes = [
            [shape[axis] for axis in axes]
            for shape, axes in (
                (lhs.shape, numbers.lhs_spatial),
                (rhs.shape, numbers.rhs_spatial),
                (step.dims, numbers.out_spatial),
            )
        ]
        forms = [_spatial(dim, *size) for dim, *size in zip(inst.window.dimensions, *sizes, strict=True)]
        if all(forms):
            return _product(step, [form for form in forms if form is not None])
    window = inst.window.dimensions
    reversed_ = [axis for axis, dim in zip(numbers.rhs_spatial, window, strict=True) if dim.reversal]
    dimensions = lax.ConvDimensionNumbers(
        (numbers.lhs_batch, numbers.lhs_feature, *numbers.lhs_spatial),
        (numbers.rhs_output, numbers.rhs_input, *numbers.rhs_spatial),
        (numbers.out_batch, numbers.out_feature, *numbers.out_spatial),
    )
    return lax.conv_general_dilated(
        lhs,
        lax.rev(rhs, reversed_) if reversed_ else rhs,
        [dim.stride for dim in window],
        [(dim.low, dim.high) for dim in window],
        [dim.base_dilation for dim in window],
        [dim.window_dilation for dim in window],
        dimensions,
        *groups,
        step.precision,
        preferred_element_type=step.dtype,
    )


def _spatial(dim: Any, lhs: int, rhs: int, out: int) -> _Spatial | None:
    """Return a spatial dimension as one of a matrix product; None where it is not."""
    base, dilation = dim.base_dilation or 1, dim.window_dilation or 1
    places: list[tuple[int, int, int]] = []
    for at in range(out):
        for tap in range(rhs):
            where = at * dim.stride + tap * dilation - dim.low
            if where >= 0 and where % base == 0 and where // base < lhs:
                kernel = rhs - 1 - tap if dim.reversal else tap
                places.append((at, kernel, where // base))
    outs, kernels, operands = ([place[part] for place in places] for part in range(3))
    once = outs == [*range(out)]
    if once and set(kernels) == {0} and rhs == 1:
        return _Spatial("lhs", operands, [0])
    if once and set(operands) == {0} and lhs == 1:
        return _Spatial("rhs", [0], kernels)
    if once:
        return _Spatial("batch", operands, kernels)
    if out == 1 and len(set(operands)) == len(operands) and len(set(kernels)) == len(kernels) and places:
        return _Spatial("sum", operands, kernels)
    return None


def _product(step: HloStep, forms: Sequence[_Spatial]) -> Any:
    numbers = step.inst.convolution
    lhs, rhs = (jnp.asarray(value) for value in step.values)
    lhs_batch, rhs_batch, lhs_sum, rhs_sum = [], [], [numbers.lhs_feature], [numbers.rhs_input]
    for form, left, right in zip(forms, numbers.lhs_spatial, numbers.rhs_spatial, strict=True):
        lhs, rhs = _ordered(lhs, left, form.lhs), _ordered(rhs, right, form.rhs)
        if form.kind == "batch":
            lhs_batch.append(left)
            rhs_batch.append(right)
        elif form.kind == "sum":
            lhs_sum.append(left)
            rhs_sum.append(right)
    axes = (lhs_sum, rhs_sum), (lhs_batch, rhs_batch)
    product = lax.dot_general(lhs, rhs, axes, step.precision, preferred_element_type=step.dtype)
    # The product has the batch first, then what is left of the left side, then what is left of the right side.
    left_free = [axis for axis in range(lhs.ndim) if axis not in (*lhs_batch, *lhs_sum)]
    right_free = [axis for axis in range(rhs.ndim) if axis not in (*rhs_batch, *rhs_sum)]
    places = {("lhs", axis): at + len(lhs_batch) for at, axis in enumerate(left_free)}
    places |= {("rhs", axis): at + len(lhs_batch) + len(left_free) for at, axis in enumerate(right_free)}
    places |= {("batch", axis): at for at, axis in enumerate(lhs_batch)}
    wanted = {numbers.out_batch: ("lhs", numbers.lhs_batch), numbers.out_feature: ("rhs", numbers.rhs_output)}
    for form, left, right, out in zip(
        forms, numbers.lhs_spatial, numbers.rhs_spatial, numbers.out_spatial, strict=True
    ):
        # Of a dimension that only one side has, the other side's part has size 1; in a sum the output's has.
        if form.kind != "sum":
            wanted[out] = (form.kind, right if form.kind == "rhs" else left)
    order = [places[wanted[axis]] for axis in sorted(wanted)]
    left_over = [at for at in range(product.ndim) if at not in order]
    product = lax.transpose(product, (*order, *left_over))
    return lax.reshape(product, step.dims)


def _ordered(array: Any, axis: int, places: Sequence[int]) -> Any:
    """Take places along an axis, where they are not all of it in order."""
    if [*places] == [*range(array.shape[axis])]:
        return array
    if [*places] == [*reversed(range(array.shape[axis]))]:
        return lax.rev(array, (axis,))
    return jnp.take(array, np.array(places), axis=axis)
