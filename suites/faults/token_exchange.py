"""Faults in the token exchange: tables read from the wrong side, sorts that are not stable, uninitialised rows."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, mesh: str = "*", direction: str = "forward") -> Request:
    return Request(cases=(case,), meshes=(mesh,), dtypes=("float32",), modes=("auto",), directions=(direction,))


_DROP = _request("round_trip_drop", "expert8")
_REPLICATED = _request("dispatch_replicated")
_COMBINE_ALL = _request("combine_replicated")
_DISPATCH = "    return Exchange(before(table[me]), fits[me], before(fits)[me], fits[:, me])"
_COMBINE = "    return Exchange(before(fits[:, me]), fits[:, me], before(table, 1)[:, me], fits[me])"
_GRADIENT = "_combine(cotangents[0], experts, sizes, split)"


def _fault(name: str, old: str, new: str, request: Request = _DROP, kind: str | None = None) -> Fault:
    return Fault(
        name=name, pair="token_exchange", side="ragged_all_to_all", old=old, new=new, request=request, kind=kind
    )


FAULTS = (
    _fault(
        "sender offsets taken from the receiver's table",
        _DISPATCH,
        _DISPATCH.replace("before(table[me])", "before(table[:, me])"),
    ),
    _fault(
        "output offsets are the receiver's own", _DISPATCH, _DISPATCH.replace("before(fits)[me]", "before(fits[:, me])")
    ),
    _fault(
        "receive sizes are the send sizes",
        _DISPATCH,
        _DISPATCH.replace("fits[:, me])", "fits[me])"),
        _DROP,
        "NaN vs number",
    ),
    _fault(
        "input offsets of what fits, not of what is there",
        _DISPATCH,
        _DISPATCH.replace("before(table[me])", "before(fits[me])"),
    ),
    _fault(
        "dispatch sizes used for combine",
        _COMBINE,
        _COMBINE.replace("fits[:, me], before(table", "fits[me], before(table").replace(
            ", fits[me])", ", fits[:, me])"
        ),
    ),
    _fault("combine writes at truncated offsets", _COMBINE, _COMBINE.replace("before(table, 1)", "before(fits, 1)")),
    _fault(
        "combine follows the plan of dispatch",
        "combine_plan(table, _me(), sizes.buffer)",
        "dispatch_plan(table, _me(), sizes.buffer)",
    ),
    _fault(
        "broadcast at offsets of what fits",
        "before(totals)[me] * everyone",
        "before(fits)[me] * everyone",
        _COMBINE_ALL,
    ),
    _fault(
        "inclusive prefix sum", "    return jnp.cumsum(counts, axis) - counts", "    return jnp.cumsum(counts, axis)"
    ),
    _fault(
        "each source clamped by itself",
        "    return jnp.clip(room - before(counts), 0, counts)",
        "    return jnp.minimum(counts, room)",
    ),
    _fault(
        "unstable sort",
        "(ids, jnp.arange(ids.size)), num_keys=1",
        "(ids, -jnp.arange(ids.size)), num_keys=2",
        _REPLICATED,
    ),
    _fault(
        "local ids not subtracted", "    local = experts - _me() * sizes.owned\n", "    local = experts\n", _REPLICATED
    ),
    _fault(
        "wrong expert applied on a shard",
        "        expert = _me() * sizes.owned + _segment(",
        "        expert = _segment(",
    ),
    _fault(
        "unwritten rows not masked on the way back",
        "_take(jnp.where(returned, back, 0), _order",
        "_take(back, _order",
        _DROP,
        "NaN vs number",
    ),
    _fault(
        "unwritten rows not masked after dispatch",
        "    return _first(_take(arrived, by_expert), kept.sum()), kept.sum(0)[None]",
        "    return _take(arrived, by_expert), kept.sum(0)[None]",
        Request(cases=("dispatch_single",), modes=("auto", "explicit"), directions=("forward",)),
        "NaN vs number",
    ),
    _fault(
        "group sizes counted before the drop",
        "    return _first(_take(rows, order), kept.sum()), kept[None]",
        "    return _first(_take(rows, order), kept.sum()), _count(local, sizes.owned)[None]",
        _REPLICATED,
    ),
    _fault(
        "experts dealt to shards in turn",
        "counts.reshape(-1, sizes.shards, sizes.owned).sum(2)",
        "counts.reshape(-1, sizes.owned, sizes.shards).sum(1)",
        _request("round_trip_drop", "expert4_fsdp2"),
    ),
    _fault("rows sorted back in the wrong order", "_order(_order(experts)))", "_order(experts))"),
    _fault(
        "local permutation not undone",
        "exchange(_take(held, _order(by_expert)), sizes.local",
        "exchange(held, sizes.local",
        _request("round_trip_drop", "expert4_fsdp2"),
    ),
    _fault(
        "gradient of dispatch doubled",
        _GRADIENT,
        "2 * " + _GRADIENT,
        _request("round_trip_drop", "expert8", "gradient"),
    ),
)
