"""Faults in the choice of microbatches: off by one, wrong at either end of a pipeline, and values lost."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, direction: str = "forward") -> Request:
    return Request(cases=(case,), dtypes=("float32", "bfloat16"), modes=("auto",), directions=(direction,))


_FILLING, _STEADY, _DELAYED = _request("filling"), _request("steady"), _request("delayed")
_START = "(-1 - iteration) % microbatches"
_TAKEN = "    return jnp.where(iteration < delay * stage, inputs[:1], taken)"
_WANTED = "wanted = jnp.maximum(iteration - delay * stage, 0) % microbatches"
_CHOICE = "found = jnp.where(wanted == microbatch, inputs[microbatch], found)"


def _window(name: str, old: str, new: str, request: Request = _STEADY, verdict: str = "different") -> Fault:
    return Fault(name=name, pair="microbatch_select", side="window", old=old, new=new, request=request, verdict=verdict)


def _one_hot(name: str, old: str, new: str, request: Request = _STEADY) -> Fault:
    return Fault(name=name, pair="microbatch_select", side="one_hot", old=old, new=new, request=request)


FAULTS = (
    _window("slice one microbatch late", _START, "-iteration % microbatches"),
    _window("stages that have not begun wrap round", _TAKEN, "    return taken", _FILLING),
    _window("stages that have not begun get the last", _TAKEN, _TAKEN.replace("inputs[:1]", "inputs[-1:]"), _FILLING),
    _window("stages wait two turns too long", _TAKEN, _TAKEN.replace("stage,", "(stage + 2),"), _FILLING),
    _window("microbatches in rising order", "lax.rev(inputs, (0,))", "inputs"),
    _window("delay ignored by the slice", "[::delay]", "[:stages]", _DELAYED),
    _window(
        "slice clamped at the end of the microbatches",
        "turns = -(-(microbatches + length) // microbatches)",
        "turns = -(-length // microbatches)",
        _FILLING,
    ),
    _window(
        "iteration below zero without its sign",
        "jnp.maximum(iteration.astype(jnp.int32), 0)",
        "jnp.abs(iteration.astype(jnp.int32))",
        _request("below_zero"),
    ),
    _window(
        "gradient stopped",
        _TAKEN,
        _TAKEN.replace("taken)", "jax.lax.stop_gradient(taken))"),
        _request("steady", "gradient"),
    ),
    _one_hot(
        "clamped instead of begun again",
        _WANTED,
        "wanted = jnp.clip(iteration - delay * stage, 0, microbatches - 1)",
        _DELAYED,
    ),
    _one_hot("delay left out", _WANTED, _WANTED.replace("delay * stage", "stage"), _DELAYED),
    _one_hot("last microbatch never chosen", "range(1, microbatches)", "range(1, microbatches - 1)", _DELAYED),
    _one_hot(
        "product and sum in place of a selection",
        _CHOICE,
        "found = found * (wanted != microbatch) + inputs[microbatch] * (wanted == microbatch)",
    ),
)
