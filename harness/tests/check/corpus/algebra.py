"""Linear algebra: products in several orders, factorisations, determinants and distances."""

import math

import jax
import jax.numpy as jnp

from tests.check.corpus.formula import Array, Formula, f32, like, normal

FACTORS = {"a": normal(5, 6), "b": normal(6, 4)}


def matmul(a: Array, b: Array) -> Array:
    return like(f32(a) @ f32(b), a)


MATMUL = Formula(
    name="matmul",
    reference=matmul,
    args=FACTORS,
    honest={
        "einsum": lambda a, b: jnp.einsum("ik,kj->ij", a, b),
        "transposed": lambda a, b: (b.T @ a.T).T,
        "sum_of_products": lambda a, b: jnp.sum(a[:, :, None] * b[None], 1),
        "outer_products": lambda a, b: sum(a[:, i : i + 1] * b[i : i + 1] for i in range(6)),
        "dot_general": lambda a, b: jax.lax.dot_general(a, b, (((1,), (0,)), ((), ()))),
        "contracted_last": lambda a, b: jnp.tensordot(a, b.T, axes=((1,), (1,))),
    },
    twins={
        "last_term_dropped": lambda a, b: a[:, :-1] @ b[:-1],
        "absolute": lambda a, b: jnp.abs(a) @ b,
        "rows_rolled": lambda a, b: a @ jnp.roll(b, 1, 0),
        "one_side_without_gradient": lambda a, b: a @ jax.lax.stop_gradient(b),
    },
)


def _spd(x: Array) -> Array:
    """A positive definite matrix that is well conditioned."""
    return x @ x.T / x.shape[-1] + 2 * jnp.eye(x.shape[0])


SYSTEM = {"m": normal(5, 5), "b": normal(5, 3)}


def cholesky_solve(m: Array, b: Array) -> Array:
    return like(jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(_spd(f32(m))), True), f32(b)), b)


def _two_solves(m: Array, b: Array, second: int = 1) -> Array:
    factor = jnp.linalg.cholesky(_spd(m))
    half = jax.scipy.linalg.solve_triangular(factor, b, lower=True)
    return jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=second)


CHOLESKY_SOLVE = Formula(
    name="cholesky_solve",
    reference=cholesky_solve,
    args=SYSTEM,
    honest={
        "two_solves": lambda m, b: _two_solves(m, b),
        "upper": lambda m, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(_spd(m), lower=False), b),
        "general": lambda m, b: jnp.linalg.solve(_spd(m), b),
    },
    twins={
        "not_transposed": lambda m, b: _two_solves(m, b, 0),
        "ridge_of_one": lambda m, b: jnp.linalg.solve(_spd(m) - jnp.eye(5), b),
        "product": lambda m, b: _spd(m) @ b,
        "half_of_it": lambda m, b: jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(_spd(m)), b, lower=True),
    },
)


def log_determinant(m: Array) -> Array:
    return like(jnp.linalg.slogdet(_spd(f32(m)))[1][None] * jnp.arange(1.0, 3.0), m)


def _factor_logdet(m: Array, factor: float) -> Array:
    diagonal = jnp.diagonal(jnp.linalg.cholesky(_spd(m)))
    return factor * jnp.sum(jnp.log(diagonal))[None] * jnp.arange(1.0, 3.0)


LOG_DETERMINANT = Formula(
    name="log_determinant",
    reference=log_determinant,
    args={"m": normal(5, 5)},
    honest={
        "cholesky": lambda m: _factor_logdet(m, 2.0),
        "product_of_squares": lambda m: (
            jnp.log(jnp.prod(jnp.diagonal(jnp.linalg.cholesky(_spd(m))) ** 2))[None] * jnp.arange(1.0, 3.0)
        ),
    },
    twins={
        "two_forgotten": lambda m: _factor_logdet(m, 1.0),
        "trace_of_logarithms": lambda m: jnp.sum(jnp.log(jnp.diagonal(_spd(m))))[None] * jnp.arange(1.0, 3.0),
    },
)

POINTS = {"x": normal(5, 6), "y": normal(4, 6)}


def distances(x: Array, y: Array) -> Array:
    """By the product, which loses what cancels; the direct form may only be better."""
    x32, y32 = f32(x), f32(y)
    return like(jnp.sum(x32**2, -1)[:, None] + jnp.sum(y32**2, -1) - 2 * x32 @ y32.T, x)


DISTANCES = Formula(
    name="squared_distances",
    reference=distances,
    args=POINTS,
    honest={
        "direct": lambda x, y: jnp.sum((x[:, None] - y[None]) ** 2, -1),
        "einsum": lambda x, y: jnp.einsum("ijd,ijd->ij", x[:, None] - y[None], x[:, None] - y[None]),
    },
    twins={
        "factor_of_one": lambda x, y: jnp.sum(x**2, -1)[:, None] + jnp.sum(y**2, -1) - x @ y.T,
        "mean": lambda x, y: jnp.mean((x[:, None] - y[None]) ** 2, -1),
        "root": lambda x, y: jnp.linalg.norm(x[:, None] - y[None], axis=-1),
        "sum_for_difference": lambda x, y: jnp.sum((x[:, None] + y[None]) ** 2, -1),
    },
)

