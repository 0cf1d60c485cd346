"""Faults in the split optimizer: another AdamW formula, and misplaced shards."""

from __future__ import annotations

from samebits import Fault, Request

_STEP = Request(cases=("step",), dtypes=("float32",), meshes=("data4",), modes=("auto",))
_DIRECTION = "direction = m / (1 - b1**done) / (jnp.sqrt(v / (1 - b2**done)) + epsilon)"
_DECAYED = "p - learning_rate * (direction + weight_decay * p)"
_SQUARED = "v = b2 * v + (1 - b2) * g**2"
_NEW = "gathered = [_laid(array, spec) for array, spec in zip(updated, whole, strict=True)]"


def _fault(name: str, old: str, new: str, *, slow: bool = False, request: Request = _STEP) -> Fault:
    return Fault(name=name, pair="optimizer_state", side="zero1", old=old, new=new, request=request, slow=slow)


FAULTS = (
    _fault("count of the steps before", "count.astype(wide) + 1", "jnp.maximum(count.astype(wide), 1)"),
    _fault("decay part of the gradient", "    m = b1 * m", "    g = g + weight_decay * p\n    m = b1 * m"),
    _fault("decay of the step", _DECAYED, "(1 - weight_decay) * p - learning_rate * direction", slow=True),
    _fault("epsilon inside the root", _DIRECTION, _DIRECTION.replace(")) + epsilon)", ") + epsilon))")),
    _fault("epsilon left out", _DIRECTION, _DIRECTION.replace(" + epsilon", ""), slow=True),
    _fault("second moment not squared", _SQUARED, _SQUARED.replace("g**2", "jnp.abs(g)"), slow=True),
    _fault("moments not corrected", _DIRECTION, "direction = m / (jnp.sqrt(v) + epsilon)", slow=True),
    _fault("moments rounded to bfloat16", "m.astype(mu.dtype)", "jax.lax.reduce_precision(m, 8, 7).astype(mu.dtype)"),
    _fault(
        "moment rounded before it is used",
        "    v = b2 * v",
        "    m = m.astype(mu.dtype).astype(wide)\n    v = b2 * v",
        slow=True,
        request=Request(cases=("bfloat16",), meshes=("data4",), modes=("auto",)),
    ),
    _fault("parameter gathered stale", _NEW, _NEW.replace("zip(updated,", "zip(leaves,")),
    _fault(
        "parts of another device", _NEW, _NEW.replace("_laid(array,", "_laid(jnp.roll(array, 2, axis=0),"), slow=True
    ),
    _fault("moments of each other", '"mu": split(mu), "nu": split(nu)', '"mu": split(nu), "nu": split(mu)', slow=True),
)
