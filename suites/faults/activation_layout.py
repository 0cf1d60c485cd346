"""Faults in the layout of activations: rows of the wrong half, impossible reshardings, lost values."""

from __future__ import annotations

from samebits import Fault, Request

_FORWARD = Request(cases=("sequence",), directions=("forward",))
_GRADIENT = Request(cases=("plain",), directions=("gradient",))
_EMBEDDING = Request(cases=("embedding",), directions=("forward",))
_HALVES = "(lax.slice_in_dim(x, start, None, 2).astype(wide) for start in (0, 1))"
_MERGED = "return jnp.stack(done, axis=1).reshape(x.shape)"
_CAME = "return jax.reshard(found, jax.typeof(x).sharding) if _explicit() else found"
_SPEC = "PartitionSpec(rows or None, SEQUENCE if sizes.get(SEQUENCE, 1) > 1 else None, None)"
_WAY = f"return jax.reshard(x, {_SPEC})"
_DONE = "jax.nn.sigmoid(half * scale.astype(wide))"


def _fault(name: str, old: str, new: str, request: Request = _FORWARD, verdict: str = "different") -> Fault:
    side = "simplified_back"
    return Fault(name=name, pair="activation_layout", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _fault("halves exchanged", _HALVES, _HALVES.replace("(0, 1)", "(1, 0)")),
    _fault("halves put one after the other", _MERGED, "return jnp.concatenate(done, axis=0)"),
    _fault("first half worked on twice", _HALVES, _HALVES.replace("(0, 1)", "(0, 0)")),
    _fault(
        "moved in bfloat16", _WAY, _WAY.replace("reshard(x,", "reshard(x.astype(jnp.bfloat16),") + ".astype(x.dtype)"
    ),
    _fault(
        "asserted in place of moved back",
        _CAME,
        _CAME.replace("reshard(", "lax.with_sharding_constraint("),
        _EMBEDDING,
        "error",
    ),
    _fault(
        "second half without its gradient",
        _HALVES,
        "(half.astype(wide) for half in (x[0::2], lax.stop_gradient(x[1::2])))",
        _GRADIENT,
    ),
    _fault(
        "sigmoid in the dtype of the input",
        _DONE,
        "jax.nn.sigmoid(half.astype(x.dtype) * scale.astype(x.dtype))",
        _EMBEDDING,
        "rounding",
    ),
)
