"""Slips in the pairs over maxtext."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault(
        "maxtext_reorder_sequence",
        "gather",
        "ranks not mirrored",
        "2 * cp_size - 1 - ranks",
        "cp_size + ranks",
    ),
    _fault(
        "maxtext_reorder_sequence",
        "structured",
        "late half not flipped",
        "jnp.stack([early, jnp.flip(late, 1)]",
        "jnp.stack([early, late]",
        variants=("maxtext",),
    ),
    _fault(
        "maxtext_cross_entropy",
        "maxtext",
        "another weight of the z-loss",
        "1e-2)[0]",
        "1e-3)[0]",
        variants=("maxtext",),
    ),
    _fault(
        "maxtext_rms_norm",
        "flax",
        "another epsilon",
        "nnx.RMSNorm(16,",
        "nnx.RMSNorm(16, epsilon=1e-5,",
        variants=("maxtext",),
    ),
    _fault("maxtext_rope", "neighbours", "scaled as in LLaMA 3.1", "use_scale=False", "use_scale=True"),
)
