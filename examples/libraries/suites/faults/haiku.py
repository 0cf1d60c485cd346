"""Slips in the pairs over haiku."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault(
        "haiku_linear", "flax", "no bias", 'lambda *_: params["linear"]["b"]', 'lambda *_: 0 * params["linear"]["b"]'
    ),
    _fault("haiku_layer_norm", "flax", "another epsilon", "epsilon=1e-5", "epsilon=1e-6"),
    _fault("haiku_embed", "one_hot", "ids off by one", 'ids, "ONE_HOT")', 'ids + 1, "ONE_HOT")'),
)
