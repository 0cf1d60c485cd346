"""Faults in experts of limited capacity: slots counted wrongly, assigned twice, or over the wrong tokens."""

from __future__ import annotations

from samebits import Fault, Request

_DROPS = Request(cases=("drops",), modes=("auto",), directions=("forward",))
_GRADIENT = Request(cases=("drops",), modes=("auto",), directions=("gradient",))
_EARLIER = "earlier = jnp.cumsum(asked, axis=1, dtype=jnp.int32) - asked"
_FITS = "(earlier[..., None] == jnp.arange(capacity))"
_SHARES = "weights[..., None, None].astype(wide)"


def _fault(name: str, old: str, new: str, request: Request = _DROPS, slow: bool = True) -> Fault:
    return Fault(name=name, pair="moe_capacity", side="dispatch_einsum", old=old, new=new, request=request, slow=slow)


FAULTS = (
    _fault("one place too few", _FITS, f"({_FITS} & (earlier[..., None] < capacity - 1))", slow=False),
    _fault(
        "the last to come are answered",
        _EARLIER,
        f"{_EARLIER.replace('asked, a', 'asked[:, ::-1], a')[:-8]}[:, ::-1] - asked",
    ),
    _fault(
        "places counted over tokens first",
        _EARLIER,
        "earlier = jnp.cumsum("
        "asked.reshape(ids.shape + (-1,)).swapaxes(1, 2).reshape(asked.shape), 1, dtype=jnp.int32)"
        ".reshape(batch, top_k, seq, -1).swapaxes(1, 2).reshape(asked.shape) - asked",
    ),
    _fault(
        "places counted over all sequences",
        _EARLIER,
        "earlier = (jnp.cumsum(asked.reshape(-1, experts), axis=0, dtype=jnp.int32)"
        " - asked.reshape(-1, experts)).reshape(asked.shape)",
    ),
    _fault(
        "a token too many shares the last place",
        _FITS,
        "(jnp.minimum(earlier, capacity - 1)[..., None] == jnp.arange(capacity))",
    ),
    _fault(
        "capacity not rounded up",
        "share = math.ceil(ids.shape[1] * ids.shape[2] / w_gate.shape[0])",
        "share = ids.shape[1] * ids.shape[2] // w_gate.shape[0] - 1",
    ),
    _fault("weights without a gradient", _SHARES, f"jax.lax.stop_gradient({_SHARES})", _GRADIENT, slow=False),
    _fault(
        "weights of what is left renormalised",
        _SHARES,
        f"({_SHARES} / jnp.maximum(places.any((-2, -1)).sum(-1), 1)[..., None, None, None] * top_k)",
    ),
)
