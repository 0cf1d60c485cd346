"""Elementary functions: polynomials, powers, logarithms, trigonometry, and what is written of them."""

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, f32, like, normal, uniform


def polynomial(x: Array) -> Array:
    x32 = f32(x)
    return like(1 + 0.5 * x32 - 0.25 * x32**2 + 2 * x32**3 - 0.125 * x32**4, x)


POLYNOMIAL = Formula(
    name="polynomial",
    reference=polynomial,
    args={"x": normal(32)},
    honest={
        "horner": lambda x: 1 + x * (0.5 + x * (-0.25 + x * (2 - 0.125 * x))),
        "estrin": lambda x: (1 + 0.5 * x) + x * x * ((2 * x - 0.25) - 0.125 * (x * x)),
        "library": lambda x: jnp.polyval(jnp.array([-0.125, 2, -0.25, 0.5, 1]), x),
        "powers_times_coefficients": lambda x: (
            jnp.stack([x**0, x, x**2, x**3, x**4], -1) @ jnp.array([1, 0.5, -0.25, 2, -0.125])
        ),
    },
    twins={
        "reversed": lambda x: jnp.polyval(jnp.array([1, 0.5, -0.25, 2, -0.125]), x),
        "one_sign": lambda x: 1 + x * (0.5 + x * (0.25 + x * (2 - 0.125 * x))),
        "last_term_dropped": lambda x: 1 + x * (0.5 + x * (-0.25 + x * 2)),
    },
)


def power(x: Array) -> Array:
    return like(f32(x) ** 1.5, x)


POWER = Formula(
    name="power",
    reference=power,
    args={"x": uniform(32, low=0.1, high=4.0)},
    honest={
        "root": lambda x: x * jnp.sqrt(x),
        "root_of_the_cube": lambda x: jnp.sqrt(x * x * x),
        "reciprocal_root": lambda x: x * x * jax.lax.rsqrt(x),
    },
    twins={
        "root_alone": lambda x: jnp.sqrt(x),
        "exponent_of_1_4999": lambda x: x**1.4999,
        "cube_root": lambda x: x * jnp.cbrt(x),
    },
)


def double_angle(x: Array) -> Array:
    return like(2 * jnp.sin(f32(x)) * jnp.cos(f32(x)), x)


DOUBLE_ANGLE = Formula(
    name="double_angle",
    reference=double_angle,
    args={"x": normal(32)},
    honest={"sine": lambda x: jnp.sin(2 * x), "sum": lambda x: jnp.sin(x) * jnp.cos(x) + jnp.cos(x) * jnp.sin(x)},
    twins={
        "cosine": lambda x: jnp.cos(2 * x),
        "two_forgotten": lambda x: jnp.sin(x) * jnp.cos(x),
        "angle_slightly_off": lambda x: jnp.sin(2.0001 * x),
    },
)


HYPOTENUSE = Formula(
    name="hypotenuse",
    reference=lambda x, y: like(jnp.sqrt(jnp.square(f32(x)) + jnp.square(f32(y))), x),
    args={"x": normal(32), "y": normal(32)},
    honest={
        "norm": lambda x, y: jnp.linalg.norm(jnp.stack([x, y]), axis=0),
        "library": lambda x, y: jnp.hypot(x, y),
        "complex": lambda x, y: jnp.abs(jax.lax.complex(x, y)),
    },
    twins={
        "first_norm": lambda x, y: jnp.abs(x) + jnp.abs(y),
        "not_rooted": lambda x, y: x * x + y * y,
        "epsilon": lambda x, y: jnp.sqrt(x * x + y * y + 1e-5),
    },
)


SYMMETRIC_LOGARITHM = Formula(
    name="symmetric_logarithm",
    reference=lambda x: like(jnp.sign(f32(x)) * jnp.log1p(jnp.abs(f32(x))), x),
    args={"x": normal(32, scale=3.0)},
    honest={
        "chosen": lambda x: jnp.where(x < 0, -jnp.log1p(-jnp.minimum(x, 0)), jnp.log1p(jnp.maximum(x, 0))),
        "plus_one": lambda x: jnp.sign(x) * jnp.log1p(x * jnp.sign(x)),
    },
    twins={
        "unsigned": lambda x: jnp.log1p(jnp.abs(x)),
        "arsinh": lambda x: jnp.arcsinh(x),
        "base_two": lambda x: jnp.sign(x) * jnp.log2(1 + jnp.abs(x)),
    },
)


INTERPOLATE = Formula(
    name="interpolate",
    reference=lambda x, y, t: like(f32(x) + f32(t) * (f32(y) - f32(x)), x),
    args={"x": normal(32), "y": normal(32), "t": uniform(32, low=0.0, high=1.0)},
    honest={
        "two_products": lambda x, y, t: (1 - t) * x + t * y,
        "from_the_other_end": lambda x, y, t: y - (1 - t) * (y - x),
    },
    twins={
        "ends_swapped": lambda x, y, t: t * x + (1 - t) * y,
        "smoothed": lambda x, y, t: x + t * t * (3 - 2 * t) * (y - x),
        "weight_without_gradient": lambda x, y, t: x + jax.lax.stop_gradient(t) * (y - x),
    },
)


def gate_decay(a: Array) -> Array:
    a32 = f32(a)
    return like(jnp.sqrt(1 - jnp.exp(-2 * a32)), a)


GATE_DECAY = Formula(
    name="gate_decay",
    reference=gate_decay,
    args={"a": uniform(32, low=0.2, high=3.0)},
    honest={
        "expm1": lambda a: jnp.sqrt(-jnp.expm1(-2 * a)),
        "factored": lambda a: jnp.sqrt((1 - jnp.exp(-a)) * (1 + jnp.exp(-a))),
        "square": lambda a: jnp.sqrt(1 - jnp.exp(-a) ** 2),
    },
    twins={
        "not_doubled": lambda a: jnp.sqrt(1 - jnp.exp(-a)),
        "one_less": lambda a: 1 - jnp.exp(-a),
        "epsilon": lambda a: jnp.sqrt(1 - jnp.exp(-2 * a) + 1e-5),
    },
)


def gaussian(x: Array) -> Array:
    x32 = f32(x)
    return like(-0.5 * jnp.square((x32 - 0.5) / 2.0) - jnp.log(2.0) - 0.5 * jnp.log(2 * jnp.pi), x)


GAUSSIAN = Formula(
    name="gaussian_log_density",
    reference=gaussian,
    args={"x": normal(32)},
    honest={
        "library": lambda x: jax.scipy.stats.norm.logpdf(x, 0.5, 2.0),
        "variance": lambda x: -((x - 0.5) ** 2) / 8.0 - 0.5 * jnp.log(8 * jnp.pi),
    },
    twins={
        "deviation_for_variance": lambda x: jax.scipy.stats.norm.logpdf(x, 0.5, 2.0**0.5),
        "constant_dropped": lambda x: -((x - 0.5) ** 2) / 8.0 - jnp.log(2.0),
        "half_forgotten": lambda x: -((x - 0.5) ** 2) / 4.0 - 0.5 * jnp.log(8 * jnp.pi),
    },
)

ALL = (POLYNOMIAL, POWER, DOUBLE_ANGLE, HYPOTENUSE, SYMMETRIC_LOGARITHM, INTERPOLATE, GATE_DECAY, GAUSSIAN)
