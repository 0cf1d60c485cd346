"""Faults in the cross entropy: cotangents and terms left out of a derivative, ignored tokens, short sums."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, direction: str) -> Request:
    return Request(cases=(case,), modes=("auto",), directions=(direction,))


_Z_LOSS, _MASKED = _request("z_loss", "forward"), _request("masked", "forward")
_COTANGENTS = 'jnp.where(counted, pulled["loss"], 0), jnp.where(counted, pulled["log_z"], 0)'
_NORMALISER = "to_token * (1 + 2 * z_loss * log_z) + to_log_z"
_COUNTED = "counted = (targets >= 0) & (targets < kernel.shape[1])"
_TOP = "top = jax.lax.stop_gradient(jnp.max(logits, axis=-1))"
_TO_KERNEL = "to_kernel = to_kernel + jnp.einsum("
_JOINED = "jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1, *x.shape[3:])"


def _forward(name: str, old: str, new: str, request: Request = _Z_LOSS, kind: str | None = None) -> Fault:
    return Fault(name=name, pair="cross_entropy", side="chunked", old=old, new=new, request=request, kind=kind)


def _gradient(name: str, old: str, new: str, case: str = "z_loss", verdict: str = "different") -> Fault:
    side, request = "chunked_custom_gradient", _request(case, "gradient")
    return Fault(name=name, pair="cross_entropy", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _forward("largest logit not subtracted", _TOP, "top = jnp.zeros(targets.shape, wide)", _MASKED, "NaN vs number"),
    _forward(
        "normaliser not squared",
        "(entropy + z_loss * jnp.square(log_z))\n    return {",
        "(entropy + z_loss * log_z)\n    return {",
    ),
    _forward("ignored tokens counted", _COUNTED, "counted = targets == targets", _MASKED),
    _forward("token 0 ignored", _COUNTED, _COUNTED.replace(">=", ">")),
    _forward("targets off by one", "== jnp.arange(kernel.shape[1])", "== 1 + jnp.arange(kernel.shape[1])"),
    _forward("weights left out", "loss = tokens[2].astype(shifted.dtype) * (", "loss = 1 * ("),
    _forward("parts joined across the batch", _JOINED, "x.reshape(x.shape[1], -1, *x.shape[3:])"),
    _forward(
        "logits rounded to bfloat16",
        "return logits - top[..., None]",
        "logits = jax.lax.reduce_precision(logits, 8, 7)\n    return logits - top[..., None]",
    ),
    _forward(
        "error for uneven parts forgotten",
        "if chunks < 1 or hidden.shape[1] % chunks:",
        "chunks = 1\n    if False:",
        _request("indivisible", "*"),
    ),
    _gradient("cotangent of the loss taken as 1", _COTANGENTS, _COTANGENTS.replace('pulled["loss"]', "1.0")),
    _gradient(
        "z-loss twice where it is differentiated",
        "return _own(z_loss, chunks, *arguments), arguments",
        "return _own(2 * z_loss, chunks, *arguments), arguments",
    ),
    _gradient("cotangents clipped at 50", _COTANGENTS, _COTANGENTS.replace('["loss"]', '["loss"].clip(-50, 50)')),
    _gradient("cotangent of log_z ignored", _NORMALISER, _NORMALISER.replace(" + to_log_z", "")),
    _gradient("z-loss left out of the derivative", _NORMALISER, _NORMALISER.replace("(1 + 2 * z_loss * log_z)", "1")),
    _gradient("z-loss without its factor of 2", _NORMALISER, _NORMALISER.replace("2 * ", "")),
    _gradient("ignored tokens pull", _COTANGENTS, 'pulled["loss"], jnp.where(counted, pulled["log_z"], 0)', "masked"),
    _gradient("kernel's gradient of the last part alone", _TO_KERNEL, "to_kernel = jnp.einsum("),
    _gradient(
        "kernel's gradient added up in bfloat16",
        _TO_KERNEL,
        "to_kernel = jax.lax.reduce_precision(to_kernel, 8, 7) + jnp.einsum(",
        "masked",
        "rounding",
    ),
    _gradient(
        "gradient of the weights without z-loss",
        "to_weights = to_loss * (entropy + ",
        "to_weights = to_loss * (entropy + 0 * ",
    ),
)
