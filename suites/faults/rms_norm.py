"""Faults in RMSNorm, among them those that no tolerance for bfloat16 sees."""

from __future__ import annotations

from samebits import Fault, Request

_DEFAULT = Request(cases=("default",), dtypes=("float32",), meshes=("data8",), modes=("auto",))
_BF16 = Request(cases=("default",), dtypes=("bfloat16",), meshes=("data8",), modes=("auto",))
_OFFSET = Request(cases=("qwen",), dtypes=("float32",), modes=("auto",))
_FAINT = Request(cases=("faint",), dtypes=("bfloat16",), modes=("auto",))
_GRADIENT = Request(
    cases=("default",), dtypes=("bfloat16",), meshes=("data8",), modes=("auto",), directions=("gradient",)
)
_NORMALISED = "    return (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(x.dtype)"
_MEAN = "    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)"
_PRODUCT = "    return normalised * _effective(x, scale, scale_offset)"
_PULLED = "    to_normalised, to_scale = pull(_widen(cotangent))"
_RETURNED = "    return to_normalised.astype(normalised.dtype), _split(to_scale.astype(scale.dtype), scale, axis=0)"


def _fault(
    name: str,
    old: str,
    new: str,
    request: Request = _DEFAULT,
    side: str = "multiply",
    *,
    kind: str | None = None,
    verdict: str = "different",
) -> Fault:
    return Fault(name=name, pair="rms_norm", side=side, old=old, new=new, request=request, kind=kind, verdict=verdict)


FAULTS = (
    _fault("epsilon 1e-5 for 1e-6, float32", _NORMALISED, _NORMALISED.replace("+ epsilon", "+ 1e-5")),
    _fault("epsilon 1e-5 for 1e-6, bfloat16", _NORMALISED, _NORMALISED.replace("+ epsilon", "+ 1e-5"), _FAINT),
    _fault("epsilon dropped", _NORMALISED, _NORMALISED.replace(" + epsilon", "")),
    _fault(
        "epsilon outside the root",
        _NORMALISED,
        _NORMALISED.replace("jax.lax.rsqrt(mean_square + epsilon)", "(1 / (jnp.sqrt(mean_square) + epsilon))"),
    ),
    _fault(
        "mean over n - 1",
        _MEAN,
        _MEAN.replace(
            "jnp.mean(jnp.square(wide), axis=-1, keepdims=True)",
            "jnp.sum(jnp.square(wide), axis=-1, keepdims=True) / (x.shape[-1] - 1)",
        ),
    ),
    _fault(
        "mean subtracted, as in LayerNorm", _MEAN, "    wide = wide - jnp.mean(wide, axis=-1, keepdims=True)\n" + _MEAN
    ),
    _fault("mean over the wrong axis", _MEAN, _MEAN.replace("axis=-1", "axis=-2")),
    _fault(
        "squares summed in bfloat16",
        _MEAN,
        _MEAN.replace("jnp.square(wide)", "jnp.square(wide.astype(jnp.bfloat16))"),
        _DEFAULT,
    ),
    _fault("offset forgotten", "narrow + scale_offset if scale_offset else narrow", "narrow", _OFFSET),
    _fault(
        "offset added in bfloat16",
        "narrow + scale_offset if scale_offset else narrow",
        "(narrow.astype(jnp.bfloat16) + jnp.bfloat16(scale_offset)).astype(x.dtype)",
        _OFFSET,
    ),
    _fault(
        "scaled before it is rounded",
        _PRODUCT,
        "    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))\n"
        "    root = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + epsilon)\n"
        "    return (wide * root * _effective(x, scale, scale_offset)).astype(x.dtype)",
        _BF16,
        verdict="rounding",
    ),
    _fault(
        "output widened to float32",
        _PRODUCT,
        _PRODUCT + ".astype(jnp.promote_types(x.dtype, jnp.float32))",
        _BF16,
        kind="dtype",
    ),
    _fault("scale of one column used for all", _PRODUCT, _PRODUCT.replace("scale_offset)", "scale_offset)[:1]")),
    _fault(
        "gradient not scaled by the cotangent",
        _PULLED,
        "    to_normalised, to_scale = pull(jnp.ones_like(_widen(cotangent)))",
        _GRADIENT,
        "multiply_accurate",
    ),
    _fault(
        "gradient of the scale dropped to zeros",
        _RETURNED,
        _RETURNED.replace("to_scale.astype(scale.dtype)", "(to_scale * 0).astype(scale.dtype)"),
        _GRADIENT,
        "multiply_accurate",
    ),
    _fault(
        "gradient of the scale rounded to four bits",
        _RETURNED,
        _RETURNED.replace("to_scale.astype", "jax.lax.reduce_precision(to_scale, 8, 4).astype"),
        _GRADIENT,
        "multiply_accurate",
    ),
    Fault(
        name="bits that change from run to run",
        pair="rms_norm",
        side="multiply",
        old=_PRODUCT,
        new="    import time\n"
        "    noise = jax.pure_callback(\n"
        "        lambda: jnp.asarray(time.perf_counter_ns() % 977, x.dtype).__array__(),\n"
        "        jax.ShapeDtypeStruct((), x.dtype),\n"
        "    )\n" + _PRODUCT + " + jax.lax.stop_gradient(noise)",
        request=Request(
            cases=("default",), dtypes=("float32",), meshes=("data1",), modes=("auto",), directions=("forward",)
        ),
        verdict="unstable",
    ),
)
