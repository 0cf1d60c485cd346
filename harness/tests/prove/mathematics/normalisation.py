"""RMSNorm and LayerNorm: their definition, five ways to write it, and what goes wrong with epsilon, counts and powers.

Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv 1910.07467); Ba, Kiros and Hinton,
"Layer Normalization", 2016 (arXiv 1607.06450).
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.values import Normal
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

SIZES = {"batch": 2, "seq": 8, "embed": 32}


def rms_norm(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """Divide each row by its root mean square and scale its columns."""
    rows, columns = wide(x, scale)
    mean_square = jnp.mean(jnp.square(rows), axis=-1, keepdims=True)
    return (rows * jax.lax.rsqrt(mean_square + epsilon) * (columns + scale_offset)).astype(x.dtype)


def einsum_form(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """Both products as einsums, the scale joined to the root first."""
    rows, columns = wide(x, scale)
    root = jax.lax.rsqrt(jnp.einsum("...d,...d->...", rows, rows) / x.shape[-1] + epsilon)
    return jnp.einsum("...d,...,d->...d", rows, root, columns + scale_offset).astype(x.dtype)


def halves(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """The sum of squares in two halves, times the reciprocal of the count (exact: the count is a power of two)."""
    rows, columns = wide(x, scale)
    first, second = jnp.split(rows, 2, axis=-1)
    total = jnp.sum(first * first, axis=-1, keepdims=True) + jnp.sum(second * second, axis=-1, keepdims=True)
    root = jax.lax.rsqrt(total * (1 / x.shape[-1]) + epsilon)
    return (rows * (columns * root) + rows * (scale_offset * root)).astype(x.dtype)


def _length(divide: Callable[[Array, Array, float], Array]) -> Function:
    """RMSNorm by `divide(rows, mean of squares, epsilon)`."""

    def rms_norm_by(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
        rows, columns = wide(x, scale)
        mean_square = jnp.mean(rows**2, axis=-1, keepdims=True)
        return (divide(rows, mean_square, epsilon) * (columns + scale_offset)).astype(x.dtype)

    return rms_norm_by


# --- a handwritten gradient ------------------------------------------------------------------------------------------


def _pull(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    """The gradient of RMSNorm: the part of the cotangent along the row does not count, the row's length being fixed.

    With u = x r, r = (mean(x^2) + epsilon)^(-1/2) and y = u s: dr/dx_i = -r^3 x_i / n, so that
    dL/dx = r (g s - u mean(g s u)) and dL/ds = sum over rows of g u.
    """
    scaled = cotangent * effective
    to_rows = root * (scaled - unit * jnp.mean(scaled * unit, axis=-1, keepdims=True))
    return to_rows, _over_rows(cotangent * unit)


def _over_rows(array: Array) -> Array:
    return jnp.sum(array, axis=tuple(range(array.ndim - 1)))


def _handwritten(pull: Callable[[Array, Array, Array, Array], tuple[Array, Array]] = _pull) -> Function:
    """RMSNorm with `pull(unit rows, root, effective scale, cotangent)` as its gradient."""

    def forward(rows: Array, effective: Array, epsilon: float) -> tuple[Array, tuple[Array, Array, Array]]:
        root = jax.lax.rsqrt(jnp.mean(jnp.square(rows), axis=-1, keepdims=True) + epsilon)
        return rows * root * effective, (rows * root, root, effective)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
    def norm(rows: Array, effective: Array, epsilon: float) -> Array:
        return forward(rows, effective, epsilon)[0]

    def backward(epsilon: float, saved: tuple[Array, Array, Array], cotangent: Array) -> tuple[Array, Array]:
        return pull(*saved, cotangent)

    norm.defvjp(forward, backward)

    def handwritten(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
        rows, columns = wide(x, scale)
        return norm(rows, columns + scale_offset, epsilon).astype(x.dtype)

    return handwritten


# --- faults of RMSNorm -----------------------------------------------------------------------------------------------


def _epsilon(changed: Callable[[float], float]) -> Function:
    """The reference with another epsilon."""

    def rms_norm_with(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
        return rms_norm(x, scale, epsilon=changed(epsilon), scale_offset=scale_offset)

    return rms_norm_with


def epsilon_on_the_sum(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """Epsilon added before the division by the count."""
    return rms_norm(x, scale, epsilon=epsilon / x.shape[-1], scale_offset=scale_offset)


def mean_over_one_less(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """The unbiased mean of a sample, as of a variance."""
    rows, columns = wide(x, scale)
    mean_square = jnp.sum(jnp.square(rows), axis=-1, keepdims=True) / (x.shape[-1] - 1)
    return (rows * jax.lax.rsqrt(mean_square + epsilon) * (columns + scale_offset)).astype(x.dtype)


def mean_subtracted(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """The rows centred first, as in LayerNorm."""
    (rows,) = wide(x)
    centred = rows - jnp.mean(rows, axis=-1, keepdims=True)
    return rms_norm(centred, scale, epsilon=epsilon, scale_offset=scale_offset).astype(x.dtype)


def offset_missing(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """A scale that is stored less its offset, used as it is stored."""
    return rms_norm(x, scale, epsilon=epsilon, scale_offset=0.0)


def offset_of_the_result(x: Array, scale: Array, *, epsilon: float, scale_offset: float) -> Array:
    """The offset added to the scaled row instead of to the scale."""
    return rms_norm(x, scale, epsilon=epsilon, scale_offset=0.0) + scale_offset


def _no_projection(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    return root * cotangent * effective, _over_rows(cotangent * unit)


def _projection_over_one_less(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    scaled = cotangent * effective
    along = jnp.sum(scaled * unit, axis=-1, keepdims=True) / (unit.shape[-1] - 1)
    return root * (scaled - unit * along), _over_rows(cotangent * unit)


def _projection_unscaled(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    along = jnp.mean(cotangent * unit, axis=-1, keepdims=True)
    return root * (cotangent * effective - unit * along), _over_rows(cotangent * unit)


def _root_missing(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    to_rows, to_scale = _pull(unit, root, effective, cotangent)
    return to_rows / root, to_scale


def _projection_with_raw_row(unit: Array, root: Array, effective: Array, cotangent: Array) -> tuple[Array, Array]:
    scaled = cotangent * effective
    along = jnp.mean(scaled * unit, axis=-1, keepdims=True)
    return root * (scaled - unit / root * along), _over_rows(cotangent * unit)


RMS_NORM = specimen(
    "mathematics_rms_norm",
    reference=rms_norm,
    rewrites={
        "einsum_form": einsum_form,
        "halves": halves,
        "reciprocal_root": _length(lambda rows, square, epsilon: rows * (1 / jnp.sqrt(square + epsilon))),
        "quotient": _length(lambda rows, square, epsilon: rows / jnp.sqrt(square + epsilon)),
        "power": _length(lambda rows, square, epsilon: rows * (square + epsilon) ** -0.5),
        "handwritten": _handwritten(),
    },
    faults={
        "epsilon_ten_times": _epsilon(lambda epsilon: 10 * epsilon),
        "epsilon_missing": _epsilon(lambda epsilon: 0.0),
        "epsilon_squared": _epsilon(lambda epsilon: epsilon**2),
        "epsilon_outside_the_root": _length(lambda rows, square, epsilon: rows / (jnp.sqrt(square) + epsilon)),
        "epsilon_on_the_sum": epsilon_on_the_sum,
        "epsilon_ignored": _epsilon(lambda epsilon: 1e-6),
        "mean_over_one_less": mean_over_one_less,
        "mean_subtracted": mean_subtracted,
        "power_049": _length(lambda rows, square, epsilon: rows * (square + epsilon) ** -0.49),
        "root_missing": _length(lambda rows, square, epsilon: rows / (square + epsilon)),
        "offset_missing": offset_missing,
        "offset_of_the_result": offset_of_the_result,
        "gradient_without_projection": _handwritten(_no_projection),
        "gradient_projection_over_one_less": _handwritten(_projection_over_one_less),
        "gradient_projection_unscaled": _handwritten(_projection_unscaled),
        "gradient_without_root": _handwritten(_root_missing),
        "gradient_projection_of_raw_row": _handwritten(_projection_with_raw_row),
    },
    args={
        "x": Arg(shape=("batch", "seq", "embed"), values=Normal(offset=0.05)),
        "scale": Arg(shape=("embed",), values=Normal(scale=0.1, offset=0.5)),
    },
    cases=(
        Case(id="offset", sizes=SIZES, statics={"epsilon": 1e-5, "scale_offset": 0.5}),
        Case(id="usual", sizes=SIZES, statics={"epsilon": 1e-6, "scale_offset": 0.0}),
    ),
)


# --- LayerNorm -------------------------------------------------------------------------------------------------------


def layer_norm(x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
    """Centre each row, divide it by its standard deviation, scale its columns and add a bias."""
    rows, columns, added = wide(x, scale, bias)
    centred = rows - jnp.mean(rows, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + epsilon) * columns + added).astype(x.dtype)


Moments = tuple[Array, Array]


def _moments(rows: Array) -> Moments:
    """Mean and variance in one pass, as E[x^2] - E[x]^2."""
    mean = jnp.mean(rows, axis=-1, keepdims=True)
    return mean, jnp.mean(jnp.square(rows), axis=-1, keepdims=True) - jnp.square(mean)


def _centred_by_matrix(rows: Array) -> Moments:
    """The same moments from a matrix product with I - 1/n."""
    count = rows.shape[-1]
    centred = rows @ (jnp.eye(count, dtype=rows.dtype) - 1 / count)
    return rows - centred, jnp.einsum("...d,...d->...", centred, centred)[..., None] / count


def _with_moments(
    moments: Callable[[Array], Moments] = _moments,
    finish: Callable[[Array, Array, Array], Array] = lambda unit, columns, added: unit * columns + added,
) -> Function:
    """LayerNorm by `moments(rows)` and `finish(unit rows, scale, bias)`."""

    def layer_norm_by(x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
        rows, columns, added = wide(x, scale, bias)
        mean, variance = moments(rows)
        return finish((rows - mean) * jax.lax.rsqrt(variance + epsilon), columns, added).astype(x.dtype)

    return layer_norm_by


def _changed(change: Callable[[Array, Array], Moments]) -> Function:
    """A fault: LayerNorm with `change(mean, variance)` for its moments."""
    return _with_moments(lambda rows: change(*_moments(rows)))


def _unbiased(mean: Array, variance: Array) -> Moments:
    count = SIZES["embed"]
    return mean, variance * count / (count - 1)


LAYER_NORM = specimen(
    "mathematics_layer_norm",
    reference=layer_norm,
    rewrites={
        "one_pass": _with_moments(),
        "centring_matrix": _with_moments(_centred_by_matrix),
        "library": _with_moments(
            lambda rows: (jnp.mean(rows, axis=-1, keepdims=True), jnp.var(rows, axis=-1, keepdims=True))
        ),
    },
    faults={
        "variance_over_one_less": _changed(_unbiased),
        "second_moment_for_variance": _changed(lambda mean, variance: (mean, variance + jnp.square(mean))),
        "mean_not_squared": _changed(lambda mean, variance: (mean, variance + jnp.square(mean) - mean)),
        "mean_not_subtracted": _changed(lambda mean, variance: (jnp.zeros_like(mean), variance)),
        "epsilon_twice": _changed(lambda mean, variance: (mean, variance + 1e-5)),
        "gradient_of_variance_dropped": _changed(lambda mean, variance: (mean, jax.lax.stop_gradient(variance))),
        "gradient_of_mean_dropped": _changed(lambda mean, variance: (jax.lax.stop_gradient(mean), variance)),
        "bias_before_scale": _with_moments(finish=lambda unit, columns, added: (unit + added) * columns),
        "bias_subtracted": _with_moments(finish=lambda unit, columns, added: unit * columns - added),
    },
    args={
        "x": Arg(shape=("batch", "seq", "embed"), values=Normal(offset=0.05)),
        "scale": Arg(shape=("embed",), values=Normal(scale=0.1, offset=1.0)),
        "bias": Arg(shape=("embed",), values=Normal(scale=0.005)),
    },
    cases=(Case(id="usual", sizes=SIZES, statics={"epsilon": 1e-5}),),
)

SPECIMENS = (RMS_NORM, LAYER_NORM)
