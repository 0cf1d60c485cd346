"""`assert_batch_invariant`: rows that keep their bits in every batch, and planted functions whose rows do not."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import CouldNotRun, NothingCompared, RequestError
from samebits.properties.batch_invariance import batch_invariance

ROWS, WIDTH = 4, 6
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
EXACT = np.arange(-12, 12, dtype=np.float32).reshape(ROWS, WIDTH)
TINY = np.float32(2) ** -24
UNEVEN = np.array([[1, TINY, TINY, 0, TINY, TINY]] * ROWS, np.float32) * np.array([[1], [2], [4], [8]], np.float32)
"""Rows whose sums depend on the order, on every processor: 1 plus half an ulp is 1."""
NOT_TYPED: Any = batch_invariance
WEIGHTS = np.arange(-30, 30, dtype=np.float32).reshape(WIDTH, 10) / 8


def scaled(x: Any) -> Any:
    """Take the square of each row, by elementwise products alone: the same bits on every processor."""
    return {"rows": x * x, "loss": jnp.sum(x)}


def dense(x: Any, weights: Any) -> Any:
    return x @ weights


def folded(x: Any) -> Any:
    """Lay the rows behind each other, as tokens are laid."""
    return jnp.where(x > 0, x, 0).reshape(-1)


def looped(x: Any) -> Any:
    return jax.lax.scan(lambda carry, column: (carry + column, carry * column), x[:, 0], x.T)


def test_rows_that_keep_their_bits_pass() -> None:
    samebits.assert_batch_invariant(dense, EXACT, WEIGHTS)  # whose sums are exact
    samebits.assert_batch_invariant(folded, X, sizes=(3, 6))
    samebits.assert_batch_invariant(looped, X, sizes=(3,))
    samebits.assert_batch_invariant(lambda x: x.T * 2, X.T, axis=1, sizes=(6,))
    samebits.assert_batch_invariant(jax.vmap(jax.random.bits), jax.random.split(jax.random.key(0), 3), sizes=(2,))


def test_a_result_says_what_was_tried_and_left_out() -> None:
    result = batch_invariance(scaled, X)
    assert result.ok and result.size == ROWS and "padded with zeros to 5 rows" in result.changes
    assert "out['loss'] [] has no axis of the batch" in str(result)


def in_order(x: Any) -> Any:
    """Add in an order that depends on the position in the batch."""
    odd = (jnp.arange(x.shape[0]) % 2 == 1)[:, None]
    left, right = (x[:, :1] + x[:, 1:2]) + x[:, 2:3], x[:, :1] + (x[:, 1:2] + x[:, 2:3])
    return jnp.where(odd, left, right)


def split(x: Any) -> Any:
    """Add in parts, of which a larger batch has fewer."""
    parts = 3 if x.shape[0] < ROWS else 1
    pieces = x.reshape(x.shape[0], parts, -1)
    total = jnp.zeros(x.shape[:1], x.dtype)
    for part in range(parts):
        inner = pieces[:, part, 0]
        for at in range(1, pieces.shape[2]):
            inner = inner + pieces[:, part, at]
        total = total + inner
    return total


def batch_norm(x: Any) -> Any:
    mean = jnp.mean(x, axis=0, keepdims=True)
    return (x - mean) * 2


def wrong_axis(x: Any) -> Any:
    return jax.jit(lambda y: y / jnp.sum(jnp.abs(y), axis=0))(x)


def capacity(x: Any) -> Any:
    """Drop the tokens of an expert that come after the first two of the batch."""
    chosen = x[:, 0] > 0
    place = jnp.cumsum(chosen)
    return jnp.where((place <= 2)[:, None], x, 0)


def quantized(x: Any) -> Any:
    scale = jnp.max(jnp.abs(x)) / 127
    return jnp.round(x / scale) * scale


def carried(x: Any) -> Any:
    """Run a recurrence over the rows, and not over the columns."""
    return jax.lax.scan(lambda carry, row: (carry * 0.5 + row, carry + row), jnp.zeros(x.shape[1]), x)[1]


def noisy(x: Any) -> Any:
    return x + jax.random.uniform(jax.random.key(0), x.shape)


def in_layers(x: Any) -> Any:
    """Read other rows in a scan over layers."""
    return jax.lax.scan(lambda y, scale: (y * scale - jnp.max(y, axis=0), None), x, jnp.arange(1.0, 3.0))[0]


def line_of(function: Callable[..., Any], text: str) -> str:
    """Return `file:line` of a text in a function of this file."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    start = function.__code__.co_firstlineno - 1
    return f"test_batch_invariance.py:{next(n for n in range(start, len(lines)) if text in lines[n]) + 1}"


