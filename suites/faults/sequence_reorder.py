"""Faults in the load-balancing reorder: wrong chunk, wrong rank, wrong way back, and values that are not only moved."""

from __future__ import annotations

from samebits import Fault, Request

_BALANCE = Request(cases=("bshd",), dtypes=("float32",), meshes=("context4",), modes=("auto",))
_UNDO = Request(cases=("bshd_undo",), dtypes=("float32",), meshes=("context4",), modes=("auto",))
_ODD = Request(cases=("bshd_undo",), dtypes=("float32",), meshes=("context3",), modes=("auto",))
_FORWARD = Request(cases=("bshd",), dtypes=("float32",), meshes=("context4",), modes=("auto",), directions=("forward",))
_GRADIENT = Request(
    cases=("bshd",), dtypes=("float32",), meshes=("context4",), modes=("auto",), directions=("gradient",)
)
_PAYLOADS = Request(
    cases=("payloads",), dtypes=("float32",), meshes=("context4",), modes=("auto",), directions=("forward",)
)
_STACK = "        return jnp.stack([early, lax.rev(late, (axis,))], axis=axis + 1).reshape(x.shape)"
_UNDO_LINE = "        return jnp.concatenate([early, lax.rev(late, (axis,))], axis=axis).reshape(x.shape)"
_SELECT = "    return jnp.where(takes_even, jnp.concatenate([even, even], axis), jnp.concatenate([odd, odd], axis))"
_CALL = "    return jax.sharding.auto_axes(undo if to_contiguous else balance, out_sharding=jax.typeof(x).sharding)(x)"


def _structured(
    name: str, old: str, new: str, request: Request = _BALANCE, kind: str | None = None, verdict: str = "different"
) -> Fault:
    return Fault(
        name=name,
        pair="sequence_reorder",
        side="structured",
        old=old,
        new=new,
        request=request,
        kind=kind,
        verdict=verdict,
    )


def _permute(name: str, old: str, new: str, request: Request = _BALANCE, verdict: str = "different") -> Fault:
    return Fault(name=name, pair="sequence_reorder", side="permute", old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _structured("late half not reversed", _STACK, _STACK.replace("lax.rev(late, (axis,))", "late")),
    _structured(
        "early and late chunk swapped",
        _STACK,
        _STACK.replace("early, lax.rev(late, (axis,))", "lax.rev(late, (axis,)), early"),
    ),
    _structured("stacked on the wrong side of the chunks", _STACK, _STACK.replace("axis + 1", "axis")),
    _structured("tokens reversed inside the chunks", _STACK, _STACK.replace("(axis,)", "(axis, axis + 1)")),
    _structured(
        "way back reverses the early half",
        _UNDO_LINE,
        _UNDO_LINE.replace("early, lax.rev(late, (axis,))", "lax.rev(early, (axis,)), late"),
        _UNDO,
    ),
    _structured("both directions go the same way", "undo if to_contiguous else balance", "balance", _UNDO),
    _structured(
        "way back right for even cp only",
        _UNDO_LINE,
        "        turned = jnp.concatenate([late[..., :0, :], late], axis=-2)\n"
        "        late = turned if cp % 2 == 0 else lax.rev(turned, (axis,))\n" + _UNDO_LINE,
        _ODD,
    ),
    _structured(
        "sequence axis counted without sign",
        "    return axis % x.ndim",
        "    return abs(axis) % x.ndim",
        Request(cases=("bshd_undo",), dtypes=("int32",), meshes=("context4",), modes=("auto",)),
        verdict="error",
    ),
    _structured(
        "sign of zero lost",
        _CALL,
        _CALL.replace("return ", "y = ")
        + "\n    negative = lax.bitcast_convert_type(y, jnp.int32) == -(2**31)"
        + "\n    return jnp.where(negative, jnp.zeros_like(y), y)",
        _FORWARD,
        "sign of zero",
        verdict="rounding",
    ),
    _structured(
        "NaN payload changed",
        _CALL,
        _CALL.replace("return ", "y = ") + "\n    return jnp.where(jnp.isnan(y), jnp.nan, y)",
        _PAYLOADS,
        "NaN payload",
    ),
    _structured(
        "passed through bfloat16",
        _CALL,
        _CALL.replace("sharding)(x)", "sharding)(x.astype(jnp.bfloat16)).astype(x.dtype)"),
        _FORWARD,
    ),
    _structured(
        "dtype widened",
        _CALL,
        _CALL + ".astype(jnp.promote_types(x.dtype, jnp.float32))",
        Request(cases=("bshd",), dtypes=("bfloat16",), meshes=("context2",), modes=("auto",), directions=("forward",)),
        "dtype",
    ),
    _structured(
        "subnormals flushed",
        _CALL,
        _CALL.replace("(x)", "(jnp.where(jnp.abs(x) < jnp.finfo(x.dtype).tiny, x * 0, x))"),
        _FORWARD,
        "subnormal flushed",
        "rounding",
    ),
    _permute(
        "two receivers exchanged",
        "for r in range(cp)], [(r, destination(2 * r + 1))",
        "for r in range(cp)], [(r, destination(2 * (r ^ 1) + 1))",
    ),
    _permute("chunks land in the wrong order", _SELECT, _SELECT.replace("takes_even", "~takes_even")),
    _permute(
        "parity of the neighbour",
        "even_first = lax.axis_index(AXIS) % 2 == 0",
        "even_first = lax.axis_index(AXIS) % 2 == 1",
    ),
    _permute(
        "way back sends along the forward table",
        "        even_moves, odd_moves = _reversed(even_moves), _reversed(odd_moves)\n",
        "",
        _UNDO,
    ),
    _permute(
        "gradient goes forward instead of back",
        "    return (_exchange(cp, axis, not to_contiguous, cotangent),)",
        "    return (_exchange(cp, axis, to_contiguous, cotangent),)",
        _GRADIENT,
    ),
    _permute(
        "gradient dropped to zeros",
        "    return (_exchange(cp, axis, not to_contiguous, cotangent),)",
        "    return (cotangent * 0,)",
        _GRADIENT,
    ),
    _permute(
        "error forgotten where cp is not the mesh's",
        "if not mesh.empty and mesh.shape.get(AXIS, 1) != cp:",
        "if False:",
        Request(
            cases=("cp_off_mesh",), dtypes=("float32",), meshes=("context4",), modes=("auto",), directions=("forward",)
        ),
    ),
)
