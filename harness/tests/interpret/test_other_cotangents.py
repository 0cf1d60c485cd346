"""Gradients that decide by their cotangents: clips, windows and guards on the way back, and honest twins."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.interpret.probes import changed, decides_by

X, W = jax.ShapeDtypeStruct((4, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.float32)
Change = Callable[[Any, Any], Any]


def dense(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def back(change: Change, function: Callable[..., Any] = dense) -> Callable[..., Any]:
    """A function whose cotangent is changed on the way back."""

    @jax.custom_vjp
    def passed(y: Any) -> Any:
        return y

    passed.defvjp(lambda y: (y, y), lambda y, g: (change(g, y),))
    return lambda x, w: jax.tree.map(passed, function(x, w))


def two(x: Any, w: Any) -> Any:
    y = dense(x, w)
    return y, (y * y).mean(-1)


def of_two(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Two outputs, whose cotangents are changed together."""

    @jax.custom_vjp
    def passed(both: Any) -> Any:
        return both

    passed.defvjp(lambda both: (both, None), lambda _, g: (change(*g),))
    return lambda x, w: passed(two(x, w))


def norm(g: Any) -> Any:
    return jnp.sqrt((g * g).sum())


def int8(g: Any) -> Any:
    """A gradient in eight bits, by a scale of its own."""
    scale = jnp.max(jnp.abs(g)) / 127
    return jnp.round(g / scale) * scale


WRONG: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "clip at 5": (dense, back(lambda g, y: jnp.clip(g, -5, 5))),
    "clip at 50": (dense, back(lambda g, y: jnp.clip(g, -50, 50))),
    "clip at 1e4": (dense, back(lambda g, y: jnp.clip(g, -1e4, 1e4))),
    "window": (dense, back(lambda g, y: jnp.where(jnp.abs(g) < 50, g, 0))),
    "straight-through window": (lambda x, w: x @ w, back(lambda g, y: g * (jnp.abs(y) < 60), lambda x, w: x @ w)),
    "norm": (dense, back(lambda g, y: g * jnp.minimum(1.0, 100 / norm(g)))),
    "flushed": (dense, back(lambda g, y: jnp.where(jnp.abs(g) < 1e-7, 0, g))),
    "epsilon": (dense, back(lambda g, y: g * norm(g) / jnp.maximum(norm(g), 1e-6))),
    "first row decides": (dense, back(lambda g, y: jnp.where(jnp.any(g[0] != 0), g, 0))),
    "last column decides": (dense, back(lambda g, y: jax.lax.cond(jnp.any(g[:, :-1] != 0), lambda: g, lambda: 2 * g))),
    "ones decide": (dense, back(lambda g, y: jnp.where(jnp.all(g == 1), 2 * g, g))),
    "last row decides": (dense, back(lambda g, y: jnp.where(jnp.any(g[-1] != 0), g, 0))),
    "division by zero": (dense, back(lambda g, y: g / jnp.max(jnp.abs(g)) * jnp.max(jnp.abs(g)))),
    "second output alone": (two, of_two(lambda g, h: (g, jnp.where(jnp.any(g != 0), h, 0)))),
    "clip in a loop": (
        lambda x, w: jax.lax.scan(lambda c, _: (jnp.sin(c @ w), None), x, None, length=2)[0],
        lambda x, w: jax.lax.scan(
            lambda c, _: (back(lambda g, y: jnp.clip(g, -50, 50), lambda x, w: jnp.sin(x @ w))(c, w), None),
            x,
            None,
            length=2,
        )[0],
    ),
    "limits apart": (back(lambda g, y: jnp.clip(g, -50, 50)), back(lambda g, y: jnp.clip(g, -100, 100))),
}
HONEST: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "as it is": (dense, back(lambda g, y: g)),
    "loss scaling": (dense, back(lambda g, y: (g * 1024) / 1024)),
    "clips alike": (back(lambda g, y: jnp.clip(g, -5, 5)), back(lambda g, y: jnp.maximum(jnp.minimum(g, 5), -5))),
    "norms alike": (
        back(lambda g, y: g * jnp.minimum(1.0, 100 / norm(g))),
        back(lambda g, y: jnp.where(norm(g) > 100, g * (100 / norm(g)), g)),
    ),
    "eight bits alike": (back(lambda g, y: int8(g)), back(lambda g, y: jax.jit(int8)(g))),
    "remat": (back(lambda g, y: jnp.clip(g, -50, 50)), jax.checkpoint(back(lambda g, y: jnp.clip(g, -50, 50)))),
    "two": (two, of_two(lambda g, h: (g, h))),
    "in a loop": (
        lambda x, w: jax.lax.scan(lambda c, _: (jnp.sin(c @ w), None), x, None, length=2)[0],
        lambda x, w: jnp.sin(jnp.sin(x @ w) @ w),
    ),
}
FAST = ("clip at 50", "first row decides", "second output alone", "as it is", "clips alike")


