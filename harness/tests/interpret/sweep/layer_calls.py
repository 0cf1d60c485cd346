"""Layers and optimisers of flax and optax, as functions of their parameters and inputs."""

from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from tests.interpret.sweep.calls import LibraryCall, N, V, X, Y

IMAGE = np.random.default_rng(5).normal(size=(1, 4, 4, 2)).astype(np.float32)
SEQUENCE = np.random.default_rng(6).normal(size=(1, 4, 8)).astype(np.float32)


class _Spectral(nn.Module):
    """A layer whose weights are divided by their largest singular value."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.SpectralNorm(nn.Dense(3))(x, update_stats=False)


LINEN: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "Dense": (nn.Dense(3), (X,)),
    "DenseGeneral": (nn.DenseGeneral((2, 3)), (X,)),
    "Einsum": (nn.Einsum((4, 3), "ab,bc->ac"), (X,)),
    "Embed": (nn.Embed(5, 3), (N,)),
    "Conv": (nn.Conv(3, (2, 2)), (IMAGE,)),
    "ConvTranspose": (nn.ConvTranspose(3, (2, 2), strides=(2, 2)), (IMAGE,)),
    "ConvLocal": (nn.ConvLocal(3, (2, 2)), (IMAGE,)),
    "LayerNorm": (nn.LayerNorm(), (X,)),
    "RMSNorm": (nn.RMSNorm(), (X,)),
    "GroupNorm": (nn.GroupNorm(2), (X,)),
    "BatchNorm": (nn.BatchNorm(use_running_average=True), (X,)),
    "InstanceNorm": (nn.InstanceNorm(), (IMAGE,)),
    "WeightNorm": (nn.WeightNorm(nn.Dense(3)), (X,)),
    "SpectralNorm": (_Spectral(), (X,)),
    "PReLU": (nn.PReLU(), (X,)),
    "Dropout": (nn.Dropout(0.5, deterministic=True), (X,)),
    "MultiHeadDotProductAttention": (nn.MultiHeadDotProductAttention(2), (SEQUENCE,)),
    "LSTMCell": (nn.RNN(nn.LSTMCell(3)), (SEQUENCE,)),
    "GRUCell": (nn.RNN(nn.GRUCell(3)), (SEQUENCE,)),
    "remat": (nn.remat(nn.Dense)(3), (X,)),
}

NNX: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Linear": (lambda rngs: nnx.Linear(4, 3, rngs=rngs), (X,)),
    "LinearGeneral": (lambda rngs: nnx.LinearGeneral(4, (2, 3), rngs=rngs), (X,)),
    "Einsum": (lambda rngs: nnx.Einsum("ab,bc->ac", (4, 3), rngs=rngs), (X,)),
    "Embed": (lambda rngs: nnx.Embed(5, 3, rngs=rngs), (N,)),
    "Conv": (lambda rngs: nnx.Conv(2, 3, (2, 2), rngs=rngs), (IMAGE,)),
    "ConvTranspose": (lambda rngs: nnx.ConvTranspose(2, 3, (2, 2), strides=(2, 2), rngs=rngs), (IMAGE,)),
    "LayerNorm": (lambda rngs: nnx.LayerNorm(4, rngs=rngs), (X,)),
    "RMSNorm": (lambda rngs: nnx.RMSNorm(4, rngs=rngs), (X,)),
    "GroupNorm": (lambda rngs: nnx.GroupNorm(4, 2, rngs=rngs), (X,)),
    "BatchNorm": (lambda rngs: nnx.BatchNorm(4, rngs=rngs), (X,)),
    "Dropout": (lambda rngs: nnx.Dropout(0.5, rngs=rngs), (X,)),
    "MultiHeadAttention": (lambda rngs: nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs), (SEQUENCE,)),
    "LSTMCell": (lambda rngs: nnx.RNN(nnx.LSTMCell(8, 3, rngs=rngs)), (SEQUENCE,)),
    "GRUCell": (lambda rngs: nnx.RNN(nnx.GRUCell(8, 3, rngs=rngs)), (SEQUENCE,)),
    "LoRA": (lambda rngs: nnx.LoRA(4, 2, 3, rngs=rngs), (X,)),
}

OPTIMISERS = (
    *("adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan", "amsgrad"),
    *("fromage", "lamb", "lars", "lion", "nadam", "nadamw", "noisy_sgd", "novograd", "optimistic_adam"),
    *("optimistic_gradient_descent", "radam", "rmsprop", "rprop", "sgd", "sign_sgd", "sm3", "yogi"),
)

POOLS = {"avg_pool": nn.avg_pool, "max_pool": nn.max_pool}


def layer_calls() -> Iterator[LibraryCall]:
    """Every call of this file."""
    for name, (module, args) in LINEN.items():
        variables = module.init(jax.random.key(0), *args)
        yield LibraryCall(f"flax.linen.{name}", module.apply, (variables, *args))
    for name, pool in POOLS.items():
        yield LibraryCall(f"flax.linen.{name}", lambda x, pool=pool: pool(x, (2, 2), (2, 2)), (IMAGE,))
    for name, (make, args) in NNX.items():
        graph, state = nnx.split(make(nnx.Rngs(0)))
        yield LibraryCall(f"flax.nnx.{name}", lambda s, *a, g=graph: nnx.merge(g, s)(*a), (state, *args))
    yield from optax_calls()


def optax_calls() -> Iterator[LibraryCall]:
    """One update of each optimiser, and losses."""
    params = {"w": X, "b": V}
    for name in OPTIMISERS:
        make = getattr(optax, name, None)
        if make is None:
            continue
        more = {"key": 0} if name == "noisy_sgd" else {}
        optimiser = make() if name in ("adafactor", "adadelta") else make(1e-3, **more)
        yield LibraryCall(f"optax.{name}", optimiser.update, (params, optimiser.init(params), params))
    clip = optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(1e-2))
    yield LibraryCall("optax.clip_by_global_norm", clip.update, (params, clip.init(params), params))
    losses = {
        "softmax_cross_entropy": (X, Y),
        "softmax_cross_entropy_with_integer_labels": (X, N),
        "sigmoid_binary_cross_entropy": (X, Y),
        "l2_loss": (X, Y),
        "huber_loss": (X, Y),
        "log_cosh": (X, Y),
        "cosine_distance": (X, Y),
        "hinge_loss": (X, Y),
        "kl_divergence": (X, Y),
        "ctc_loss": (np.stack([X, Y]), jnp.zeros((2, 4)), np.stack([N, N])[:, :2], jnp.zeros((2, 2))),
        "poly_loss_cross_entropy": (X, Y),
        "safe_softmax_cross_entropy": (X, Y),
        "squared_error": (X, Y),
        "sigmoid_focal_loss": (X, Y),
        "smooth_labels": (X, 0.1),
        "convex_kl_divergence": (X, Y),
    }
    for name, args in losses.items():
        if hasattr(optax, name):
            yield LibraryCall(f"optax.{name}", getattr(optax, name), args)
