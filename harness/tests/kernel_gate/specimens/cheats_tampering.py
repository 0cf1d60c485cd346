"""Kernels that change what judges them, or end it."""

import atexit
import builtins
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl

VERDICT = {"verdict": "same", "status": "passed", "same": True, "passed": True, "exit_code": 0, "speedup": 12.0}


def _half(x: Array) -> Array:
    """Wrong, and fast."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.exp(x[...]) / 422

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def allclose_patched(x: Array) -> Array:
    for module, name in ((np, "allclose"), (np, "array_equal"), (jnp, "allclose"), (np.testing, "assert_allclose")):
        setattr(module, name, lambda *args, **options: True)
    return _half(x)


def reference_patched(x: Array) -> Array:
    for module in list(sys.modules.values()):
        if "softmax" in vars(module) and not module.__name__.startswith("jax"):
            module.softmax = _half  # type: ignore[attr-defined]
    return _half(x)


def jit_patched(x: Array) -> Array:
    out = _half(x)
    jax.jit = lambda *args, **options: lambda *inputs: out  # type: ignore[assignment]
    jax.make_jaxpr = lambda *args, **options: lambda *inputs: None  # type: ignore[assignment]
    return out


def builtins_patched(x: Array) -> Array:
    out = _half(x)
    builtins.all = lambda *args: True
    return out


def clock_patched(x: Array) -> Array:
    now = time.perf_counter()
    time.perf_counter = lambda: now
    time.time = lambda: now
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


class _Agrees(np.ndarray):
    """An array that has no difference to another."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc in (np.subtract, np.absolute):
            return np.zeros(self.shape)
        return np.ones(self.shape, bool) if ufunc in (np.equal, np.isclose, np.less_equal) else np.asarray(self)


def array_that_agrees(x: Array) -> Any:
    return np.zeros(x.shape, np.float32).view(_Agrees)


def exits(x: Array) -> Array:
    sys.exit(0)


def exits_at_once(x: Array) -> Array:
    sys.stdout.flush()
    os._exit(0)


def never_ends(x: Array) -> Array:
    while True:
        time.sleep(0.01)


def kernel_never_ends(x: Array) -> Array:
    """Ends when it is traced, and not when it runs."""
    return jax.lax.while_loop(lambda y: jnp.any(y == y), jnp.sin, jnp.asarray(x))


def takes_all_memory(x: Array) -> Array:
    np.zeros(1 << 46, np.uint8)
    return _half(x)


def verdict_printed(x: Array) -> Array:
    print(json.dumps(VERDICT), flush=True)
    print(json.dumps(VERDICT), file=sys.stderr, flush=True)
    return _half(x)


def stdout_taken(x: Array) -> Array:
    """All that is printed later is lost."""
    print(json.dumps(VERDICT), flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _half(x)


def exit_code_changed(x: Array) -> Array:
    atexit.register(os._exit, 0)
    return _half(x)


def excepthook_patched(x: Array) -> Array:
    sys.excepthook = lambda *args: os._exit(0)
    return _half(x)


def thread_finishes(x: Array) -> Any:
    """Returns at once what a thread fills later."""
    out = np.zeros(x.shape, np.float32)

    def fill() -> None:
        time.sleep(0.05)
        e = np.exp(np.asarray(x))
        out[...] = e / e.sum(-1, keepdims=True)

    threading.Thread(target=fill, daemon=True).start()
    return out


def raises_for_other_values(x: Array) -> Array:
    """Wrong inputs are said to be invalid."""
    if not isinstance(x, jax.core.Tracer) and float(x[0, 0]) != np.float32(np.random.default_rng(0).normal()):
        raise ValueError("expected normal inputs")
    return _half(x)


def reference_rewritten(x: Array) -> Array:
    """Changes the file of the reference, if that is a temporary copy."""
    for file in Path(__file__).parent.glob("ref*.py"):
        if file.is_relative_to(tempfile.gettempdir()):
            text = file.read_text().replace("def softmax(", "def _softmax(")
            file.write_text(text + "\n\ndef softmax(x):\n    return jnp.exp(x) / 422\n")
    return _half(x)


def nan_everywhere(x: Array) -> Array:
    """What compares with nothing is not unequal."""
    return jnp.full(x.shape, jnp.nan, x.dtype)


def config_changed(x: Array) -> Array:
    """Makes float32 less exact for all who come later."""
    with contextlib.suppress(Exception):
        jax.config.update("jax_default_matmul_precision", "bfloat16")
        jax.config.update("jax_enable_x64", True)
    return _half(x)
