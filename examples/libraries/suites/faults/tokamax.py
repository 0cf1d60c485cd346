"""Slips in the pairs over tokamax."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault("tokamax_attention", "causal", "no mask", "is_causal=True)\n", "is_causal=False)\n", variants=("xla",)),
    _fault(
        "tokamax_gated_linear_unit",
        "two_products",
        "gate and up swapped",
        "jax.nn.silu(x @ gate) * (x @ up)",
        "jax.nn.silu(x @ up) * (x @ gate)",
        variants=("tokamax", "fused"),
    ),
    _fault(
        "tokamax_layer_norm",
        "flax",
        "another epsilon",
        "use_fast_variance=False)",
        "use_fast_variance=False, epsilon=1e-5)",
    ),
    _fault(
        "tokamax_ragged_dot",
        "tokamax",
        "group sizes in reverse",
        "rhs, group_sizes, implementation",
        "rhs, group_sizes[::-1], implementation",
    ),
    _fault("tokamax_cross_entropy", "by_optax", "the mean for the sum", ".sum()", ".mean()", variants=("tokamax",)),
)
