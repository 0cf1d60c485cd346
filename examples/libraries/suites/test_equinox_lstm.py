"""`haiku.LSTM` against Equinox's `LSTMCell`: another order of gates, and no offset of the forget gate."""

from __future__ import annotations

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp

from samebits import Arg, Case, Pair, pair_test


def equinox(w, b, x, h, c):
    cell = eqx.nn.LSTMCell(6, 4, key=jax.random.key(0))
    i, g, f, o = jnp.split(w, 4, axis=1)
    w = jnp.concatenate([i, f, g, o], axis=1).T
    i, g, f, o = jnp.split(b, 4)
    weights = (w[:, :6], w[:, 6:], jnp.concatenate([i, f + 1, g, o]))
    return jax.vmap(eqx.tree_at(lambda m: (m.weight_ih, m.weight_hh, m.bias), cell, weights))(x, (h, c))


@hk.without_apply_rng
@hk.transform
def lstm(x, h, c):
    return tuple(hk.LSTM(4)(x, hk.LSTMState(h, c))[1])


def haiku(w, b, x, h, c):
    return lstm.apply({"lstm/linear": {"w": w, "b": b}}, x, h, c)


PAIR = Pair(
    name="equinox_lstm",
    reference=haiku,
    variants={"equinox": equinox},
    args={
        "w": Arg(shape=(10, 16)),
        "b": Arg(shape=(16,)),
        "x": Arg(shape=(8, 6)),
        "h": Arg(shape=(8, 4)),
        "c": Arg(shape=(8, 4)),
    },
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_equinox_lstm = pair_test(PAIR)
