"""Slips in the pairs over optax."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault(
        "optax_adamw", "formula", "another decay of the first moment", "0.9 * first", "0.99 * first", cases=("wide",)
    ),
    _fault(
        "optax_adamw",
        "formula",
        "no bias correction in the second step",
        "second / (1 - 0.999**2)",
        "second",
        cases=("wide",),
    ),
    _fault("optax_cross_entropy", "one_hot", "labels off by one", "one_hot(labels,", "one_hot(labels + 1,"),
    _fault(
        "optax_cross_entropy",
        "by_log_softmax",
        "the sign",
        "-jnp.take_along_axis(jax.nn.log_softmax",
        "jnp.take_along_axis(jax.nn.log_softmax",
    ),
    _fault(
        "optax_binary_cross_entropy",
        "stable",
        "the absolute value left out",
        "jnp.exp(-jnp.abs(logits))",
        "jnp.exp(-logits)",
    ),
    _fault("optax_huber", "where", "another constant", "error - 0.5)", "error - 0.25)"),
    _fault("optax_clip", "formula", "the square of the norm", "jnp.sqrt(", "jnp.abs("),
    _fault("optax_schedule", "formula", "not clipped at the end", "jnp.minimum(count, 100)", "count"),
)
