"""Faults in the embedding lookup: ids out of range, repeated ids, and the derivative."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, dtype: str = "float32", direction: str = "*") -> Request:
    return Request(cases=(case,), dtypes=(dtype,), meshes=("data8",), modes=("auto",), directions=(direction,))


_FILL = 'mode="fill", fill_value=0, wrap_negative_indices=False'
_PULL = "    (gradient,) = pull(cotangent.astype(wide))\n"
_SUM = "    return None, gradient.astype(table.dtype)"
_ONE_HOT = "(ids[..., None] == jnp.arange(table.shape[0], dtype=jnp.int32)).astype(table.dtype)"


def _gather(name: str, new: str, request: Request) -> Fault:
    return Fault(name=name, pair="embedding", side="gather", old=_FILL, new=new, request=request)


def _guarded(name: str, old: str, new: str, request: Request, kind: str | None = None) -> Fault:
    return Fault(name=name, pair="embedding", side="guarded", old=old, new=new, request=request, kind=kind)


def _accurate(name: str, old: str, new: str, case: str, dtype: str = "float32") -> Fault:
    side = "gather_float32_gradient"
    return Fault(name=name, pair="embedding", side=side, old=old, new=new, request=_request(case, dtype, "gradient"))


FAULTS = (
    _gather(
        "clamped instead of zero for an id out of range",
        'mode="clip", wrap_negative_indices=False',
        _request("out_of_range"),
    ),
    _gather(
        "NaN instead of zero for an id out of range",
        _FILL.replace("fill_value=0", "fill_value=jnp.nan"),
        _request("out_of_range", direction="forward"),
    ),
    _gather("negative ids wrapped round", _FILL.replace("False", "True"), _request("out_of_range")),
    Fault(
        name="ids off by one",
        pair="embedding",
        side="gather",
        old="table.at[ids].get(",
        new="table.at[ids + 1].get(",
        request=_request("repeats", direction="forward"),
    ),
    _guarded(
        "one-hot against ids from 1",
        _ONE_HOT,
        _ONE_HOT.replace(
            "jnp.arange(table.shape[0], dtype=jnp.int32)", "1 + jnp.arange(table.shape[0], dtype=jnp.int32)"
        ),
        _request("repeats"),
    ),
    _guarded(
        "limit compared the wrong way round",
        "> one_hot_limit:",
        "< one_hot_limit:",
        _request("infinity", direction="forward"),
        "NaN vs number",
    ),
    _guarded(
        "dtype widened by the one-hot",
        "return rows.astype(table.dtype)",
        "return rows",
        _request("repeats", "bfloat16", "forward"),
        "dtype",
    ),
    _accurate(
        "gradient not scaled by the cotangent",
        _PULL,
        "    (gradient,) = pull(jnp.sign(cotangent).astype(wide))\n",
        "repeats",
    ),
    _accurate("gradient dropped to zeros", _SUM, "    return None, 0 * table", "repeats"),
    _accurate(
        "gradient keeps one row of a repeated id",
        _PULL,
        '    gradient = jnp.zeros(table.shape, wide).at[ids].set(cotangent.astype(wide), mode="drop")\n',
        "repeats",
    ),
    _accurate(
        "gradient summed in bfloat16",
        "    wide = jnp.promote_types(table.dtype, jnp.float32)\n    # The gather",
        "    wide = jnp.promote_types(table.dtype, jnp.bfloat16)\n    # The gather",
        "one_token",
        "bfloat16",
    ),
)
