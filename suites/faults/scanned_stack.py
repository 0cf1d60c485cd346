"""Faults in the scanned stack: data of another stage, microbatch, segment or repeat, and slightly wrong formulas.

A remat name that is misspelt moves no value: the suite holds what is kept for the way back.
"""

from __future__ import annotations

from samebits import Fault, Request

_PACKED = Request(cases=("packed",))
_ONE = Request(cases=("one_segment",))
_WAITING = "waiting = waiting.at[:, slot].set(_on(stage == stages - 1, y, _rotated(forms, fed, -1)))"


def _fault(name: str, old: str, new: str, side: str = "slices", verdict: str = "different") -> Fault:
    request = _PACKED if side == "slices" else _ONE
    return Fault(name=name, pair="scanned_stack", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _fault(
        "mask without the segments",
        "(segments[:, :, None] == segments[:, None, :]) & (",
        "(segments[:, :, None] > 0) & (",
    ),
    _fault("epsilon of 1e-5", "EPSILON = 1e-6", "EPSILON = 1e-5", "all_together"),
    _fault(
        "microbatch of the stage before",
        "begun = jnp.maximum(now - stage, 0)",
        "begun = jnp.maximum(now - stage + 1, 0)",
    ),
    _fault(
        "first stage fed one iteration longer", "jnp.where(now < microbatches,", "jnp.where(now <= microbatches - 2,"
    ),
    _fault(
        "rotation without its last row",
        "tail = lax.slice_in_dim(state, cut, state.shape[0])",
        "tail = lax.slice_in_dim(state, 0, state.shape[0] - cut)",
    ),
    _fault("rows do not move", "shift = _rotated(forms, y, 1)", "shift = y"),
    _fault("waiting inputs do not move", _WAITING, _WAITING.replace("_rotated(forms, fed, -1)", "fed")),
    _fault("outputs a slot off", "out = jnp.roll(waiting, 1 - stages, axis=1)", "out = jnp.roll(waiting, 1, axis=0)"),
    _fault(
        "last iteration left out",
        "microbatches * repeats + stages - 1, dtype",
        "microbatches * repeats + stages - 2, dtype",
    ),
    _fault("first stage's inputs on all", "_on(stage == 0, first, shift)", "first"),
    _fault(
        "one layer skipped",
        "return lax.scan(step, x, weights)[0]",
        "return lax.scan(step, x, jax.tree.map(lambda array: array[1:], weights))[0]",
    ),
    _fault(
        "a query sees the key after it",
        "scores = jnp.where(lax.ge(*order), scores, -jnp.inf)",
        "scores = jnp.where(lax.ge(next(order) + 1, next(order)), scores, -jnp.inf)",
        "all_together",
    ),
    _fault("scores not divided", "* query.shape[-1] ** -0.5", "* query.shape[-1] ** 0.0", "all_together"),
    _fault(
        "scale of the first norm in both",
        '_norm(forms, x, weights["scales"][1])',
        '_norm(forms, x, weights["scales"][0])',
        "all_together",
    ),
    _fault(
        "embedding of the token before",
        "return table.at[tokens].get(",
        "return table.at[tokens - 1].get(",
        "all_together",
    ),
    _fault("gate and up exchanged", "gate, up = _product", "up, gate = _product"),
)
