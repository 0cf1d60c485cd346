"""Faults in the sort by expert: orders that are not stable or not inverse, copies that get lost, short sums."""

from __future__ import annotations

from samebits import Fault, Request

_TAKE = "return _take(rows, _order(experts) // experts.shape[1])"
_BACK = "_take(cotangent, jnp.argsort(_order(experts)))"
_SUM = "jnp.sum(copies.astype(wide), axis=1).astype(copies.dtype)"
_ORDER = "return jnp.argsort(experts.reshape(-1), stable=True)"
_COUNT = "jnp.zeros(num_experts, jnp.int32).at[experts.reshape(-1)]"


def _fault(name: str, old: str, new: str, case: str = "top2", direction: str = "forward") -> Fault:
    request = Request(cases=(case,), dtypes=("float32",), modes=("auto",), directions=(direction,))
    return Fault(name=name, pair="token_sort", side="inverse_gather", old=old, new=new, request=request)


def _gradient(name: str, old: str, new: str, case: str = "top2") -> Fault:
    return _fault(name, old, new, case, "gradient")


FAULTS = (
    _fault("choices taken for tokens", _TAKE, _TAKE.replace("// experts.shape[1]", "% rows.shape[0]")),
    _fault("inverse order forward", _TAKE, _TAKE.replace("_order(experts)", "jnp.argsort(_order(experts))")),
    _fault("later tokens first", _ORDER, "return jnp.argsort(experts.reshape(-1)[::-1], stable=True)[::-1]"),
    _fault("experts from the last", _ORDER, _ORDER.replace("experts.reshape(-1)", "-experts.reshape(-1)")),
    _fault("choices read across tokens", _ORDER, _ORDER.replace("experts.reshape", "experts.T.reshape")),
    _fault("sizes of first choices alone", _COUNT, _COUNT.replace("experts.reshape(-1)", "experts[:, 0]")),
    _fault("an expert counted once", ".add(1, mode", ".set(1, mode"),
    _fault("sizes counted from expert 1", _COUNT, _COUNT.replace("experts.reshape(-1)", "experts.reshape(-1) - 1")),
    _gradient("gradient in the sorted order", _BACK, "cotangent"),
    _gradient("gradient goes forward instead of back", _BACK, "_take(cotangent, _order(experts))", "top1"),
    _gradient(
        "copies of other tokens added up", "reshape(tokens, choices, -1)", "reshape(choices, tokens, -1).swapaxes(0, 1)"
    ),
    _gradient("one copy of a token pulls back", _SUM, "copies[:, -1]"),
    _gradient("mean of the copies", _SUM, _SUM.replace("jnp.sum(", "jnp.mean(")),
    _gradient("copies added up in bfloat16", _SUM, _SUM.replace("astype(wide)", "astype(jnp.bfloat16)"), "top8"),
    _gradient("gradient dropped to zeros", _SUM, "0 * " + _SUM),
)
