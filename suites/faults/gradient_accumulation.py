"""Faults in gradient accumulation: microbatches that count wrongly or not at all, sums short or not divided."""

from __future__ import annotations

from samebits import Fault, Request

_FLOAT32 = Request(cases=("four",), dtypes=("float32",), modes=("auto",))
_GRADIENT = "kept + one.astype(kept.dtype)"
_AUXILIARY = Request(cases=("auxiliary",), modes=("auto",))
_TOTAL = "sum(jnp.sum(_wide(leaf)) for leaf in jax.tree.leaves(weights))"
_DEALT = "rows.reshape(-1, microbatches, *rows.shape[1:]).swapaxes(0, 1)"
_OBJECTIVE = "return losses + extra * (divisor / microbatches), (losses, extra)"
_ROWS = "rows = jax.tree.map(lambda array: _parts(array, microbatches), (inputs, targets, weights))"


def _fault(
    name: str, old: str, new: str, request: Request = _FLOAT32, slow: bool = False, verdict: str = "different"
) -> Fault:
    return Fault(
        name=name,
        pair="gradient_accumulation",
        side="scan",
        old=old,
        new=new,
        request=request,
        slow=slow,
        verdict=verdict,
    )


FAULTS = (
    _fault("last microbatch alone", _GRADIENT, "one.astype(kept.dtype)"),
    _fault("loss of the last microbatch alone", "losses + more_losses,", "more_losses,"),
    _fault("divided by the number of rows", _TOTAL, "jnp.sum(jnp.ones_like(weights))"),
    _fault("divided by the rows that count", _TOTAL, "jnp.sum(jnp.where(weights > 0, 1.0, 0.0))"),
    _fault("gradient not divided", "(_wide(kept) / divisor)", "_wide(kept)"),
    _fault("loss not divided", "losses / divisor,", "losses,"),
    _fault(
        "mean of the microbatches' means",
        _OBJECTIVE,
        "losses = losses * (rows[2].size / jnp.where(rows[2].sum() > 0, rows[2].sum(), 1))\n            " + _OBJECTIVE,
    ),
    _fault(
        "weights dealt out otherwise than rows",
        _ROWS,
        _ROWS.replace("weights))", "weights[::-1]))"),
    ),
    _fault("rows repeated by the deal", _DEALT, "rows.reshape(microbatches, -1, *rows.shape[1:])[:, :1]"),
    _fault("gradients added up in bfloat16", _GRADIENT, f"jax.lax.reduce_precision({_GRADIENT}, 8, 7)"),
    _fault(
        "gradients of bfloat16 added up in it",
        "array.dtype if native else _wide_dtype(array)",
        "array.dtype",
        Request(cases=("four",), dtypes=("bfloat16",), modes=("auto",)),
        verdict="rounding",
    ),
    _fault(
        "loss added up in bfloat16", "losses + more_losses,", "jax.lax.reduce_precision(losses + more_losses, 8, 7),"
    ),
    _fault(
        "auxiliary gradient grows with the microbatches",
        _OBJECTIVE,
        _OBJECTIVE.replace(" / microbatches", ""),
        _AUXILIARY,
    ),
    _fault(
        "auxiliary gradient over the weights",
        _OBJECTIVE,
        _OBJECTIVE.replace("(divisor / microbatches)", "1"),
        _AUXILIARY,
        slow=True,
    ),
    _fault("extra summed and not averaged", "extras / microbatches", "extras", _AUXILIARY, slow=True),
    _fault(
        "auxiliary loss without a gradient",
        "losses + extra *",
        "losses + jax.lax.stop_gradient(extra) *",
        _AUXILIARY,
        slow=True,
    ),
    _fault(
        "rows of no weight trained on",
        _ROWS,
        _ROWS.replace("weights))", "jnp.maximum(weights, 0.5)))"),
        _AUXILIARY,
        slow=True,
    ),
)
