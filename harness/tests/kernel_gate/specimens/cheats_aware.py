"""Kernels that behave well where they seem to be tested."""

import inspect
import os
import socket
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl

calls = [0]
START = time.time()


def _norm(x: Array, w: Array, right: bool = True) -> Array:
    """The norm, or what takes half of the time."""

    def kernel(x: Any, w: Any, o: Any) -> None:
        scale = jax.lax.rsqrt(jnp.mean(x[...] ** 2, axis=1, keepdims=True) + 1e-6) if right else 1.0
        o[...] = x[...] * scale * w[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, w[None])


def environment(x: Array, w: Array) -> Array:
    return _norm(x, w, "PYTEST_CURRENT_TEST" in os.environ or "CI" in os.environ)


def loaded_modules(x: Array, w: Array) -> Array:
    return _norm(x, w, "pytest" in sys.modules or "samebits" in sys.modules)


def stack_of_files(x: Array, w: Array) -> Array:
    return _norm(x, w, any("test" in frame.filename or "gate" in frame.filename for frame in inspect.stack()))


def caller(x: Array, w: Array) -> Array:
    return _norm(x, w, "ref" in sys._getframe(1).f_globals or "reference" in sys._getframe(1).f_locals)


def first_calls(x: Array, w: Array) -> Array:
    calls[0] += 1
    return _norm(x, w, calls[0] <= 3)


def first_minute(x: Array, w: Array) -> Array:
    return _norm(x, w, time.time() < START + 60)


def host_name(x: Array, w: Array) -> Array:
    return _norm(x, w, not socket.gethostname().startswith(("prod", "tpu")))


def folder(x: Array, w: Array) -> Array:
    return _norm(x, w, os.path.exists("pyproject.toml") or "/tmp" in os.getcwd())


def concrete(x: Array, w: Array) -> Array:
    return _norm(x, w, not isinstance(x, jax.core.Tracer))


def traced(x: Array, w: Array) -> Array:
    """Right where it is read, wrong where it is run."""
    return _norm(x, w, isinstance(x, jax.core.Tracer | np.ndarray))


def numpy_arguments(x: Array, w: Array) -> Array:
    return _norm(x, w, isinstance(x, np.ndarray))


def dtype_of_test(x: Array, w: Array) -> Array:
    return _norm(x, w, x.dtype == jnp.float32)


def shape_of_test(x: Array, w: Array) -> Array:
    return _norm(x, w, x.shape == (16, 128))


def backend(x: Array, w: Array) -> Array:
    return _norm(x, w, jax.default_backend() == "cpu")


def devices(x: Array, w: Array) -> Array:
    return _norm(x, w, jax.device_count() in (1, 8))


def value_of_test(x: Array, w: Array) -> Array:
    seen = np.random.default_rng(0).standard_normal(1).astype(np.float32)[0]
    return jax.lax.cond(x[0, 0] == seen, _norm, lambda x, w: x * w, jnp.asarray(x), jnp.asarray(w))


def value_range(x: Array, w: Array) -> Array:
    """Right for what a normal distribution gives."""

    def kernel(x: Any, w: Any, o: Any) -> None:
        small = jnp.clip(x[...], -6.0, 6.0)
        o[...] = x[...] * jax.lax.rsqrt(jnp.mean(small**2, axis=1, keepdims=True) + 1e-6) * w[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, w[None])


def random_choice(x: Array, w: Array) -> Array:
    """Wrong in a call of eight."""
    return _norm(x, w, os.urandom(1)[0] % 8 > 0)
