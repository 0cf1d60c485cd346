"""Faults in gradient accumulation: microbatches that count wrongly or not at all, sums short or not divided."""

from __future__ import annotations

from harness.selection import Request
from harness.tests.faults.fault import Fault

_FLOAT32 = Request(cases=("four",), dtypes=("float32",), modes=("auto",))
_GRADIENT = "gradient + more_gradient.astype(kept)"
_RETURNED = '{"loss": loss / divisor, "gradient": (gradient.astype(wide) / divisor).astype(kernel.dtype)}'
_TOTAL = "total + jnp.sum(rows[2])"
_DEALT = "return rows.reshape(-1, microbatches, *rows.shape[1:]).swapaxes(0, 1)"


def _fault(name: str, old: str, new: str, request: Request = _FLOAT32) -> Fault:
    return Fault(name=name, pair="gradient_accumulation", side="scan", old=old, new=new, request=request)


FAULTS = (
    _fault("last microbatch alone", _GRADIENT, "more_gradient.astype(kept)"),
    _fault("loss of the last microbatch alone", "loss + more_loss,", "more_loss,"),
    _fault("divided by the number of rows", _TOTAL, "total + rows[2].size"),
    _fault("divided by the rows that count", _TOTAL, "total + jnp.sum(jnp.where(rows[2] > 0, 1.0, 0.0))"),
    _fault("gradient not divided", _RETURNED, _RETURNED.replace("gradient.astype(wide) / divisor", "gradient")),
    _fault("loss not divided", _RETURNED, _RETURNED.replace("loss / divisor", "loss")),
    _fault(
        "mean of the microbatches' means",
        "more_loss, more_gradient = jax.value_and_grad(_loss_sum)(kernel.astype(wide), *rows)",
        "more_loss, more_gradient = jax.value_and_grad(_loss_sum)(kernel.astype(wide), *rows)\n"
        "            mean = rows[2].size / jnp.where(rows[2].sum() > 0, rows[2].sum(), 1)\n"
        "            more_loss, more_gradient = more_loss * mean, more_gradient * mean",
    ),
    _fault(
        "weights dealt out otherwise than rows",
        "for array in (inputs, targets, weights))",
        "for array in (inputs, targets, weights[::-1]))",
    ),
    _fault("rows repeated by the deal", _DEALT, "return rows.reshape(microbatches, -1, *rows.shape[1:])[:, :1]"),
    _fault("gradients added up in bfloat16", _GRADIENT, f"jax.lax.reduce_precision({_GRADIENT}, 8, 7)"),
    _fault(
        "gradients of bfloat16 added up in it",
        "kept = kernel.dtype if native else wide",
        "kept = kernel.dtype",
        Request(cases=("four",), dtypes=("bfloat16",), modes=("auto",)),
    ),
    _fault("loss added up in bfloat16", "loss + more_loss,", "jax.lax.reduce_precision(loss + more_loss, 8, 7),"),
)
