"""Products of matrices run on one thread while programs are interpreted, and on as many as before otherwise."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl

from samebits.host.blas_threads import one_blas_thread
from samebits.interpret.alignment import align as aligned
from samebits.interpret.equation import Step
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle

PRODUCT = jax.make_jaxpr(jnp.matmul)(jax.ShapeDtypeStruct((2, 2), np.float32), jax.ShapeDtypeStruct((2, 2), np.float32))


def threads() -> set[int]:
    """On how many threads the BLAS libraries of this process run."""
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """As on a machine with two processors, on each machine."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert threads() == {2}
        yield


def test_one_thread_inside_and_as_many_as_before_outside() -> None:
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}, "the inner one has restored what the outer one needs"
    assert threads() == {2}


def test_an_error_restores_them() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert threads() == {2}


LATER = """
import numpy, threadpoolctl
from samebits.host.blas_threads import one_blas_thread

def blas(): return {each["filepath"]: each["num_threads"] for each in threadpoolctl.threadpool_info()
                    if each["user_api"] == "blas"}

with one_blas_thread():
    blas()
import scipy.linalg
with threadpoolctl.threadpool_limits(2, user_api="blas"), one_blas_thread():
    both = blas()
print(set(both.values()))
"""


def test_libraries_that_are_loaded_later_count() -> None:
    """SciPy brings a BLAS of its own."""
    ended = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "{1}"


class Watching(Oracle):
    """Tells on how many threads it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[set[int]] = []

    def apply(self, step: Step, values: Sequence[Any]) -> list[Any]:
        self.seen.append(threads())
        return super().apply(step, values)


def test_programs_are_interpreted_on_one_thread() -> None:
    watching = Watching()
    Interpreter(watching)(PRODUCT, np.eye(2), np.eye(2))
    assert watching.seen == [{1}] and threads() == {2}


def test_lines_are_named_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by interpreting parts of the programs again."""
    monkeypatch.setattr(aligned, "named", lambda *_: threads())
    alignment = object.__new__(aligned.Alignment)
    alignment._sides, alignment._places = {True: (None, None)}, {}  # type: ignore[dict-item]
    assert alignment.lines(0) == {1} and threads() == {2}  # type: ignore[comparison-overlap]