@pytest.mark.parametrize(
    ("leak", "primitive", "text"),
    [
        (batch_norm, "reduce_sum", "jnp.mean("),
        (wrong_axis, "reduce_sum", "jnp.sum("),
        (capacity, "cumsum", "jnp.cumsum("),
        (quantized, "reduce_max", "jnp.max("),
        (carried, "scan", "jax.lax.scan("),
        (noisy, "random_bits", "jax.random.uniform("),
        (in_layers, "reduce_max", "jnp.max("),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_row_that_reads_others_is_no_rounding(leak: Callable[..., Any], primitive: str, text: str) -> None:
    x = X + np.float32(0.5) if leak is capacity else X
    with pytest.raises(AssertionError, match=f"{leak.__name__}: a row depends on its batch") as caught:
        samebits.assert_batch_invariant(leak, x, sizes=(3, 6))
    message = str(caught.value)
    assert "not rounding: evaluated in float64 the row moves too" in message and "cure" not in message
    assert re.search(rf"first equation \(.*\): {primitive}\(.* at .*{re.escape(line_of(leak, text))}", message), message


def test_bits_that_depend_on_the_position_are_rounding() -> None:
    result = batch_invariance(in_order, UNEVEN)
    text = str(result)
    assert not result.ok and result.coupling is None
    assert "rounding: in float64 the rows stay" in text and "rows moved up by one" in text
    assert re.search(r"row \d, out\[\d, 0\]: \S+ \(0x\w+\) in the batch of 4, \S+ \(0x\w+\) here", text)
    assert f"select_n(bool[4, 1], float32[4, 1], float32[4, 1]) at properties/{line_of(in_order, 'jnp.where')}" in text
    assert "cure, verified under the same" in text and "one row at a time" in text


def test_bits_that_depend_on_the_size_are_cured_by_padding() -> None:
    result = batch_invariance(split, UNEVEN)
    assert not result.ok and result.coupling is None
    assert {each.change.text for each in result.moved} <= {c for c in result.changes if "alone" in c}
    assert result.cause is not None and "the program is not the same at both batches: reshape to" in result.cause
    assert line_of(split, "x.reshape(") in result.cause
    assert (
        result.cure
        == f"cure, verified under the same {len(result.changes)} changes: every batch padded with zeros to 8 rows"
    )


def test_which_arrays_have_the_rows() -> None:
    square = np.eye(ROWS, dtype=np.float32)
    samebits.assert_batch_invariant(dense, EXACT[:, :ROWS], square)  # as large as the batch, and not of it
    samebits.assert_batch_invariant(lambda w, x: x @ w, WEIGHTS, EXACT, rows=("x",), sizes=(3,))
    caches = {"k": EXACT, "scale": np.ones(3, np.float32)}
    samebits.assert_batch_invariant(
        lambda x, cache: x + cache["k"] * cache["scale"][0], EXACT, caches, rows=("x", "cache.k")
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: batch_invariance(lambda w, x: x @ w, WEIGHTS, X),
            r"with rows in w: .*; name the arrays .*rows=\('x',\)",
        ),
        (lambda: batch_invariance(scaled, X, rows=("y",)), "rows='y': there is no such array; the arrays are x"),
        (lambda: batch_invariance(scaled, X, rows="x"), r"rows='x'; expected names, as in rows=\('x',\)"),
        (lambda: batch_invariance(dense, X, WEIGHTS, rows=("*",)), "not the same size along axis 0: x .4, 6., weights"),
        (lambda: batch_invariance(jnp.sum, X), "no output has an axis of the batch"),
        (lambda: batch_invariance(scaled, 3), "called with no array"),
        (lambda: batch_invariance(scaled, X, axis=5), "has no axis 5"),
        (lambda: NOT_TYPED(X), "expected a function"),
    ],
)
def test_what_cannot_be_asked_is_one_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_rows_that_read_nothing_are_not_compared() -> None:
    with pytest.raises(NothingCompared, match="no row of an output changes with its own inputs"):
        batch_invariance(lambda x: x * 0, np.abs(X))


def test_a_function_that_does_not_repeat_its_bits() -> None:
    draws = iter(range(100))

    def call(x: Any) -> Any:
        return jax.pure_callback(lambda y: y + next(draws), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(CouldNotRun, match="does not repeat its own bits"):
        batch_invariance(call, X)
