"""Faults in a jitted combine: static arguments that are not those of the call, rows added up otherwise."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str) -> Request:
    return Request(cases=(case,))


_MEANS, _NARROW = _request("means"), _request("narrow")
_PARTIAL = '@functools.partial(jax.jit, static_argnames=("group", "reduce"))'
_CALL = '3922, item 3.\n    """\n    return _gather_reduce(rows, ids, weights, group, reduce)'
_PARTS = "rows[ids].astype(wide) * weights.astype(wide)[:, None]"
_GROUPS = "parts = parts.reshape(-1, group, rows.shape[1])"
_MEAN = 'total / group if reduce == "mean" else total'
_DEFAULTS = (
    "def wrapped_late(\n    rows: jax.Array, ids: jax.Array, weights: jax.Array, *, group: int = 2, "
    'reduce: Literal["sum", "mean"] = "sum"'
)


def _fault(
    name: str, old: str, new: str, request: Request = _MEANS, verdict: str = "different", side: str = "partial"
) -> Fault:
    return Fault(name=name, pair="jit_form", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    # Frozen when it was jitted: right where the call asks for the default.
    _fault("group of the default, whatever is asked for", _CALL, _CALL.replace("group, reduce", "2, reduce")),
    _fault("static name forgotten", _PARTIAL, _PARTIAL.replace('"group", "reduce"', '"group",'), verdict="error"),
    _fault(
        "other static name forgotten", _PARTIAL, _PARTIAL.replace('"group", "reduce"', '"reduce",'), verdict="error"
    ),
    _fault(
        "another default in this spelling",
        _DEFAULTS,
        _DEFAULTS.replace("group: int = 2", "group: int = 1"),
        _request("defaults"),
        side="wrapped_late",
    ),
    _fault("another word for the default of the call", _CALL, _CALL.replace("group, reduce", 'group, "sum"')),
    _fault("weights left out", _PARTS, "rows[ids].astype(wide)", side="wrapped_late"),
    _fault("groups taken with a stride", _GROUPS, "parts = parts.reshape(group, -1, rows.shape[1]).swapaxes(0, 1)"),
    _fault("mean over one less", _MEAN, _MEAN.replace("total / group", "total / (group - 1)")),
    _fault("last of the group left out", "for part in range(1, group):", "for part in range(1, group - 1):"),
    _fault("no gradient to the weights", _PARTS, _PARTS.replace("* weights", "* jax.lax.stop_gradient(weights)")),
    # The same formulas, only rounded elsewhere: a tolerance of bfloat16 passes both.
    _fault(
        "added up in the dtype of the rows",
        "parts = rows[ids].astype(wide) * weights.astype(wide)[:, None]",
        "parts = rows[ids] * weights[:, None]",
        _NARROW,
        "rounding",
    ),
    _fault(
        "added up from right to left",
        "total = total + parts[:, part]\n",
        "total = total + parts[:, group - part]\n",
        _MEANS,
        "rounding",
    ),
)
