"""Ragged products for all sizes: a loop over groups is the same formula, and no wrong form of it is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.sizes.places.products import MOST_GROUPS
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes

Product = Callable[..., jax.Array]


def few_rows(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Group sizes of which some are 0."""
    return rng.integers(0, 3, shape)


GROUPS = Family(
    symbols={"n": 7, "d": 1, "f": 1},  # room for three groups of two rows, and a row beyond
    args={
        "rows": Shaped(("n", "d")),
        "kernels": Shaped((3, "d", "f")),
        "sizes": Shaped((3,), "int32", values=few_rows),
    },
    differentiable=("rows", "kernels"),
)


def loop(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    place, start, out = jnp.arange(rows.shape[0])[:, None], jnp.int32(0), jnp.zeros((rows.shape[0], kernels.shape[2]))
    for group in range(kernels.shape[0]):
        mine = (place >= start) & (place < start + sizes[group])
        out += jnp.where(mine, rows @ kernels[group], 0)
        start += sizes[group]
    return out


def counted(x: jax.Array, sizes: jax.Array, more: int = 0) -> jax.Array:
    return jnp.where(jnp.arange(x.shape[0])[:, None] < sizes.sum() + more, x, 0)


def ragged(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    return counted(lax.ragged_dot(counted(rows, sizes), kernels, sizes), sizes)


def of_taken(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    """Each row with the matrix of its group."""
    ends = jnp.cumsum(sizes)
    group = (jnp.arange(rows.shape[0])[:, None] >= ends).sum(1)
    return counted(jnp.einsum("nd,ndf->nf", rows, kernels[jnp.minimum(group, kernels.shape[0] - 1)]), sizes)


@jax.custom_vjp
def without_the_last_row(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
    return ragged(rows, kernels, sizes)


def _forward(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> Any:
    return ragged(rows, kernels, sizes), (rows, kernels, sizes)


def _backward(kept: Any, cotangent: jax.Array) -> Any:
    rows, kernels, sizes = kept
    _, pull = jax.vjp(lambda rows, kernels: ragged(rows, kernels, sizes), rows, kernels)
    return *pull(counted(cotangent, sizes, -1)), None


without_the_last_row.defvjp(_forward, _backward)

WRONG: dict[str, Product] = {
    "matrices of the next group": lambda rows, kernels, sizes: ragged(rows, jnp.roll(kernels, 1, 0), sizes),
    "sizes reversed": lambda rows, kernels, sizes: ragged(rows, kernels, sizes[::-1]),
    "two groups changed": lambda rows, kernels, sizes: ragged(rows, kernels, sizes[jnp.array([1, 0, 2])]),
    "last group left out": lambda rows, kernels, sizes: counted(ragged(rows, kernels, sizes), sizes[:2]),
    "a row too many": lambda rows, kernels, sizes: ragged(rows, kernels, sizes.at[0].add(1)),
    "a row too few": lambda rows, kernels, sizes: ragged(rows, kernels, jnp.maximum(sizes - 1, 0)),
    "a row late": lambda rows, kernels, sizes: jnp.roll(ragged(rows, kernels, sizes), 1, 0),
    "twice": lambda rows, kernels, sizes: 2 * ragged(rows, kernels, sizes),
    "wrong for a group of one": lambda rows, kernels, sizes: ragged(rows, kernels, jnp.where(sizes == 1, 0, sizes)),
    "wrong at one width": lambda rows, kernels, sizes: ragged(rows * (0 if rows.shape[1] == 16 else 1), kernels, sizes),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("sides", [(loop, ragged), (ragged, loop)], ids=["after", "before"])
def test_a_loop_over_groups_is_the_same_formula(sides: tuple[Product, Product], direction: str) -> None:
    """Whichever side is evaluated first: the loop does not promise what the ragged product does."""
    for proof in prove_all_sizes(*sides, GROUPS, direction):
        assert proof.verdict == "rounding", proof
        assert "sizes[...] is in [0, n + 1)" in proof.conditions
        assert any(condition.startswith("n - sizes[...]") for condition in proof.conditions)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_refuted_at_sizes(name: str) -> None:
    (proof,) = prove_all_sizes(loop, WRONG[name], GROUPS)
    assert (proof.verdict, [*proof.sizes]) == ("different", ["n", "d", "f"]), proof.reason


def test_a_gradient_without_a_row_is_refuted() -> None:
    (forward,) = prove_all_sizes(loop, without_the_last_row, GROUPS)
    assert forward.verdict == "rounding"
    for proof in prove_all_sizes(loop, without_the_last_row, GROUPS, "gradient"):
        assert proof.verdict == "different", proof.reason


def test_nothing_is_known_of_rows_beyond_the_groups() -> None:
    (proof,) = prove_all_sizes(loop, lambda rows, kernels, sizes: lax.ragged_dot(rows, kernels, sizes), GROUPS)
    assert proof.verdict in ("error", "different")


def test_what_has_no_rule_says_so() -> None:
    batched = Family(
        symbols={"n": 1},
        args={"a": Shaped((2, "n", 3)), "b": Shaped((2, 3, 3, 4)), "sizes": Shaped((2, 3), "int32")},
        differentiable=(),
    )
    numbers = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (0,))), [1], [1])
    (proof,) = prove_all_sizes(
        lambda a, b, sizes: lax.ragged_dot_general(a, b, sizes, numbers),
        lambda a, b, sizes: lax.ragged_dot_general(a, b + 0, sizes, numbers),
        batched,
    )
    assert proof.verdict == "error"
    assert "a ragged product with batch dimensions or a group offset" in proof.reason


def test_many_groups_are_not_told_apart() -> None:
    many = Family(
        symbols={"n": 1, "d": 1},
        args={
            "rows": Shaped(("n", "d")),
            "kernels": Shaped((MOST_GROUPS + 1, "d", "d")),
            "sizes": Shaped((MOST_GROUPS + 1,), "int32", values=few_rows),
        },
        differentiable=(),
    )
    (proof,) = prove_all_sizes(lax.ragged_dot, lambda a, b, sizes: lax.ragged_dot(a + 0, b, sizes), many)
    assert proof.verdict == "error"
    assert f"a ragged product of {MOST_GROUPS + 1} groups" in proof.reason
