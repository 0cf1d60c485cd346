"""Faults in attention: masks that are too wide or too narrow, inconsistent maxima, misplaced keys and gradients."""

from __future__ import annotations

from samebits import Direction, Fault, Request

_MASK = "(segments[:, :, None] == key_segments[:, None, :]) & (back >= 0)"
_GATHERED = "x = lax.all_gather(x, CONTEXT, axis=1, tiled=True) if statics.gather else _unsplit(x)"
_REORDERED = "if statics.balanced and statics.gather:\n            x = _in_order_of_text"
_EXP = "jnp.exp(scores - finite[..., None])"
_SOFTMAX = "jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)"
_OR_PADDING = "((segments[:, :, None] == key_segments[:, None, :]) | (segments[:, :, None] == 0)) & (back >= 0)"
_DROPPED = "window=window, block=block, balanced=balanced)"
_CALL = "return _attend(statics, query, key, value, positions, segments)"


def _fault(
    name: str,
    old: str | tuple[str, ...],
    new: str | tuple[str, ...],
    direction: Direction = "forward",
    side: str = "blockwise",
    slow: bool = True,
    case: str = "",
    verdict: str = "different",
) -> Fault:
    of_a_type = side in ("causal_type", "default_scale")
    where = ("unpacked", "bfloat16") if of_a_type else ("balanced", "float32")
    request = Request(cases=(case or where[0],), dtypes=where[1:], modes=("auto",), directions=(direction,))
    pair = "suites.test_attention:SCALE" if case == "unscaled" else "attention"
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request, slow=slow, verdict=verdict)


FAULTS = (
    _fault("segments ignored", _MASK, "back >= 0", slow=False),
    _fault("a token does not see itself", "(back >= 0)", "(back > 0)"),
    _fault("window one too long", "back < statics.window", "back <= statics.window"),
    _fault(
        "positions replaced by places in balanced order",
        _CALL,
        "positions = 0 * positions + jnp.arange(positions.shape[1], dtype=positions.dtype)\n    " + _CALL,
        side="context_gathered",
        slow=False,
    ),
    _fault(
        "scale applied twice",
        "queries = _grouped(query, key) * statics.scale\n",
        "queries = _grouped(query, key) * statics.scale**2\n",
    ),
    _fault("a given scale ignored", "query.shape[3] ** -0.5 if scale is None else scale", "query.shape[3] ** -0.5"),
    _fault("no scale unless given", "query.shape[3] ** -0.5 if scale", "1.0 if scale", side="causal_type"),
    _fault("mask after softmax", _SOFTMAX, "jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0)", side="causal_type"),
    _fault("a causal token does not see itself", "(column <= row)", "(column < row)", side="causal_type"),
    _fault("causal window one too long", "(row - column < (window", "(row - column <= (window", side="causal_type"),
    _fault("values not rescaled", "summed * rescale[..., None] + attended", "summed + attended", slow=False),
    _fault("sum of the weights not rescaled", "total * rescale + ", "total + "),
    _fault(
        # Forward this is the same formula where no block is unseen after a seen one, and only overflows sooner.
        "each block under its own maximum",
        "jnp.maximum(top, jnp.max(scores, axis=-1))",
        "jnp.max(scores, axis=-1)",
        direction="gradient",
    ),
    _fault(
        "heads share keys with every second, not with the next",
        ".reshape(*x.shape[:2], key.shape[2], -1, x.shape[3])",
        ".reshape(*x.shape[:2], -1, key.shape[2], x.shape[3]).swapaxes(2, 3)",
    ),
    _fault(
        "keys put back into order, and values not",
        (_GATHERED, _REORDERED),
        (
            f"is_value = x is arrays[1]\n        {_GATHERED}",
            _REORDERED.replace("statics.gather:", "statics.gather and not is_value:"),
        ),
        side="context_gathered",
    ),
    _fault(
        "the order of the text undone wrongly",
        "chunks[:, ::-1, 1]]",
        "chunks[:, :, 1]]",
        direction="gradient",
        side="context_gathered",
    ),
    _fault(
        "gradients of keys not put into balanced order",
        "x = _in_balanced_order(x, statics.gather)",
        "pass",
        direction="gradient",
        side="context_gathered",
    ),
    _fault("weights rounded to bfloat16", _EXP, f"lax.reduce_precision({_EXP}, 8, 7)"),
    _fault("gradient of the normaliser left out", "pulled, values) - along)", "pulled, values))", direction="gradient"),
    _fault(
        "gradient of queries not scaled", "(to_queries * statics.scale)", "to_queries", direction="gradient", slow=False
    ),
    _fault(
        "gradients of keys rounded before they are added up",
        "_sent_back(statics, part)",
        "_sent_back(statics, lax.reduce_precision(part, 8, 7))",
        direction="gradient",
        side="context_gathered",
    ),
    _fault("a dropped scale is 1", _DROPPED, _DROPPED.replace("block=", "scale=1.0, block="), side="default_scale"),
    _fault(
        "the window dropped with the scale", _DROPPED, _DROPPED.replace("window=window, ", ""), side="default_scale"
    ),
    _fault(
        # A known difference that is gone must be seen too: what was found is then no longer so.
        "the scale is not dropped",
        _DROPPED,
        _DROPPED.replace("block=", "scale=scale, block="),
        side="default_scale",
        case="unscaled",
        verdict="bitwise",
    ),
    _fault(
        "the mask type sees documents",
        "mask = (column <= row) & (row - column < (window or query.shape[1]))\n",
        "mask = (column <= row) & (row - column < (window or query.shape[1]))\n"
        "        mask = mask & (segments[:, :, None] == segments[:, None, :])[:, None, None]\n",
        side="causal_type",
        case="packed",
        verdict="bitwise",
    ),
    _fault(
        "the mask type lets a token see the next",
        "(column <= row)",
        "(column <= row + 1)",
        direction="gradient",
        side="causal_type",
    ),
    _fault(
        "weights not normalised on the way back",
        "- top[..., None]) / total[..., None]",
        "- top[..., None])",
        direction="gradient",
    ),
    _fault("padding sees the document before it", _MASK, _OR_PADDING),
)
