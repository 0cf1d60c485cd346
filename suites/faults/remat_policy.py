"""Faults in a recomputed stack that show in values; those of the policy alone are planted in the pair's own suite."""

from __future__ import annotations

from samebits import Fault, Request


def _request(case: str) -> Request:
    return Request(cases=(case,))


_SCANNED, _WRITTEN = _request("scanned"), _request("written_out")
_INPUT = 'state = checkpoint_name(state + feed, "iteration_input")'
_LAYERS = "return lax.scan(_layer, state, tuple(weights))[0], None"
_LAYER_INPUT = 'x = checkpoint_name(x, "decoder_layer_input")'
_NORM = "lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)"
_OUT = "return x + _product(hidden, down), None"
_HIDDEN = "jnp.square(jax.nn.relu(_product(normed.astype(x.dtype) * scale, up)))"


def _fault(
    name: str,
    old: str,
    new: str,
    request: Request = _SCANNED,
    verdict: str = "different",
    side: str = "iteration_input_only",
) -> Fault:
    return Fault(name=name, pair="remat_policy", side=side, old=old, new=new, request=request, verdict=verdict)


FAULTS = (
    _fault(
        "layers twice", _LAYERS, _LAYERS.replace("state, tuple", "lax.scan(_layer, state, tuple(weights))[0], tuple")
    ),
    # Right going forward: what is kept is cut off from the gradient.
    _fault(
        "gradient stopped at what is kept",
        _LAYER_INPUT,
        'x = checkpoint_name(lax.stop_gradient(x), "decoder_layer_input")',
        side="offloaded",
    ),
    _fault("feed left out behind the name", _INPUT, 'state = checkpoint_name(state, "iteration_input")'),
    _fault(
        "name takes the sum to bfloat16",
        _LAYER_INPUT,
        _LAYER_INPUT.replace("(x,", "(x.astype(jnp.bfloat16).astype(x.dtype),"),
    ),
    _fault(
        "layers from the last to the first",
        _LAYERS,
        _LAYERS.replace("tuple(weights))", "tuple(weights), reverse=True)"),
    ),
    _fault("residual left out", _OUT, "return _product(hidden, down), None", side="offloaded"),
    _fault("another epsilon", _NORM, _NORM.replace("1e-6", "1e-5")),
    _fault("mean over the tokens", _NORM, _NORM.replace("axis=-1", "axis=0")),
    _fault("activation not squared", _HIDDEN, _HIDDEN.replace("jnp.square", "")),
    _fault("norm of what has no scale", _HIDDEN, _HIDDEN.replace(" * scale", ""), side="offloaded"),
    _fault(
        "last iteration left out",
        "for i in range(x.shape[0]):",
        "for i in range(x.shape[0] - 1):",
        _WRITTEN,
        side="nothing_saved",
    ),
    _fault(
        "weights of the first iteration in all",
        "(x[i], scale[i], up[i], down[i])",
        "(x[i], scale[i], up[0], down[i])",
        _WRITTEN,
        side="everything_saved",
    ),
    _fault("state from the first feed", "state = jnp.zeros_like(x[0])", "state = x[0]", _WRITTEN, side="nothing_saved"),
)
