"""Slips in the pairs over flax."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault("flax_rms_norm", "formula", "another epsilon", "1e-6", "1e-5"),
    _fault(
        "flax_layer_norm",
        "two_passes",
        "another epsilon",
        "use_fast_variance=False,",
        "use_fast_variance=False, epsilon=1e-5,",
    ),
    _fault(
        "flax_dense",
        "layer_of_nnx",
        "the bias left out",
        "return layer(x)",
        "return layer(x) - layer.bias[...]",
        variants=("dense", "general"),
    ),
    _fault(
        "flax_qkv",
        "split",
        "keys for queries",
        "params[name]}, x)",
        'params["k"]}, x)',
        variants=("fused",),
    ),
    _fault(
        "flax_lstm",
        "optimized",
        "cell and hidden state swapped",
        "apply(variables, carry,",
        "apply(variables, carry[::-1],",
    ),
    _fault(
        "flax_attention",
        "layer_of_nnx",
        "another order of tokens",
        "return layer(x)",
        "return layer(x[:, ::-1])",
        variants=("linen",),
    ),
    _fault("flax_conv", "shifted", "the last place of the window left out", "range(3)", "range(2)"),
    _fault("flax_pool", "reshaped", "maximum for mean", ".mean((2, 4))", ".max((2, 4))"),
    _fault("flax_max_pool", "reshaped", "mean for maximum", ".max((2, 4))", ".mean((2, 4))"),
    _fault("flax_scan_layers", "scanned", "layers in reverse", '"kernel": kernels}', '"kernel": kernels[::-1]}'),
)
