"""Updates of optimisers, as optax and its like write them: one step each, for a parameter with its moments."""

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, Function, f32, like, normal, uniform

MOMENTS = {"g": normal(24), "m": normal(24, scale=0.3), "v": uniform(24, low=0.01, high=2.0)}
B1, B2, EPS, STEP, RATE = 0.9, 0.99, 1e-6, 3, 0.01


def adam(g: Array, m: Array, v: Array) -> Array:
    m32, v32 = B1 * f32(m) + (1 - B1) * f32(g), B2 * f32(v) + (1 - B2) * jnp.square(f32(g))
    corrected = m32 / (1 - B1**STEP), v32 / (1 - B2**STEP)
    return like(-RATE * corrected[0] / (jnp.sqrt(corrected[1]) + EPS), g)


def _adam(g: Array, m: Array, v: Array, b1: float = B1, b2: float = B2, step: int = STEP, eps: float = EPS) -> Array:
    first, second = (b1 * m + (1 - b1) * g) / (1 - b1**step), (b2 * v + (1 - b2) * g * g) / (1 - b2**step)
    return -RATE * first / (jnp.sqrt(second) + eps)


def rate_corrected(g: Array, m: Array, v: Array) -> Array:
    """The corrections in the rate, as in the paper's remark (Kingma and Ba 2015, section 2); epsilon is scaled too."""
    root = (1 - B2**STEP) ** 0.5
    first, second = m + (1 - B1) * (g - m), v + (1 - B2) * (g * g - v)
    return -(RATE * root / (1 - B1**STEP)) * first / (jnp.sqrt(second) + EPS * root)


def epsilon_not_scaled(g: Array, m: Array, v: Array) -> Array:
    root = (1 - B2**STEP) ** 0.5
    first, second = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
    return -(RATE * root / (1 - B1**STEP)) * first / (jnp.sqrt(second) + EPS)


ADAM = Formula(
    name="adam",
    reference=adam,
    args=MOMENTS,
    honest={
        "plain": lambda g, m, v: _adam(g, m, v),
        "rate_corrected": rate_corrected,
        "by_differences": lambda g, m, v: (
            -RATE
            * ((m + (1 - B1) * (g - m)) / (1 - B1**STEP))
            / (jnp.sqrt((v + (1 - B2) * (g * g - v)) / (1 - B2**STEP)) + EPS)
        ),
    },
    twins={
        "betas_swapped": lambda g, m, v: _adam(g, m, v, B2, B1),
        "correction_one_step_late": lambda g, m, v: _adam(g, m, v, step=STEP + 1),
        "epsilon_ten_times": lambda g, m, v: _adam(g, m, v, eps=1e-5),
        "epsilon_inside_the_root": lambda g, m, v: (
            -RATE
            * (B1 * m + (1 - B1) * g)
            / (1 - B1**STEP)
            * jax.lax.rsqrt((B2 * v + (1 - B2) * g * g) / (1 - B2**STEP) + EPS)
        ),
        "epsilon_not_scaled": epsilon_not_scaled,
        "no_correction": lambda g, m, v: -RATE * (B1 * m + (1 - B1) * g) / (jnp.sqrt(B2 * v + (1 - B2) * g * g) + EPS),
    },
    gradients=False,
)

WEIGHTS = {"p": normal(24), **MOMENTS}


def adamw(p: Array, g: Array, m: Array, v: Array) -> Array:
    return like(f32(p) + _adam(f32(g), f32(m), f32(v)) - RATE * 0.1 * f32(p), p)


ADAMW = Formula(
    name="adamw",
    reference=adamw,
    args=WEIGHTS,
    honest={
        "decayed_first": lambda p, g, m, v: p * (1 - RATE * 0.1) + _adam(g, m, v),
        "one_sum": lambda p, g, m, v: p - RATE * (-_adam(g, m, v) / RATE + 0.1 * p),
    },
    twins={
        "decay_not_scaled_by_the_rate": lambda p, g, m, v: p + _adam(g, m, v) - 0.1 * p,
        "decay_in_the_gradient": lambda p, g, m, v: p + _adam(g + 0.1 * p, m, v),
        "no_decay": lambda p, g, m, v: p + _adam(g, m, v),
        "decayed_after": lambda p, g, m, v: (p + _adam(g, m, v)) * (1 - RATE * 0.1),
    },
    gradients=False,
)


