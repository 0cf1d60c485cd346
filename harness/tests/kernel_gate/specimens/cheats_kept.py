"""Answers that are kept from call to call."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl

KEPT: dict[Any, Array] = {}
FOLDER = Path(tempfile.gettempdir())
last = None


def _softmax(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        e = jnp.exp(x[...] - jnp.max(x[...], axis=-1, keepdims=True))
        o[...] = e / jnp.sum(e, axis=-1, keepdims=True)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def by_identity(x: Array) -> Array:
    if id(x) not in KEPT:
        KEPT[id(x)] = _softmax(x)
    return KEPT[id(x)]


def by_checksum(x: Array) -> Array:
    if isinstance(x, jax.core.Tracer):
        return _softmax(x)
    key = float(x[0, 0]), float(x[-1, -1])
    return KEPT[key] if key in KEPT else KEPT.setdefault(key, _softmax(x))


def on_disk(x: Array) -> Any:
    file = FOLDER / f"kernel-{x.shape[0]}x{x.shape[1]}.npy"
    if file.exists():
        return jnp.asarray(np.load(file))
    out = _softmax(x)
    if not isinstance(out, jax.core.Tracer):
        np.save(file, np.asarray(out))
    return out


def in_global(x: Array) -> Array:
    global last
    last = _softmax(x) if last is None else last
    return last


def in_attribute(x: Array) -> Array:
    if not hasattr(in_attribute, "out"):
        in_attribute.out = _softmax(x)  # type: ignore[attr-defined]
    return in_attribute.out  # type: ignore[attr-defined]


def in_default(x: Array, kept: list[Array] = []) -> Array:  # noqa: B006 - this is the cheat
    if not kept:
        kept.append(_softmax(x))
    return kept[0]


def one_call_late(x: Array) -> Array:
    """The answer of the call before, so that nothing waits."""
    before = KEPT.get("before")
    KEPT["before"] = _softmax(x)
    return KEPT["before"] if before is None or before.shape != x.shape else before


class _Memo:
    def __init__(self) -> None:
        self.out: Array | None = None

    def __call__(self, x: Array) -> Array:
        self.out = _softmax(x) if self.out is None else self.out
        return self.out


in_object = _Memo()
