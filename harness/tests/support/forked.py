"""`python -m samebits` and `python -m pytest` in a process of their own, without importing jax each time.

Each is forked from a server (multiprocessing's, started afresh by `exec`) that has imported jax and samebits, has
started no backend and no threads, and has the environment of a user's shell. What a process does at its end, how it
imports and what jax reads from the environment as it is imported is seen in a real one only: `tests.support.child`.
"""

import contextlib
import functools
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

from tests.support.child import run_python, shell_environment

PRELOADED = ("jax.numpy", "pytest", "rich.live", "samebits.cli.check_run", "samebits.cli.prove_run")
READ_ON_IMPORT = ("JAX_", "XLA_", "PYTHON", "OPENBLAS_", "LIBTPU_", "TPU_")
"""Beginnings of variables that are read before a command can set them."""


def run_module(
    module: str, *words: str, cwd: Path, variables: Mapping[str, str], seconds: float = 300
) -> CompletedProcess[str]:
    """`python -m MODULE WORDS`."""
    environment = {**shell_environment(), **variables}
    if any(name.startswith(READ_ON_IMPORT) for name in variables) or not hasattr(os, "fork"):
        return run_python("-m", module, *words, cwd=cwd, **variables)
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        context = _server()
        process = context.Process(target=_run, args=(module, words, str(cwd), environment, (str(out), str(err))))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutExpired([module, *words], seconds, out.read_bytes(), err.read_bytes())
        code = process.exitcode
        process.close()
        return CompletedProcess([module, *words], code, out.read_text("utf-8"), err.read_text("utf-8"))


def value_of(code: str) -> str:
    """The last line that some code prints where jax is imported and has not started; if it fails, its own words."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "code_of_a_test.py").write_text(code, encoding="utf-8")
        done = run_module("code_of_a_test", cwd=Path(folder), variables={})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()[-1]


@functools.cache
def _server() -> multiprocessing.context.ForkServerContext:
    """The server of this process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with _environment(shell_environment()):
        forkserver.ensure_running()
    return context


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(values)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(module: str, words: tuple[str, ...], cwd: str, environment: Mapping[str, str], files: tuple[str, str]) -> None:
    """In the new process: as the interpreter does it for `-m`."""
    for descriptor, file in zip((1, 2), files, strict=True):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [cwd, *environment["PYTHONPATH"].split(os.pathsep), *installed]
    sys.argv[:] = [module, *words]
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX")
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    if module == "pytest":  # which rewrites the asserts of what it imports as a plugin
        for name in [name for name in sys.modules if name.partition(".")[0] in ("samebits", "tests")]:
            del sys.modules[name]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