def rmsprop(g: Array, v: Array) -> Array:
    return like(-RATE * f32(g) / jnp.sqrt(0.9 * f32(v) + 0.1 * jnp.square(f32(g)) + 1e-6), g)


RMSPROP = Formula(
    name="rmsprop",
    reference=rmsprop,
    args={name: MOMENTS[name] for name in "gv"},
    honest={
        "root": lambda g, v: -RATE * (g * jax.lax.rsqrt(v + 0.1 * (g * g - v) + 1e-6)),
        "power": lambda g, v: g * (0.1 * g**2 + (0.9 * v + 1e-6)) ** -0.5 * -RATE,
    },
    twins={
        "epsilon_outside_the_root": lambda g, v: -RATE * g / (jnp.sqrt(0.9 * v + 0.1 * g * g) + 1e-6),
        "epsilon_squared": lambda g, v: -RATE * g / jnp.sqrt(0.9 * v + 0.1 * g * g + 1e-12),
        "old_moment": lambda g, v: -RATE * g / jnp.sqrt(v + 1e-6),
    },
    gradients=False,
)


def lion(g: Array, m: Array) -> dict[str, Array]:
    update = jnp.sign(0.9 * f32(m) + 0.1 * f32(g))
    return {"update": like(-RATE * update, g), "moment": like(0.99 * f32(m) + 0.01 * f32(g), g)}


def _lion(g: Array, m: Array, first: float = 0.9, second: float = 0.99) -> dict[str, Array]:
    return {"update": -RATE * jnp.sign(first * m + (1 - first) * g), "moment": second * m + (1 - second) * g}


LION = Formula(
    name="lion",
    reference=lion,
    args={"g": normal(24), "m": normal(24)},
    honest={
        # The sign does not depend on a positive factor.
        "scaled": lambda g, m: {"update": -RATE * jnp.sign(9 * m + g), "moment": m + 0.01 * (g - m)},
        "chosen": lambda g, m: {"update": jnp.where(9 * m + g > 0, -RATE, RATE), "moment": 0.99 * m + 0.01 * g},
    },
    twins={
        "betas_swapped": lambda g, m: _lion(g, m, 0.99, 0.9),
        "one_beta": lambda g, m: _lion(g, m, 0.9, 0.9),
        "sign_of_the_gradient": lambda g, m: {"update": -RATE * jnp.sign(g), "moment": 0.99 * m + 0.01 * g},
        "ascent": lambda g, m: {"update": RATE * jnp.sign(9 * m + g), "moment": 0.99 * m + 0.01 * g},
    },
    gradients=False,
)

GRADIENTS = {"g": normal(6, 4), "h": normal(10)}


def clipped(g: Array, h: Array) -> tuple[Array, Array]:
    norm = jnp.sqrt(jnp.sum(jnp.square(f32(g))) + jnp.sum(jnp.square(f32(h))))
    factor = jnp.where(norm < 1.0, 1.0, 1.0 / norm)
    return like(f32(g) * factor, g), like(f32(h) * factor, h)


def _clip(g: Array, h: Array, factor: Array) -> tuple[Array, Array]:
    return g * factor, h * factor


GLOBAL_NORM_CLIP = Formula(
    name="global_norm_clip",
    reference=clipped,
    args=GRADIENTS,
    honest={
        "minimum": lambda g, h: _clip(g, h, jnp.minimum(1.0, jax.lax.rsqrt(jnp.sum(g * g) + jnp.sum(h * h)))),
        "one_vector": lambda g, h: _clip(g, h, 1 / jnp.maximum(1.0, jnp.linalg.norm(jnp.concatenate([g.ravel(), h])))),
    },
    twins={
        "epsilon": lambda g, h: _clip(g, h, 1 / (jnp.sqrt(jnp.sum(g * g) + jnp.sum(h * h)) + 1e-6)),
        "leaf_by_leaf": lambda g, h: (g / jnp.linalg.norm(g), h / jnp.linalg.norm(h)),
        "square": lambda g, h: _clip(g, h, 1 / (jnp.sum(g * g) + jnp.sum(h * h))),
        "clipped_by_value": lambda g, h: (jnp.clip(g, -1, 1), jnp.clip(h, -1, 1)),
        "norm_without_gradient": lambda g, h: _clip(
            g, h, jax.lax.stop_gradient(jax.lax.rsqrt(jnp.sum(g * g) + jnp.sum(h * h)))
        ),
    },
)