def _names(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in table]


@pytest.mark.parametrize("name", _names(WRONG))
def test_a_gradient_that_decides_by_cotangents_is_different(name: str) -> None:
    compared = samebits.check(*WRONG[name], X, W)
    assert compared.verdict == "different", compared
    assert samebits.prove(*WRONG[name], X, W).verdict == "different"


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda g, y: jnp.clip(g, -50, 50), lambda g, y: jnp.where(abs(g) < 2e-3, 0, g)])
def test_float16_has_no_room_for_much_larger_or_smaller_ones(change: Change) -> None:
    x, w = (jax.ShapeDtypeStruct(each.shape, jnp.float16) for each in (X, W))
    assert samebits.check(dense, back(change), x, w).verdict == "different"


@pytest.mark.parametrize("name", _names(HONEST))
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_the_same_gradient_passes(name: str, dtype: str) -> None:
    samebits.assert_same(*HONEST[name], *(jax.ShapeDtypeStruct(each.shape, dtype) for each in (X, W)))


@pytest.mark.slow
def test_a_float16_gradient_may_overflow_only_where_both_do() -> None:
    x, w = (jax.ShapeDtypeStruct(each.shape, jnp.float16) for each in (X, W))
    samebits.assert_same(dense, back(lambda g, y: (g * 16) / 16), x, w)


def test_the_message_says_at_which_cotangents() -> None:
    with pytest.raises(AssertionError, match="in float64, with cotangents 64 times as large"):
        samebits.assert_same(*WRONG["clip at 50"], X, W)


def test_a_nan_that_is_lost_on_the_way_back_is_told() -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="with cotangents with an infinite first element"):
        samebits.assert_same(dense, back(lambda g, y: jnp.nan_to_num(g)), X, W)


@pytest.mark.parametrize("limit", [pytest.param(50.0), pytest.param(None, marks=pytest.mark.slow)])
def test_a_shard_alone_may_decide(limit: float | None) -> None:
    def local(y: Any) -> Any:
        change = back(lambda g, _: g if limit is None else jnp.where(jnp.abs(g).sum() > 1e-3, g, 2 * g), lambda y, _: y)
        return change(2 * y, None)

    def variant(x: Any, mesh: Any) -> Any:
        return jax.shard_map(local, mesh=mesh, in_specs=P("dp"), out_specs=P("dp"))(x)

    compared = samebits.check(lambda x: 2 * x, variant, jax.ShapeDtypeStruct((4, 3), jnp.float32), mesh="dp2")
    assert compared.ok == (limit is None), compared


def scanned(x: Any, w: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        return jnp.where(row > 0, carry + row * w.sum(), carry), carry

    return jax.lax.scan(body, jnp.zeros(8), x)


def branched(x: Any, w: Any) -> Any:
    return jax.lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: 2 * x)


def routed(x: Any, w: Any) -> Any:
    chosen = jnp.argsort(x[:, 0])
    return jax.nn.softmax(jnp.take(x, chosen, axis=0) @ w), jax.lax.dynamic_slice(x, (1, 0), (2, 8)), x.at[0].set(w[0])


def _pull_back(function: Callable[..., Any]) -> tuple[Any, tuple[int, ...]]:
    outputs = jax.tree.leaves(jax.eval_shape(function, X, W))

    def pulled(x: Any, w: Any, *cotangents: Any) -> Any:
        structure = jax.tree.structure(jax.eval_shape(function, X, W))
        return jax.vjp(function, x, w)[1](jax.tree.unflatten(structure, cotangents))

    return jax.make_jaxpr(pulled)(X, W, *outputs), tuple(range(2, 2 + len(outputs)))


@pytest.mark.parametrize("function", [dense, two, scanned, branched, routed, jax.checkpoint(dense)])
def test_gradients_of_jax_are_linear(function: Callable[..., Any]) -> None:
    assert not decides_by(*_pull_back(function))


@pytest.mark.parametrize("name", ["clip at 5", "norm", "last column decides", "second output alone", "clip in a loop"])
def test_what_decides_is_not_linear(name: str) -> None:
    assert decides_by(*_pull_back(WRONG[name][1]))


def test_cotangents_stay_in_the_range_of_their_dtype() -> None:
    one = np.ones((2, 3))
    words = [text for _, text, _ in changed([one], ["out"], [np.float16])]
    assert "cotangents 64 times as large" in words and "cotangents 2^20 times as large" not in words
    words = [text for _, text, _ in changed([one, one[0]], ["out[0]", "out[1]"], [np.float32, np.float32])]
    assert "all cotangents zero but out[1]" in words and "cotangents 2^20 times as large" in words
