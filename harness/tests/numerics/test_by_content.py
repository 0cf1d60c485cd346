"""A function of an array is called once for each content, and for every other content again."""

import numpy as np

from samebits.numerics.by_content import MOST, by_content
from samebits.numerics.floats import Array


def counting() -> tuple[list[Array], object]:
    calls: list[Array] = []

    @by_content
    def total(array: Array) -> float:
        calls.append(array)
        return float(array.sum())

    return calls, total


def test_one_content_is_looked_at_once() -> None:
    calls, total = counting()
    assert [total(np.arange(6.0)), total(np.arange(6.0)), total(np.arange(12.0)[:6])] == [15.0] * 3  # type: ignore[operator]
    assert len(calls) == 1


def test_another_content_shape_dtype_or_order_is_another_array() -> None:
    calls, total = counting()
    x = np.arange(6.0)
    for array in (x, x + 1, x.reshape(2, 3), x.reshape(2, 3).T, x.astype(np.float32), x.view(np.int64)):
        total(array)  # type: ignore[operator]
    x[0] = 9
    assert total(x) == 24  # type: ignore[operator]
    assert len(calls) == 7


def test_few_arrays_are_remembered() -> None:
    calls, total = counting()
    for number in range(MOST + 1):
        total(np.full(2, float(number)))  # type: ignore[operator]
    total(np.full(2, 0.0))  # type: ignore[operator]
    assert len(calls) == MOST + 2
