"""Faults in the weighted sum of experts: rows of other tokens, weights that are lost or short, choices left out."""

from __future__ import annotations

from samebits import Fault, Request


def _request(direction: str, dtype: str = "float32", case: str = "top2") -> Request:
    return Request(cases=(case,), dtypes=(dtype,), modes=("auto",), directions=(direction,))


_FORWARD, _GRADIENT = _request("forward"), _request("gradient")
_PRODUCT = "_answers(rows, weights).astype(wide) * weights.astype(wide)[..., None]"
_SHORT = f"jax.lax.reduce_precision({_PRODUCT}, 8, 7)"
_ANSWERS = "return rows.reshape(*weights.shape, rows.shape[1])"
_CHOICES = "for k in range(weights.shape[1])"
_TERM = "weights[:, k, None].astype(wide)"
_TOTAL = "return functools.reduce(jnp.add, terms).astype(rows.dtype)"


def _fault(name: str, old: str, new: str, request: Request = _FORWARD, kind: str | None = None) -> Fault:
    side = "multiply_sum"
    return Fault(name=name, pair="expert_weight_sum", side=side, old=old, new=new, request=request, kind=kind)


def _unrolled(name: str, old: str, new: str, request: Request = _FORWARD, kind: str | None = None) -> Fault:
    side = "unrolled"
    return Fault(name=name, pair="expert_weight_sum", side=side, old=old, new=new, request=request, kind=kind)


FAULTS = (
    _fault(
        "rows read choice by choice",
        _ANSWERS,
        "return rows.reshape(weights.shape[1], weights.shape[0], -1).swapaxes(0, 1)",
    ),
    _fault("weights left out", _PRODUCT, _PRODUCT.replace("weights.astype(wide)", "jnp.ones_like(weights)")),
    _fault(
        "weights divided by their sum",
        _PRODUCT,
        _PRODUCT + " / jnp.maximum(weights.astype(wide).sum(-1), 1e-9)[:, None, None]",
    ),
    _fault("weights of the choices reversed", _PRODUCT, _PRODUCT.replace("weights.astype(wide)", "weights[:, ::-1]")),
    _fault(
        "weights rounded to bfloat16",
        _PRODUCT,
        _PRODUCT.replace("weights.astype(wide)", "weights.astype(jnp.bfloat16).astype(wide)"),
    ),
    _fault("products rounded to bfloat16", _PRODUCT, _SHORT),
    _fault(
        "weights have no gradient",
        _PRODUCT,
        _PRODUCT.replace("* weights", "* jax.lax.stop_gradient(weights)"),
        _GRADIENT,
    ),
    _fault(
        "rows have no gradient",
        _PRODUCT,
        "jax.lax.stop_gradient(rows).reshape(*weights.shape, -1) * weights[..., None]",
        _GRADIENT,
    ),
    _fault(
        "gradient of the weights rounded to bfloat16",
        _PRODUCT,
        _PRODUCT.replace("weights.astype(wide)", "weights.astype(rows.dtype).astype(wide)"),
        _request("gradient", "bfloat16", "top8"),
    ),
    _fault(
        "error for a row too many forgotten",
        "rows.shape[0] != weights.size:",
        "False:\n        pass\n    rows = rows[: weights.size]\n    if False:",
        Request(cases=("uneven",), modes=("auto",)),
    ),
    _unrolled("last choice left out", _CHOICES, "for k in range(weights.shape[1] - 1)"),
    _unrolled("first weight for every choice", _TERM, _TERM.replace("k, None", "0, None")),
    _unrolled(
        "answer widened to float32",
        _TOTAL,
        _TOTAL.replace(".astype(rows.dtype)", ""),
        _request("forward", "bfloat16"),
        "dtype",
    ),
    _unrolled(
        "added up in bfloat16",
        _TOTAL,
        _TOTAL.replace("jnp.add", "lambda a, b: jax.lax.reduce_precision(a + b, 8, 7)"),
        _request("forward", "float32", "top8"),
    ),
)
