"""Faults in the pipeline: a stage with the data of another, bubbles that contribute, rows in the wrong place.

With two stages both directions of a rotation are one: a rotation in the wrong direction needs three or more.
"""

from __future__ import annotations

from samebits import Fault, Request

_FORWARD = Request(cases=("round",), modes=("auto",), directions=("forward",))
_THREE = Request(cases=("three",), directions=("forward",))
_FOUR = Request(cases=("four",), directions=("forward",))
_PLACES = "there = tuple(_microbatch_of_each(place, microbatch) for place in places)"
_WEIGHTS = "_repeat_of_each(array, repeat)"
_HELD = "_put(held, shifted, lax.rem(now + (many - (stages - 1)), many))"


def _fault(
    name: str, old: str, new: str, *, slow: bool = True, request: Request = _FORWARD, side: str = "circular"
) -> Fault:
    return Fault(name=name, pair="pipeline", side=side, old=old, new=new, request=request, slow=slow)


FAULTS = (
    _fault(
        "positions of the stage before's microbatch",
        _PLACES,
        _PLACES + "\n        there = (_microbatch_of_each(places[0], lax.rem(microbatch + 1, many)), there[1])",
        slow=False,
    ),
    _fault(
        "segments of another microbatch",
        _PLACES,
        _PLACES + "\n        there = (there[0], _microbatch_of_each(places[1], lax.rem(microbatch + 1, many)))",
    ),
    _fault(
        "positions of the first stage on all", _PLACES, _PLACES.replace("microbatch)", "microbatch[:1] + 0 * stage)")
    ),
    _fault("a microbatch fed twice", "_at(waiting, slot), returned)", "_at(waiting, 0 * slot), returned)"),
    _fault("weights of the first repeat", _WEIGHTS, "_repeat_of_each(array, 0 * repeat)", slow=False),
    _fault("weights of the stage before", _WEIGHTS, "jnp.roll(_repeat_of_each(array, repeat), 1, axis=0)"),
    _fault(
        "outputs a slot off", "jnp.roll(waiting, 1 - stages, axis=1)", "jnp.roll(waiting, -stages, axis=1)", slow=False
    ),
    _fault("bubbles counted", "_where(busy, extra, jnp.zeros_like(extra))", "extra", slow=False),
    _fault("extra not divided", "jnp.sum(extras) / microbatches", "jnp.sum(extras)"),
    _fault("extra of the last repeat's weights' mean", "jnp.sum(extras) / microbatches", "jnp.mean(extras)"),
    _fault(
        "circular storage read one iteration early",
        "_at(held, lax.rem(now, many))",
        "_at(held, lax.rem(now + 1, many))",
    ),
    _fault(
        "circular storage written one slot late", _HELD, "_put(held, shifted, lax.rem(now + (many - stages), many))"
    ),
    _fault(
        "last microbatch dropped",
        "iterations = microbatches * repeats + stages - 1",
        "iterations = microbatches * repeats + stages - 2",
    ),
    _fault("messages to the stage before", "hop = 1 if to_next else -1", "hop = -1 if to_next else 1", request=_THREE),
    _fault(
        "slices rotate in the other direction",
        "cut = state.shape[0] - 1 if to_next else 1",
        "cut = 1 if to_next else state.shape[0] - 1",
        request=_FOUR,
        side="circular_slice",
    ),
    _fault("waiting inputs do not move", "to_previous(_at(waiting, slot))", "_at(waiting, slot)"),
    _fault(
        "gradient of one stage's weights lost",
        "run(jax.tree.map(lambda array: _repeat_of_each(array, repeat), weights), x, *there)",
        "run(jax.tree.map(lambda array: _where(stage > 0, _repeat_of_each(array, repeat), "
        "lax.stop_gradient(_repeat_of_each(array, repeat))), weights), x, *there)",
        request=Request(cases=("round",), modes=("auto",), directions=("gradient",)),
    ),
)
