"""Layers of equinox, haiku and tokamax, where these packages are installed; no test needs them.

`python -m tests.interpret.sweep others` lists what is not interpreted of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.interpret.sweep.calls import LibraryCall, N, V, X
from tests.interpret.sweep.layer_calls import IMAGE, SEQUENCE

CHANNELS = np.moveaxis(IMAGE[0], -1, 0)
HEADS = np.random.default_rng(7).normal(size=(1, 8, 2, 8)).astype(np.float32)


def other_calls() -> Iterator[LibraryCall]:
    """The calls of every package that is installed."""
    for name, calls in PACKAGES.items():
        if importlib.util.find_spec(name) is not None:
            yield from calls()


def equinox_calls() -> Iterator[LibraryCall]:
    """Layers of `equinox.nn`."""
    import equinox as eqx

    key, nn = jax.random.key(0), eqx.nn
    layers: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "Linear": (nn.Linear(4, 3, key=key), (V,)),
        "MLP": (nn.MLP(4, 3, 5, 2, key=key), (V,)),
        "Conv2d": (nn.Conv2d(2, 3, 2, key=key), (CHANNELS,)),
        "ConvTranspose2d": (nn.ConvTranspose2d(2, 3, 2, key=key), (CHANNELS,)),
        "AvgPool2d": (nn.AvgPool2d(2), (CHANNELS,)),
        "MaxPool2d": (nn.MaxPool2d(2), (CHANNELS,)),
        "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(2), (CHANNELS,)),
        "LayerNorm": (nn.LayerNorm(4), (V,)),
        "RMSNorm": (nn.RMSNorm(4), (V,)),
        "GroupNorm": (nn.GroupNorm(1, 2), (CHANNELS,)),
        "Embedding": (jax.vmap(nn.Embedding(5, 3, key=key)), (N,)),
        "MultiheadAttention": (nn.MultiheadAttention(2, 8, key=key), (SEQUENCE[0],) * 3),
        "RotaryPositionalEmbedding": (nn.RotaryPositionalEmbedding(8), (SEQUENCE[0],)),
        "LSTMCell": (nn.LSTMCell(4, 3, key=key), (V, (V[:3], V[:3]))),
        "GRUCell": (nn.GRUCell(4, 3, key=key), (V, V[:3])),
        "WeightNorm": (nn.WeightNorm(nn.Linear(4, 3, key=key)), (V,)),
        "PReLU": (nn.PReLU(), (V,)),
        "Dropout": (lambda x: nn.Dropout(0.5)(x, key=jax.random.key(1)), (V,)),
    }
    for name, (layer, args) in layers.items():
        arrays, static = eqx.partition(layer, eqx.is_array)
        yield LibraryCall(f"equinox.{name}", lambda a, *x, s=static: eqx.combine(a, s)(*x), (arrays, *args))


def haiku_calls() -> Iterator[LibraryCall]:
    """Layers of `haiku`."""
    import haiku as hk

    layers: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "Linear": (lambda x: hk.Linear(3)(x), (X,)),
        "Conv2D": (lambda x: hk.Conv2D(3, 2)(x), (IMAGE,)),
        "Conv2DTranspose": (lambda x: hk.Conv2DTranspose(3, 2, 2)(x), (IMAGE,)),
        "DepthwiseConv2D": (lambda x: hk.DepthwiseConv2D(2, 2)(x), (IMAGE,)),
        "LayerNorm": (lambda x: hk.LayerNorm(-1, True, True)(x), (X,)),
        "RMSNorm": (lambda x: hk.RMSNorm(-1)(x), (X,)),
        "GroupNorm": (lambda x: hk.GroupNorm(2)(x), (IMAGE,)),
        "Embed": (lambda n: hk.Embed(5, 3)(n), (N,)),
        "MultiHeadAttention": (
            lambda x: hk.MultiHeadAttention(2, 4, w_init=hk.initializers.RandomNormal())(x, x, x),
            (SEQUENCE,),
        ),
        "LSTM": (lambda x: hk.dynamic_unroll(hk.LSTM(3), x, hk.LSTM(3).initial_state(1))[0], (SEQUENCE[0][:, None],)),
        "GRU": (lambda x: hk.dynamic_unroll(hk.GRU(3), x, hk.GRU(3).initial_state(1))[0], (SEQUENCE[0][:, None],)),
        "avg_pool": (lambda x: hk.avg_pool(x, 2, 2, "SAME"), (IMAGE,)),
        "max_pool": (lambda x: hk.max_pool(x, 2, 2, "SAME"), (IMAGE,)),
        "MLP": (lambda x: hk.nets.MLP([5, 3])(x), (X,)),
    }
    for name, (layer, args) in layers.items():
        transformed = hk.without_apply_rng(hk.transform(layer))
        params = transformed.init(jax.random.key(0), *args)
        yield LibraryCall(f"haiku.{name}", transformed.apply, (params, *args))


def tokamax_calls() -> Iterator[LibraryCall]:
    """The operations of `tokamax` in their XLA implementations."""
    import sys

    import tokamax
    from absl import flags

    flags.FLAGS(sys.argv[:1])  # it reads its options when it is first called
    sizes = np.array([3, 1], np.int32)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "dot_product_attention": (tokamax.dot_product_attention, (HEADS, HEADS, HEADS)),
        "gated_linear_unit": (tokamax.gated_linear_unit, (X, np.stack([X, X + 1], 1))),
        "layer_norm": (tokamax.layer_norm, (X, V, V)),
        "ragged_dot": (tokamax.ragged_dot, (X, np.stack([X, X + 1]), sizes)),
    }
    for name, (function, args) in calls.items():
        yield LibraryCall(f"tokamax.{name}", lambda *a, f=function: f(*a, implementation="xla"), args)
    loss = tokamax.linear_softmax_cross_entropy_loss
    yield LibraryCall(
        "tokamax.linear_softmax_cross_entropy_loss",
        lambda x, n, w: loss(x, n, w, implementation="xla"),
        (X, N, jnp.asarray(X)),
    )


PACKAGES = {"equinox": equinox_calls, "haiku": haiku_calls, "tokamax": tokamax_calls}
