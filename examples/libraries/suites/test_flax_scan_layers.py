"""Layers in a Python loop against `flax.linen.scan` over their stacked parameters."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen

from samebits import Arg, Case, Pair, pair_test


class Layer(linen.Module):
    """A dense layer with tanh, as a step of a scan."""

    @linen.compact
    def __call__(self, x, _):
        """The layer's output, and no further output of the scan."""
        return jnp.tanh(linen.Dense(8, use_bias=False)(x)), None


def loop(kernels, x):
    for kernel in kernels:
        x, _ = Layer().apply({"params": {"Dense_0": {"kernel": kernel}}}, x, None)
    return x


def scanned(kernels, x):
    layers = linen.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()
    return layers.apply({"params": {"Dense_0": {"kernel": kernels}}}, x, None)[0]


PAIR = Pair(
    name="flax_scan_layers",
    reference=loop,
    variants={"scanned": scanned},
    args={"kernels": Arg(shape=(3, 8, 8), spec=(None, None, "tp")), "x": Arg(shape=(4, 8), spec=("dp",))},
    meshes=("none", "dp2_tp2"),
    cases=(Case(id="small"),),
    dtypes=("float32", "bfloat16"),
    accuracy=2,
)
test_flax_scan_layers = pair_test(PAIR)