CHAIN = {"a": normal(4, 6), "b": normal(6, 5, scale=0.5), "c": normal(5, 3, scale=0.5)}


CHAIN_OF_PRODUCTS = Formula(
    name="chain_of_products",
    reference=lambda a, b, c: like((f32(a) @ f32(b)) @ f32(c), a),
    args=CHAIN,
    honest={
        "from_the_right": lambda a, b, c: a @ (b @ c),
        "einsum": lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c),
        "library": lambda a, b, c: jnp.linalg.multi_dot([a, b, c]),
    },
    twins={
        "factor_twice": lambda a, b, c: a @ b @ c + a @ b @ c * 1e-5,
        "rounded_between": lambda a, b, c: jnp.round(a @ b * 256) / 256 @ c,
        "relu_between": lambda a, b, c: jax.nn.relu(a @ b) @ c,
    },
)

LORA = {"x": normal(4, 6), "w": normal(6, 5, scale=0.4), "a": normal(6, 2, scale=0.4), "b": normal(2, 5, scale=0.4)}


LOW_RANK = Formula(
    name="low_rank_update",
    reference=lambda x, w, a, b: like(f32(x) @ f32(w) + 4.0 * ((f32(x) @ f32(a)) @ f32(b)), x),
    args=LORA,
    honest={
        "merged": lambda x, w, a, b: x @ (w + 4.0 * (a @ b)),
        "joined": lambda x, w, a, b: jnp.concatenate([x, 4.0 * (x @ a)], -1) @ jnp.concatenate([w, b], 0),
    },
    twins={
        "not_scaled": lambda x, w, a, b: x @ w + (x @ a) @ b,
        "scaled_by_rank_squared": lambda x, w, a, b: x @ w + 2.0 * ((x @ a) @ b),
        "base_without_gradient": lambda x, w, a, b: x @ jax.lax.stop_gradient(w) + 4.0 * ((x @ a) @ b),
    },
)

HEADS = {"x": normal(2, 3, 8), "w": normal(8, 2, 4, scale=0.35)}


PROJECTION = Formula(
    name="head_projection",
    reference=lambda x, w: like(jnp.einsum("btd,dhk->bhtk", f32(x), f32(w)), x),
    args=HEADS,
    honest={
        "reshaped": lambda x, w: (x.reshape(6, 8) @ w.reshape(8, 8)).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3),
        "head_by_head": lambda x, w: jnp.stack([x @ w[:, h] for h in range(2)], 1),
        "vmapped": lambda x, w: jax.vmap(lambda one: x @ one, in_axes=1, out_axes=1)(w),
    },
    twins={
        "not_transposed": lambda x, w: (x.reshape(6, 8) @ w.reshape(8, 8)).reshape(2, 2, 3, 4),
        "heads_innermost": lambda x, w: (x.reshape(6, 8) @ w.reshape(8, 8)).reshape(2, 3, 4, 2).transpose(0, 3, 1, 2),
        "heads_swapped": lambda x, w: jnp.einsum("btd,dhk->bhtk", x, w[:, ::-1]),
    },
)


def cosine(x: Array, y: Array) -> Array:
    x32, y32 = f32(x), f32(y)
    lengths = jnp.linalg.norm(x32, axis=-1) * jnp.linalg.norm(y32, axis=-1)
    return like(jnp.sum(x32 * y32, -1) / lengths, x)


COSINE = Formula(
    name="cosine_similarity",
    reference=cosine,
    args={"x": normal(6, 8), "y": normal(6, 8)},
    honest={
        "unit_vectors": lambda x, y: jnp.sum(
            x / jnp.linalg.norm(x, axis=-1, keepdims=True) * (y / jnp.linalg.norm(y, axis=-1, keepdims=True)), -1
        ),
        # sqrt(a) sqrt(b) = sqrt(a b) for positive a and b.
        "one_root": lambda x, y: jnp.sum(x * y, -1) * jax.lax.rsqrt(jnp.sum(x * x, -1) * jnp.sum(y * y, -1)),
    },
    twins={
        "product": lambda x, y: jnp.sum(x * y, -1),
        "one_length": lambda x, y: jnp.sum(x * y, -1) / jnp.sum(x * x, -1),
        "scaled_by_the_size": lambda x, y: jnp.sum(x * y, -1) / math.sqrt(8),
        "absolute": lambda x, y: jnp.abs(jnp.sum(x * y, -1)) * jax.lax.rsqrt(jnp.sum(x * x, -1) * jnp.sum(y * y, -1)),
    },
)

ALL = (MATMUL, CHOLESKY_SOLVE, LOG_DETERMINANT, DISTANCES, CHAIN_OF_PRODUCTS, LOW_RANK, PROJECTION, COSINE)
