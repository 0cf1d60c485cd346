"""Traced programs as text: the text computes the same numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.bisect.program_text import program_text
from samebits.errors import NotCovered
from samebits.schema.meshes import MeshSpec

X = np.arange(32, dtype=np.float32).reshape(4, 8) / 8 - 2
IDS = np.array([[0, 3], [3, 1]], np.int32)


def loops(x: Any, ids: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        count, total = carry
        return (count + 1, total + jnp.tanh(row * x[0])), jnp.where(total > 0, total, row).sum()

    (count, total), sums = lax.scan(body, (0, jnp.zeros(8)), x, reverse=True)
    doubled = lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1] * 2), (count, total))[1]
    return lax.cond(sums[0] > 0, lambda y: y - 1, lambda y: y + ids.sum(), doubled)


def moves(x: Any, ids: Any) -> Any:
    rows = jnp.sort(jnp.flip(x[:, 1:5].T, 1), 0)[ids].reshape(-1, 4)
    table = jnp.zeros((4, 4)).at[ids.ravel()].add(rows, mode="drop")
    later = lax.dynamic_update_slice(table, rows[:1], (ids[0, 1], 0))
    return jnp.concatenate([table, lax.dynamic_slice(later, (ids[1, 1], 0), (2, 4))]).astype(jnp.bfloat16)


def arithmetic(x: Any, ids: Any) -> Any:
    weights = jax.checkpoint(lambda y: jax.nn.softmax(y / 3, where=y > -1))(x)
    kept = lax.optimization_barrier(jax.nn.gelu(weights @ x.T))
    return jnp.cumsum(kept, 0) + jnp.argmax(x, 1) * (ids[0, 0] ** 2) + jnp.arange(4.0)[:, None]


def select_first(x: Any, ids: Any) -> Any:
    return lax.top_k(x, 2)[1] + jax.jit(lambda y: ~y & 5 | 2)(ids[:1])


@pytest.mark.parametrize("function", [loops, moves, arithmetic, select_first])
def test_the_text_computes_the_same(function: Any) -> None:
    text = "\n".join(program_text(jax.make_jaxpr(function)(X, IDS), 0).function.shown())
    space: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "P": P}
    exec(text, space)
    expected, got = jax.jit(function)(X, IDS), jax.jit(space["f"])(X, IDS)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(expected, np.float64))


def test_what_one_output_does_not_need_is_left_out() -> None:
    text = program_text(jax.make_jaxpr(lambda x: (jnp.sin(x), lax.cos(x)))(1.0), 1)
    assert [*text.function.shown()] == ["def f(v0):", "    v1 = lax.cos(v0)", "    return v1"]
    assert text.types == {"v0": ((), "float32"), "v1": ((), "float32")}


def test_a_constraint_says_how_its_result_lies() -> None:
    def function(x: Any) -> Any:
        return lax.with_sharding_constraint(x.reshape(8, 4), P(None, "d"))

    with jax.set_mesh(MeshSpec.parse("d2").build("auto")):
        (first, second) = program_text(jax.make_jaxpr(function)(X), 0).function.lines
    assert (first.spec, second.spec) == ("", "P(None, 'd')") and second.text.endswith(f", {second.spec})")
    assert first.moves and second.moves


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: jax.pure_callback(np.sin, x, x), "the equation 'pure_callback' has no text"),
        (lambda x: x + np.arange(8.0, dtype=np.float32), r"a constant of shape \(8,\) has no text"),
        (lambda x: lax.reduce_precision(x, 4, 3), "the equation 'reduce_precision' has no text"),
    ],
)
def test_what_has_no_text_is_named(function: Any, words: str) -> None:
    with pytest.raises(NotCovered, match=words):
        program_text(jax.make_jaxpr(function)(X), 0)