def nesterov(g: Array, m: Array) -> tuple[Array, Array]:
    new = 0.9 * f32(m) + f32(g)
    return like(f32(g) + 0.9 * new, g), like(new, g)


NESTEROV = Formula(
    name="nesterov_momentum",
    reference=nesterov,
    args={"g": normal(24), "m": normal(24)},
    honest={
        "expanded": lambda g, m: (1.9 * g + 0.81 * m, 0.9 * m + g),
        "factored": lambda g, m: (g + 0.9 * (g + 0.9 * m), g + 0.9 * m),
    },
    twins={
        "plain_momentum": lambda g, m: (0.9 * m + g, 0.9 * m + g),
        "damped": lambda g, m: (g + 0.9 * (0.9 * m + 0.1 * g), 0.9 * m + g),
        "old_momentum": lambda g, m: (g + 0.9 * m, 0.9 * m + g),
    },
)


def factored(g: Array, r: Array, c: Array) -> Array:
    rows, columns = 0.9 * f32(r) + 0.1 * jnp.mean(f32(g) ** 2, 1), 0.9 * f32(c) + 0.1 * jnp.mean(f32(g) ** 2, 0)
    return like(f32(g) * jax.lax.rsqrt(rows[:, None] * columns[None] / jnp.mean(rows)), g)


def _moments(g: Array, r: Array, c: Array) -> tuple[Array, Array]:
    return 0.9 * r + 0.1 * jnp.mean(g * g, 1), 0.9 * c + 0.1 * jnp.mean(g * g, 0)


def _factored(g: Array, r: Array, c: Array, mean: Function) -> Array:
    rows, columns = _moments(g, r, c)
    return g * jnp.sqrt(mean(rows, columns)) / jnp.sqrt(jnp.outer(rows, columns))


ADAFACTOR = Formula(
    name="adafactor",
    reference=factored,
    args={"g": normal(5, 6), "r": uniform(5, low=0.2, high=1.5), "c": uniform(6, low=0.2, high=1.5)},
    honest={
        # sqrt(m) / (sqrt(r) sqrt(c)) = 1 / sqrt(r c / m)
        "two_roots": lambda g, r, c: (
            g
            * jax.lax.rsqrt(_moments(g, r, c)[0] / jnp.mean(_moments(g, r, c)[0]))[:, None]
            * jax.lax.rsqrt(_moments(g, r, c)[1])
        ),
        "outer": lambda g, r, c: _factored(g, r, c, lambda rows, columns: jnp.mean(rows)),
    },
    twins={
        "mean_of_columns": lambda g, r, c: _factored(g, r, c, lambda rows, columns: jnp.mean(columns)),
        "sum": lambda g, r, c: _factored(g, r, c, lambda rows, columns: jnp.sum(rows)),
        "not_divided": lambda g, r, c: _factored(g, r, c, lambda rows, columns: 1.0),
    },
    gradients=False,
)


PARAMETER_AVERAGE = Formula(
    name="parameter_average",
    reference=lambda p, q: like(0.95 * f32(p) + (1 - 0.95) * f32(q), p),
    args={"p": normal(24), "q": normal(24)},
    honest={"step": lambda p, q: p + (1 - 0.95) * (q - p), "other_step": lambda p, q: q - 0.95 * (q - p)},
    twins={
        "weights_swapped": lambda p, q: 0.95 * q + 0.05 * p,
        "decay_of_point_949": lambda p, q: 0.949 * p + 0.051 * q,
        "average": lambda p, q: 0.5 * (p + q),
        "average_without_gradient": lambda p, q: 0.95 * jax.lax.stop_gradient(p) + 0.05 * q,
    },
)

ALL = (ADAM, ADAMW, RMSPROP, LION, GLOBAL_NORM_CLIP, NESTEROV, ADAFACTOR, PARAMETER_AVERAGE)
