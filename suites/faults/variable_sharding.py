"""Faults around sharded variables: values that depend on the layout, lost gradients and checks."""

from __future__ import annotations

from samebits import Fault, Request


def _fault(
    name: str,
    side: str,
    old: str | tuple[str, ...],
    new: str | tuple[str, ...],
    case: str = "split",
    verdict: str = "different",
    direction: str = "forward",
) -> Fault:
    return Fault(
        name=name,
        pair="variable_sharding",
        side=side,
        old=old,
        new=new,
        request=Request(cases=(case,), directions=(direction,)),
        verdict=verdict,
    )


_PARAM_UP = 'self.up = nnx.Param(up, out_sharding=("embed", "mlp"), '
_PARAM_DOWN = 'self.down = nnx.Param(down, out_sharding=("mlp", "embed"), '
_AUTO = "return jax.lax.with_sharding_constraint(array, spec)"
_EXPLICIT = "return jax.reshard(array, spec)"
_CHECK = "if x.ndim != 2 or up.shape[:1] != x.shape[1:] or down.shape != up.shape[::-1]:"
_ENTRIES = 'entries = [RULES[name] for name in variable.get_metadata("out_sharding")]'

FAULTS = (
    _fault(
        "a kernel transposed to fit its names",
        "requested",
        _AUTO,
        "return jax.lax.with_sharding_constraint(array.T.reshape(array.shape), spec)",
    ),
    _fault(
        "a constraint that asserts in place of a reshard",
        "requested",
        _EXPLICIT,
        "return jax.lax.with_sharding_constraint(array, spec)",
        "pulled",
        "error",
    ),
    _fault(
        "names of dimensions taken for mesh axes",
        "requested",
        _ENTRIES,
        _ENTRIES.replace("RULES[name]", "name"),
        verdict="error",
    ),
    _fault("both dimensions over one axis", "requested", '"mlp": "tensor"}', '"mlp": "fsdp"}', verdict="error"),
    _fault("the variable is dropped where it is laid out", "requested", _AUTO, "return None", verdict="error"),
    _fault(
        "laid out in bfloat16",
        "requested",
        _AUTO,
        "return jax.lax.with_sharding_constraint(array.astype(jnp.bfloat16), spec).astype(array.dtype)",
    ),
    _fault(
        "kernels exchanged",
        "never",
        (_PARAM_UP, _PARAM_DOWN),
        (_PARAM_UP.replace("(up,", "(down.T,"), _PARAM_DOWN.replace("(down,", "(up.T,")),
    ),
    _fault(
        "gradient stopped where it is laid out",
        "requested",
        _EXPLICIT,
        "return jax.reshard(jax.lax.stop_gradient(array), spec)",
        "pulled",
        direction="gradient",
    ),
    _fault(
        "rows of a shard exchanged",
        "requested",
        _AUTO,
        "return jax.lax.with_sharding_constraint(jnp.roll(array, 1, 0), spec)",
        "moved",
    ),
    _fault(
        "no relu",
        "never",
        "jnp.matmul(nnx.relu(jnp.matmul(x, up)), down)",
        "jnp.matmul(jnp.matmul(x, up), down)",
        "moved",
    ),
    _fault("shapes are not looked at", "never", _CHECK, "if False:", "misfit"),
)
