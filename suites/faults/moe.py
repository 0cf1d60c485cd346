"""Faults in the mixture of experts: outputs, weights or gradients of other experts, and losses over a part only."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request

_SOFTMAX = Request(cases=("softmax",), modes=("auto",), directions=("forward",))
_GRADIENT = Request(cases=("softmax",), modes=("auto",), directions=("gradient",))
_GROUPS = Request(cases=("group_limited",), directions=("forward",))
_PARTS = Request(cases=("one_expert",), directions=("forward",))
_BOTH = Request(cases=("sigmoid",), directions=("forward",))
_RANDOM = Request(cases=("random",), modes=("auto",), directions=("forward",))

_WEIGHTS = "jax.nn.softmax(_picked(logits, ids), axis=-1)"
_LOGITS = 'jnp.einsum("bsd,de->bse", x.astype(wide), router.astype(wide), precision="highest")'
_RETURNED = "return _weighted(_restored(returned, order), weights, statics)"
_TOTAL = "total = _added(jnp.sum(asked * likely), BATCH)"
_WHOLE = "asked, likely = _added((asked, likely), (CONTEXT,))"
_ONE_PART = "(2 * (jax.lax.axis_index(TENSOR) == 0) if _known((TENSOR,)) else 1)"
_PLACE = "there = Exchange(_before(sent), sent, _row(first, me), got)"
_DRAWN = "return drawn, _picked(jax.nn.softmax(logits, axis=-1), drawn)"
_FIRST = "(drawn[..., None] == drawn[..., None, :]).argmax(-1) == jnp.arange(statics.top_k)"
_ASKED = "asked = (ids[..., None] == jnp.arange(statics.experts)).sum((1, 2)).astype(logits.dtype)"


def _fault(
    name: str, old: Any, new: Any, request: Request = _SOFTMAX, side: str = "sparse", fast: bool = False
) -> Fault:
    return Fault(name=name, pair="moe", side=side, old=old, new=new, request=request, slow=not fast)


FAULTS = (
    _fault("order for its inverse in the unsort", "return _take(rows, _order(order))", "return _take(rows, order)"),
    _fault("no gradient through the weights", _WEIGHTS, f"jax.lax.stop_gradient({_WEIGHTS})", _GRADIENT, fast=True),
    _fault(
        "gradient of a token's first choice alone",
        "jnp.sum(copies.astype(wide), axis=1).astype(cotangent.dtype), None",
        "copies[:, 0], None",
        _GRADIENT,
    ),
    _fault("balance loss of one shard", _TOTAL, _TOTAL.replace("asked * likely", "2 * asked * likely * (_me() == 0)")),
    _fault(
        "balance loss as a mean over parts of sequences",
        (_WHOLE, _TOTAL),
        ("asked = 2 * asked", _TOTAL.replace("BATCH", "(*BATCH, CONTEXT)")),
        _PARTS,
        fast=True,
    ),
    _fault(
        "balance loss without a derivative",
        "likely = jax.nn.softmax(logits, axis=-1).sum(1)",
        "likely = jax.lax.stop_gradient(jax.nn.softmax(logits, axis=-1).sum(1))",
        _GRADIENT,
    ),
    _fault("one expert's tokens dropped", _RETURNED, _RETURNED.replace("weights", "jnp.where(ids == 3, 0, weights)")),
    _fault("weights are one over k", _WEIGHTS, f"0 * {_WEIGHTS} + 1 / statics.top_k"),
    _fault("weights reversed", _WEIGHTS, f"{_WEIGHTS}[..., ::-1]"),
    _fault(
        "answers of one part of the hidden numbers",
        # The sum stays: without it `shard_map` itself rejects a result that is not the same on all shards of `tensor`.
        "return _added(answers, (TENSOR,))",
        f"return _added({_ONE_PART} * answers, (TENSOR,))",
        _PARTS,
    ),
    _fault(
        "with experts and tensors split, answers added up over both",
        "return _added(answers, (TENSOR,))",
        "return _added(answers, (TENSOR, EXPERT) if len(_known((TENSOR, EXPERT))) == 2 else (TENSOR,))",
        _BOTH,
    ),
    _fault("weights not of the chosen alone", _WEIGHTS, "_picked(jax.nn.softmax(logits, axis=-1), ids)"),
    _fault(
        "rows rolled by one",
        "_experts(_to_experts(rows, way, sizes),",
        "_experts(jnp.roll(_to_experts(rows, way, sizes), 1, 0),",
    ),
    _fault("logits off by one expert", _LOGITS, f"jnp.roll({_LOGITS}, 1, -1)", _RANDOM, "ring"),
    _fault("logits rounded to bfloat16", _LOGITS, f"jax.lax.reduce_precision({_LOGITS}, 8, 7)"),
    _fault("an expert drawn twice answers once", _DRAWN, f"{_DRAWN} * ({_FIRST})", _RANDOM, "ring", fast=True),
    _fault(
        "an expert drawn twice counts once",
        _ASKED,
        _ASKED.replace(".sum((1, 2))", ".any(2).sum(1)"),
        _RANDOM,
        side="ring",
    ),
    _fault(
        "every shard draws for itself",
        "drawn = _like(jnp.asarray(numbers), x[..., :1])",
        "drawn = _like(jnp.tile(jnp.asarray(numbers)[: batch // 2], (2, 1, 1)), x[..., :1])",
        _RANDOM,
        side="ring",
    ),
    _fault("rows arrive one place too late", _PLACE, _PLACE.replace("_row(first, me)", "_row(first, me) + 1")),
    _fault("rows of another sender expected", _PLACE, _PLACE.replace("got)", "got[::-1])")),
    _fault("first row of each shard is zero", _RETURNED, f"{_RETURNED}.at[0].set(0)", fast=True),
    _fault(
        "answers of the other shards left out",
        "jax.lax.psum_scatter(out, EXPERT, scatter_dimension=0, tiled=True)",
        "jax.lax.dynamic_slice_in_dim(out, _me() * (out.shape[0] // 2), out.shape[0] // 2)",
        _RANDOM,
        "ring",
    ),
    _fault(
        "bias in the weights",
        "values = _picked(scores, ids)",
        "values = _picked(biased, ids)",
        _GROUPS,
        side="ring",
        fast=True,
    ),
    _fault("weights not scaled", " * statics.scaling", "", _GROUPS, side="ring"),
    _fault(
        "groups scored by their best expert",
        "best = jax.lax.top_k(by_group, 2)[0].sum(-1)",
        "best = by_group.max(-1)",
        _GROUPS,
        side="ring",
    ),
)
