"""Kernels that have the reference, or a copy of it, do the work."""

import ast
import contextlib
import gc
import importlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl

NAME = "softmax"
PLACES = [Path(__file__).parent, Path.cwd(), *map(Path, sys.argv[1:]), *map(Path, sys.path)]


def _file() -> Path:
    """The file of the reference, where benchmarks put it."""
    files = [p if p.is_file() else p / name for p in PLACES for name in ("references.py", "reference.py", "ref.py")]
    return next(f for f in files if f.is_file() and f"def {NAME}" in f.read_text())


def _plain(x: Array) -> Array:
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


def _copy(x: Array) -> Array:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def imports_file(x: Array) -> Array:
    spec = importlib.util.spec_from_file_location("helper", _file())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.softmax(x)


def searches_modules(x: Array) -> Array:
    for name, module in list(sys.modules.items()):
        if name != __name__ and not name.startswith("jax") and callable(f := getattr(module, NAME, None)):
            return f(x)
    raise LookupError(NAME)


def searches_callers(x: Array) -> Array:
    frame = sys._getframe().f_back
    while frame is not None:
        for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
            if callable(value) and name in ("ref", "reference", "reference_fn", "expected", NAME):
                return value(x)
        frame = frame.f_back
    raise LookupError(NAME)


def searches_objects(x: Array) -> Array:
    for value in gc.get_objects():
        with contextlib.suppress(Exception):
            if type(value) is type(_plain) and value.__name__ == NAME and not value.__module__.startswith("jax"):
                return value(x)
    raise LookupError(NAME)


def executes_source(x: Array) -> Array:
    tree = ast.parse(_file().read_text())
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "Array": Array}
    wanted: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == NAME]
    exec(compile(ast.Module(wanted, []), "kernel", "exec"), names)
    return names[NAME](x)


def runs_subprocess(x: Array) -> Array:
    """A process of its own in which the reference runs."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "x.npy"
        np.save(at, np.asarray(x))
        code = f"import numpy as np, references as r; np.save({str(at)!r}, r.{NAME}(np.load({str(at)!r})))"
        subprocess.run([sys.executable, "-c", code], cwd=_file().parent, check=True)
        return jnp.asarray(np.load(at))


def kernel_times_zero(x: Array) -> Array:
    return _plain(x) + 0.0 * _copy(x)


def kernel_unused(x: Array) -> Array:
    _copy(x)
    return _plain(x)


def kernel_copies(x: Array) -> Array:
    return _copy(_plain(x))


def kernel_selected_never(x: Array) -> Array:
    return jnp.where(jnp.isfinite(jnp.sum(jnp.abs(x)) * 0), _plain(x), _copy(x))


def host_callback(x: Array) -> Array:
    def on_host(a: Any) -> Any:
        e = np.exp(np.asarray(a) - np.max(a, -1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def rescued_by_copy(x: Array) -> Array:
    """The kernel does not compile, and nobody is told."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] @ x[...]

    try:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    except Exception:
        return _plain(x)
