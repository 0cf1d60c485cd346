"""Faults in a block whose values must not depend on flags: other formulas, other rounding, other operands."""

from __future__ import annotations

from samebits import Fault

_SUM = "return x + jnp.matmul(hidden.astype(x.dtype), down, preferred_element_type=wide).astype(x.dtype)"
_HIDDEN = "hidden = jax.nn.silu(gated) * jnp.matmul(x, up, preferred_element_type=wide)"


def _fault(name: str, old: str, new: str) -> Fault:
    return Fault(name=name, pair="compiler_flags", side="recipe", old=old, new=new)


FAULTS = (
    _fault("gate and up swapped", _HIDDEN, _HIDDEN.replace("x, up", "x, gate").replace("gated", "jnp.matmul(x, up)")),
    _fault("no residual", _SUM, _SUM.replace("x + ", "", 1)),
    _fault("gelu for silu", "jax.nn.silu(gated)", "jax.nn.gelu(gated)"),
    _fault("another slope of silu", "jax.nn.silu(gated)", "gated * jax.nn.sigmoid(1.0001 * gated)"),
    _fault("one row left out", _SUM, _SUM.replace("hidden.", "hidden.at[-1].set(0).")),
    _fault(
        "hidden rounded to eight bits",
        "hidden.astype(x.dtype)",
        "jax.lax.reduce_precision(hidden, 8, 7).astype(x.dtype)",
    ),
    _fault("the gradient of up stopped", "jnp.matmul(x, up,", "jnp.matmul(x, jax.lax.stop_gradient(up),"),
)
