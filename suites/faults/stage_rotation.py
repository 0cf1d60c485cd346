"""Faults in the moves between pipeline stages: wrong direction, leaked rows, blocks moved for rows."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, mesh: str = "stage4", direction: str = "*") -> Request:
    return Request(cases=(case,), dtypes=("float32",), meshes=(mesh,), modes=("auto",), directions=(direction,))


def _slice(name: str, old: str, new: str, request: Request) -> Fault:
    return Fault(name=name, pair="stage_rotation", side="slice_concatenate", old=old, new=new, request=request)


def _ppermute(name: str, old: str, new: str, request: Request) -> Fault:
    """A fault in the reference that shows only on a mesh: the reference on one device is the judge."""
    return Fault(name=name, pair="stage_rotation", side="ppermute", old=old, new=new, request=request)


_WRAP = "        return jnp.concatenate([lax.slice_in_dim(state, rows - 1, rows), kept])"

FAULTS = (
    _slice(
        "rotates to the wrong side",
        'if operation.endswith("right"):',
        'if operation.endswith("left"):',
        _request("rotate_right"),
    ),
    _slice(
        "first row sent round instead of the last",
        _WRAP,
        _WRAP.replace("rows - 1, rows", "0, 1"),
        _request("rotate_right"),
    ),
    _slice(
        "row leaked by a shift",
        '        if operation == "shift_right":\n',
        '        if operation == "shift_nowhere":\n',
        _request("shift_right"),
    ),
    _slice(
        "zeros on the wrong end",
        "return _pad(kept, before=1, after=0)",
        "return _pad(kept, before=0, after=1)",
        _request("shift_right"),
    ),
    _slice(
        "output written to the first row",
        "is_last = jnp.arange(rows) == rows - 1",
        "is_last = jnp.arange(rows) == 0",
        _request("state_io_update"),
    ),
    _slice("output taken from the first row", "output, shifted)", "output[:1], shifted)", _request("state_io_update")),
    _slice(
        "output forgotten",
        "    if output is None:\n        return shifted\n",
        "    return shifted\n",
        _request("state_io_update", direction="forward"),
    ),
    _slice(
        "vacated row padded with ones",
        "jnp.zeros((), rows.dtype), ((before",
        "jnp.ones((), rows.dtype), ((before",
        _request("shift_left", direction="forward"),
    ),
    _ppermute(
        "blocks rotated instead of rows",
        "        rest, edge = lax.split(rows, (rows.shape[0] - 1, 1))",
        "        rest, edge = rows[:0], rows",
        _request("rotate_right_rows2"),
    ),
    _ppermute(
        "sends to the wrong neighbour",
        "step = 1 if to_next else -1",
        "step = -1 if to_next else 1",
        _request("rotate_right"),
    ),
    _ppermute(
        "edge stage receives where it should get zeros",
        "if wrap or 0 <= stage + step < stages]",
        "]",
        _request("shift_right"),
    ),
)
