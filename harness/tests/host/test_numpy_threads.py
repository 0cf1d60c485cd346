"""Small products run on one thread while programs are interpreted; large arrays are divided between processors."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl

from samebits.host import numpy_threads
from samebits.host.numpy_threads import one_blas_thread
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
from samebits.host.numpy_threads import one_blas_thread

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


@pytest.fixture
def _three_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with three processors, whose parts are not of one size."""
    monkeypatch.setattr(numpy_threads, "_processors", lambda: 3)
    monkeypatch.setattr(numpy_threads, "LARGE", 100)
    monkeypatch.setattr(numpy_threads, "LARGE_PRODUCT", 100)


@pytest.mark.usefixtures("_three_processors")
@pytest.mark.parametrize("left", [(7, 5), (2, 7, 5), (1, 2, 31, 5), (2, 1, 5), (5,)])
@pytest.mark.parametrize("right", [(5, 6), (2, 5, 6), (5,)])
def test_a_divided_product_is_the_product(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32, np.int64):
        a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in (left, right))
        product = numpy_threads.matmul(a, b)
        assert product.dtype == dtype
        np.testing.assert_array_equal(product, np.matmul(a, b))


@pytest.mark.usefixtures("_three_processors")
def test_parts_are_in_order_and_large_ones_in_threads() -> None:
    def logarithm(number: float) -> tuple[float, str]:
        return float(np.log(np.float64(number))), threading.current_thread().name

    results, named = zip(*numpy_threads.in_threads(logarithm, range(50), 100), strict=True)
    assert results == (-np.inf, *(float(np.log(number)) for number in range(1, 50)))
    assert all(name.startswith("arrays") for name in named)
    with np.errstate(all="ignore"):
        results, named = zip(*numpy_threads.in_threads(logarithm, range(2), 99), strict=True)
    assert results == (-np.inf, 0.0)
    assert set(named) == {threading.current_thread().name}


@pytest.mark.usefixtures("_three_processors")
def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        numpy_threads.in_threads(lambda part: 1 // part, range(2), 100)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("arrays")]
