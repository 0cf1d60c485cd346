"""Faults in the cast of gradients: leaves that are not cast or should not be, norms and clips of something else."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str, dtype: str = "float32") -> Request:
    return Request(cases=(case,), dtypes=(dtype,))


_NARROW, _CLIPPED = _request("narrow"), _request("clipped")
_GUARD = "if jnp.dtype(grad_dtype) != jnp.float32:"
_MAP = "gradients = jax.tree.map(lambda leaf: _narrow(leaf, grad_dtype), gradients)"
_LEAF = "return leaf.astype(grad_dtype) if leaf.dtype == jnp.float32 else leaf"
_ROOT = "return jnp.sqrt(functools.reduce(operator.add, (jnp.sum(jnp.square(leaf)) for leaf in wide)))"
_NORM = "    norm = _norm(gradients)\n    return {**_clipped(gradients, norm, max_norm), "
_CLIP = "jnp.where(norm < max_norm, leaf, leaf / norm.astype(leaf.dtype) * max_norm)"
_LAST = "return {**jax.tree.map(lambda leaf: _narrow(leaf, grad_dtype), found), "


def _fault(name: str, old: str, new: str, request: Request = _NARROW, verdict: str = "different") -> Fault:
    return Fault(name=name, pair="grad_cast", side="guarded", old=old, new=new, request=request, verdict=verdict)


def _clip_first(name: str, old: str, new: str, request: Request = _CLIPPED) -> Fault:
    return Fault(name=name, pair="grad_cast", side="clip_first", old=old, new=new, request=request)


FAULTS = (
    _fault("guard on another dtype", _GUARD, _GUARD.replace("float32", "bfloat16")),
    _fault("guard on the dtype of one leaf", _GUARD, "if kernel.dtype == jnp.float32:", _request("narrow", "bfloat16")),
    _fault("cast and thrown away", _MAP, _MAP.removeprefix("gradients = ")),
    # Closer to float64 than the reference: only the bits tell.
    _fault(
        "norm of what came in",
        _NORM,
        _NORM.replace("_norm(gradients)", '_norm({"k": kernel, "s": scale})'),
        verdict="rounding",
    ),
    _fault(
        "squares in the dtype of the gradient",
        _ROOT,
        "return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in gradients.values())).astype(jnp.float32)",
        verdict="rounding",
    ),
    _fault(
        "norm rounded to bfloat16",
        _NORM,
        _NORM.replace("_norm(gradients)", "_norm(gradients).astype(jnp.bfloat16).astype(jnp.float32)"),
        verdict="rounding",
    ),
    _fault("every leaf clipped by its own norm", _CLIP, _CLIP.replace("norm.", "jnp.linalg.norm(leaf)."), _CLIPPED),
    _fault("scaled up below the limit", _CLIP, "leaf / norm.astype(leaf.dtype) * max_norm", _request("below")),
    # The same formulas: a tolerance passes it, and so does the error against float64, which is smaller.
    _fault(
        "clipped in float32 and rounded again",
        _CLIP,
        "jnp.where(norm < max_norm, leaf, (leaf / norm * max_norm).astype(leaf.dtype))",
        _CLIPPED,
        "rounding",
    ),
    _clip_first("not cast at all", _LAST, "return {**found, "),
    _clip_first("bfloat16 gradients widened", _LEAF, "return leaf.astype(grad_dtype)", _request("kept", "bfloat16")),
    _clip_first("clipped twice", _LAST, _LAST.replace("found)", "_clipped(found, norm, max_norm))"), _CLIPPED),
    _clip_first(
        "rounded to five bits", _LAST, _LAST.replace("_narrow(leaf,", "_narrow(jax.lax.reduce_precision(leaf, 8, 4),")
    ),
    _clip_first(
        "norm added up in bfloat16",
        _ROOT,
        "return jnp.sqrt(sum(jnp.sum(jnp.square(leaf).astype(jnp.bfloat16)) for leaf in wide)).astype(jnp.float32)",
    ),
)
