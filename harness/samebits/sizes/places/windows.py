"""Windows that slide over an array: the places that they read, and sums and extremes over them."""

from __future__ import annotations

from typing import NamedTuple

from samebits.numerics.floats import is_float
from samebits.sizes.places.demand import Demand
from samebits.sizes.places.facts import Facts, MapPiece, Reduction, at_least, below, equal
from samebits.sizes.places.movement import Rule
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.places.reductions import bound_indices, names_of

_KINDS = {"reduce_window_sum": "sum", "reduce_window_max": "max", "reduce_window_min": "min"}


class SlidingWindow(NamedTuple):
    """A window along one dimension.

    Args:
        stride: how far apart windows begin.
        gap: how far apart the places are that one window reads.
        low: how many places of padding come first.
        spread: how far apart the elements lie; between them are zeros.
    """

    stride: Polynomial
    gap: Polynomial
    low: Polynomial
    spread: Polynomial

    def place(self, demand: Demand, size: Polynomial, number: Polynomial, step: Polynomial) -> tuple[Polynomial, Facts]:
        """The place that a window reads at a step, and that there is one: not in the padding, not in a gap.

        Args:
            demand: of the operation.
            size: of the dimension.
            number: of the window.
            step: inside of it.
        """
        place = number * self.stride + step * self.gap - self.low
        if self.spread.constant == 1:
            return place, (at_least(place, 0), below(place, size))
        place, rest = demand.space.divide(place, self.spread, demand.facts)
        return place, (equal(rest, 0), at_least(place, 0), below(place, size))


def _reduce_window(demand: Demand) -> list[MapPiece]:
    """A sum, a largest or a smallest element of each window; padding does not count."""
    if not is_float(demand.output_dtype):
        raise demand.not_covered("windows of a non-float dtype")
    params, size = demand.params, demand.space.size
    steps = bound_indices(demand, [size(n) for n in params["window_dimensions"]])
    index: list[Polynomial] = []
    where: Facts = ()
    for axis, (shape, number, step) in enumerate(zip(demand.shape(0), demand.index, steps, strict=True)):
        window = SlidingWindow(
            size(params["window_strides"][axis]),
            size(params["window_dilation"][axis]),
            size(params["padding"][axis][0]),
            size(params["base_dilation"][axis]),
        )
        place, facts = window.place(demand, shape, number, step)
        index.append(place)
        where = (*where, *facts)
    pieces = demand.operand(0, tuple(index), where)
    kind, dtype = _KINDS[demand.name], demand.output_dtype.name
    return [MapPiece((), Reduction(kind, dtype, names_of(demand, steps), tuple(pieces)))]


WINDOWS: dict[str, Rule] = dict.fromkeys(_KINDS, _reduce_window)
"""Primitives that reduce each window of an array."""
