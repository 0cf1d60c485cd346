"""Slips in the pairs over equinox."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault(
        "equinox_linear",
        "equinox",
        "the bias left out",
        "jax.vmap(layer)(x)",
        "jax.vmap(layer)(x) - layer.bias",
        variants=("flax",),
    ),
    _fault("equinox_layer_norm", "group_norm", "two groups", "GroupNorm(1,", "GroupNorm(2,"),
    _fault("equinox_rms_norm", "flax", "another epsilon", "epsilon=1e-5", "epsilon=1e-6"),
    _fault("equinox_rope", "formula", "the sign of the rotation", "[-second, first]", "[second, -first]"),
    _fault(
        "equinox_attention",
        "per_sequence",
        "keys in reverse",
        "layer(row, row, row)",
        "layer(row, row[::-1], row)",
        variants=("linen",),
    ),
    _fault("equinox_lstm", "equinox", "no offset of the forget gate", "f + 1", "f"),
)
