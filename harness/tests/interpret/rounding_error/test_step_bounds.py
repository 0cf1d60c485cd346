"""What saves time on large arrays changes no bound: blocks, threads, and what is known not to be flushed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.host import numpy_threads
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.rounding_error import rules, step_bounds
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.step_bounds import BoundedValue, exactly

ROWS, COLUMNS = 12, 40
SIZES = {"ordinary": 0, "beside the smallest": -126, "beside what is absorbed": -66, "beside the largest": 120}
"""The binary exponents that numbers lie around."""

PROGRAMS: dict[str, Callable[..., Any]] = {
    "products": lambda x, y: (x * y, x * x * y, x * 0.25, 3 * x * y),
    "sums": lambda x, y: (x + y, x - y, x + 1, jnp.sum(x - y, 1), jnp.cumsum(x * y, 1), x - x),
    "cancelled": lambda x, y: jnp.sum(jnp.concatenate([x, -x], 1), 1) * 4,
    "quotients": lambda x, y: (x / y, 1 / x, jnp.reciprocal(x * y), jax.lax.rsqrt(jnp.abs(x * y))),
    "moved": lambda x, y: jnp.concatenate([(x * y).T[::-1], jnp.pad(y * x, 1)[1:-1].T], 0)[2:] * 0.5,
    "functions": lambda x, y: (jnp.exp(x * y), jnp.exp(-jnp.abs(x)) * y, jnp.expm1(x), jnp.tanh(x / 3) * y),
    "matrices": lambda x, y: (x @ y.T, (x * y) @ y.T, jax.nn.relu(x) @ (y * x).T, (x - x) @ y.T),
    "masked": lambda x, y: jax.nn.softmax(jnp.where(x > 0, y, -1e30) * x, -1) @ (y * jnp.where(y > 0, 1, 0)).T,
    "choices": lambda x, y: (jnp.maximum(x * y, y), jnp.max(x * y, 1), jnp.clip(x, -1, 1) * y, jnp.sort(x * y, 1)),
    "shorter": lambda x, y: ((x * y).astype(jnp.bfloat16) * 2, (x * y).astype(jnp.float16) * (y * x)),
}


class EachTime(RoundingDomain):
    """Numbers with bounds of which it is never known that none is flushed."""

    def moved(self, values: Sequence[Any], *rest: Any) -> BoundedValue:
        return replace(super().moved(values, *rest), normal=False)

    def _bounded(self, *args: Any) -> BoundedValue:
        return replace(super()._bounded(*args), normal=False)


def bounds(domain: RoundingDomain, name: str, size: str) -> list[np.ndarray[Any, Any]]:
    """The bounds of a program's results, and what loses most, at numbers of a size.

    Some of them are zero, infinite, NaN, or without digits to lose.
    """
    rng = np.random.default_rng(len(name + size))
    drawn = np.ldexp(rng.normal(size=(2, ROWS, COLUMNS)), SIZES[size] + rng.integers(-6, 7, (2, ROWS, COLUMNS)))
    drawn = np.where(rng.random(drawn.shape) < 0.1, 0, drawn)
    drawn[rng.random(drawn.shape) < 0.05] = 2.0 ** SIZES[size]
    drawn[0, 0, :2] = np.inf, np.nan
    arrays = [array.astype(np.float32) for array in drawn]
    program = jax.make_jaxpr(PROGRAMS[name])(*arrays)
    outputs = Interpreter(domain, "cpu")(program, *map(exactly, arrays))
    values = [output for output in outputs if isinstance(output, BoundedValue)]
    shares = np.array([value.blame.share if value.blame else 0 for value in values])
    return [shares, *(value.error for value in values)]


def same(name: str, size: str, other: RoundingDomain) -> bool:
    expected = bounds(RoundingDomain("cpu", usual=False), name, size)
    return all(map(np.array_equal, expected, bounds(other, name, size)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_flushed_again_keeps_its_bound(name: str, size: str) -> None:
    assert same(name, size, EachTime("cpu", usual=False))


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_and_threads_keep_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [bounds(RoundingDomain("cpu", usual=False), name, size) for size in SIZES]
    for blocks, processors in ((7, 1), (64, 3)):
        monkeypatch.setattr(rules, "BLOCK", blocks)
        monkeypatch.setattr(rules, "WIDE_BLOCK", blocks)
        monkeypatch.setattr(numpy_threads, "_processors", lambda count=processors: count)
        monkeypatch.setattr(numpy_threads, "LARGE", 1)
        for size, whole in zip(SIZES, expected, strict=True):
            assert all(map(np.array_equal, whole, bounds(RoundingDomain("cpu", usual=False), name, size))), size


def test_a_wrong_rule_of_what_is_flushed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_bounds, "ABSORBED", 0.0)
    assert not all(same(name, size, EachTime("cpu", usual=False)) for name in PROGRAMS for size in SIZES)


def test_nan_in_one_row_changes_no_other_bound() -> None:
    zeros, other = np.zeros((2, 8), np.float32), np.ones((8, 3), np.float32)
    beside = np.array([[np.nan], [0]], np.float32) + zeros
    program = jax.make_jaxpr(jnp.matmul)(zeros, other)
    of = [Interpreter(RoundingDomain(), "cpu")(program, exactly(x), exactly(other))[0].error for x in (zeros, beside)]
    np.testing.assert_array_equal(of[0], np.zeros((2, 3)))
    np.testing.assert_array_equal(of[1][1], of[0][1])
