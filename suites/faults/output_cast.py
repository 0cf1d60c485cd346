"""Faults in the casts of a gated layer: one that is lost, too early or too narrow, and products of something else."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, direction: str = "forward") -> Request:
    return Request(cases=(case,), directions=(direction,))


_NATIVE, _RECAST, _PROMOTED = _request("native"), _request("recast"), _request("promoted")
_WIDE = "wide = jnp.promote_types(x.dtype, jnp.float32) if in_float32 else x.dtype"
_HIDDEN = "hidden = jax.nn.silu(gates.astype(wide)) * ups.astype(wide)"
_IF = 'if cast == "if needed" and hidden.dtype != x.dtype:'
_CAST = "hidden = hidden.astype(x.dtype)"
_OUT = "return _product(hidden, down).astype(x.dtype)"
_SUM = "preferred_element_type=wide"


def _fault(name: str, old: str, new: str, request: Request, verdict: str = "different") -> Fault:
    side = "cast_if_needed"
    return Fault(name=name, pair="output_cast", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    # The same formulas, and closer to float64: a tolerance passes both.
    _fault("cast where it is not needed", _IF, _IF.replace("!=", "=="), _PROMOTED, "rounding"),
    _fault("activation not in float32", _WIDE, "wide = x.dtype", _RECAST, "rounding"),
    _fault("cast before the gate", _HIDDEN, _HIDDEN.replace(" * ups", ".astype(x.dtype) * ups"), _PROMOTED, "rounding"),
    _fault(
        "cast by way of float16", _CAST, "hidden = hidden.astype(jnp.float16).astype(x.dtype)", _PROMOTED, "rounding"
    ),
    _fault(
        "cast to six bits",
        _CAST,
        "hidden = jax.lax.reduce_precision(hidden, 8, 5).astype(x.dtype)",
        _PROMOTED,
        "rounding",
    ),
    _fault(
        "gate and up exchanged",
        _HIDDEN,
        _HIDDEN.replace("gates", "gate_").replace("ups", "gates").replace("gate_", "ups"),
        _NATIVE,
    ),
    _fault("another activation", _HIDDEN, _HIDDEN.replace("silu", "gelu"), _NATIVE),
    _fault(
        "gradient stopped at the cast",
        _CAST,
        "hidden = jax.lax.stop_gradient(hidden).astype(x.dtype)",
        _request("promoted", "gradient"),
    ),
    _fault("integers", _CAST, "hidden = hidden.astype(jnp.int32).astype(x.dtype)", _PROMOTED),
    _fault("added up in the dtype of the operands", _SUM, "preferred_element_type=dtype", _PROMOTED, "rounding"),
    _fault("result in float32", _OUT, _OUT.replace(".astype(x.dtype)", ".astype(jnp.float32)"), _NATIVE),
    Fault(
        name="result of five bits",
        pair="output_cast",
        side="cast_removed",
        old=_OUT,
        new="return jax.lax.reduce_precision(_product(hidden, down), 8, 4).astype(x.dtype)",
        request=Request(cases=("native", "promoted"), directions=("forward",)),
    ),
)
