"""Slips in the pairs over keras."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault("keras_rms_norm", "keras", "another epsilon", "epsilon=1e-6)", "epsilon=1e-5)", variants=("keras",)),
    _fault("keras_layer_norm", "ops", "another epsilon", "gamma, beta, epsilon=1e-6)", "gamma, beta, epsilon=1e-5)"),
    _fault(
        "keras_attention", "causal", "no mask", "value, is_causal=True)", "value, is_causal=False)", variants=("keras",)
    ),
    _fault("keras_dense", "product", "the sign of the bias", "+ bias", "- bias", variants=("*dense",)),
    _fault(
        "keras_cross_entropy", "of_logits", "logits taken for probabilities", "from_logits=True", "from_logits=False"
    ),
    _fault(
        "keras_gelu",
        "ops",
        "the exact form",
        "    return backend.nn.gelu(x, approximate)\n",
        "    return backend.nn.gelu(x, False)\n",
    ),
    _fault(
        "keras_softmax",
        "ops",
        "over the first axis",
        "return backend.nn.softmax(x, axis=axis)",
        "return backend.nn.softmax(x, axis=0)",
    ),
)
