"""Programs with complex inputs or outputs as programs of their parts, along one more dimension of two.

So whatever asks about a program's inputs and outputs sees real numbers, as `numerics.floats.parts` gives them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun


@functools.lru_cache(maxsize=256)
def real_program(closed: Any) -> Any:
    """A closed jaxpr whose complex inputs and outputs are pairs of reals; the same object where there are none."""
    if not any(_is_complex(aval) for aval in (*closed.in_avals, *closed.out_avals)):
        return closed

    def of_parts(*args: Any) -> list[Any]:
        joined = [
            jax.lax.complex(arg[..., 0], arg[..., 1]) if _is_complex(aval) else arg
            for arg, aval in zip(args, closed.in_avals, strict=True)
        ]
        outputs = jaxpr_as_fun(closed)(*joined)
        return [jnp.stack([jnp.real(out), jnp.imag(out)], -1) if _is_complex(out) else out for out in outputs]

    with jax.enable_x64(True):
        return jax.make_jaxpr(of_parts)(*map(_parted, closed.in_avals))


def _is_complex(aval: Any) -> bool:
    return bool(jnp.issubdtype(aval.dtype, jnp.complexfloating))


def _parted(aval: Any) -> jax.ShapeDtypeStruct:
    if not _is_complex(aval):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    real = jnp.finfo(aval.dtype).dtype
    return jax.ShapeDtypeStruct((*aval.shape, 2), real)
