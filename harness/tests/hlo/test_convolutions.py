"""Which convolutions are matrix products, dimension by dimension."""

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.hlo.convolutions import _spatial


def window(**changed: Any) -> Any:
    usual = {"stride": 1, "low": 0, "high": 0, "window_dilation": 1, "base_dilation": 1, "reversal": False}
    return SimpleNamespace(**{**usual, **changed})


@pytest.mark.parametrize(
    ("kind", "dim", "sizes"),
    [
        ("lhs", window(), (5, 1, 5)),
        ("lhs", window(stride=2), (5, 1, 3)),
        ("rhs", window(low=3, high=3, reversal=True), (1, 4, 4)),
        ("sum", window(), (4, 4, 1)),
        ("sum", window(reversal=True), (4, 4, 1)),
        # libtpu's batch: the operand is spread so that each place of the output sees one place of the kernel.
        ("batch", window(stride=3, low=0, high=0, base_dilation=4), (4, 4, 4)),
        (None, window(), (5, 2, 4)),
        (None, window(low=1, high=1), (4, 3, 4)),
    ],
)
def test_a_dimension_is_one_of_a_product_or_none(kind: str | None, dim: Any, sizes: tuple[int, int, int]) -> None:
    form = _spatial(dim, *sizes)
    assert (None if form is None else form.kind) == kind
    if kind == "batch":
        assert form is not None and len(form.lhs) == len(form.rhs) == sizes[2]
