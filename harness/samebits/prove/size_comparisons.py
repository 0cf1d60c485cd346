"""Comparisons of symbolic sizes in traced code that jax answers with "not equal" although some sizes are equal.

`if cp == 16` is false for a symbol, so the traced program is that of all other sizes. What code compares is recorded
while it is traced; the sizes for which a comparison holds are then a case of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from jax import export

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.bounds import is_not_negative
from samebits.interpret.all_sizes.dimensions import dimension
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.equation import is_machinery, short


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sizes that were compared and taken to be different.

    Args:
        difference: of the sizes; where it is 0 the traced program is another one.
        place: the line that compares them.
    """

    difference: Polynomial
    place: str


@contextmanager
def comparisons(lowest: Mapping[str, int]) -> Iterator[list[Comparison]]:
    """Collect the undecided comparisons of traced code.

    Args:
        lowest: by symbol, its smallest value.
    """
    seen: list[Comparison] = []
    if not lowest:
        yield seen
        return
    kind: Any = type(export.symbolic_shape("size")[0])
    compare = kind.__eq__

    def recorded(self: Any, other: Any) -> Any:
        answer = compare(self, other)
        caller = inspect.currentframe()
        if answer is False and caller is not None and caller.f_back is not None:
            _record(seen, self, other, caller.f_back, lowest)
        return answer

    kind.__eq__ = recorded
    try:
        yield seen
    finally:
        kind.__eq__ = compare


def _record(seen: list[Comparison], first: Any, second: Any, frame: FrameType, lowest: Mapping[str, int]) -> None:
    file = frame.f_code.co_filename
    if is_machinery(file):
        return
    try:
        difference = dimension(first, _unknown) - dimension(second, _unknown)
    except NotCovered:
        return  # compared with something that is no size
    if is_not_negative(difference - 1, {}, lowest) or is_not_negative(-difference - 1, {}, lowest):
        return
    comparison = Comparison(difference, f"{short(file)}:{frame.f_lineno}")
    if comparison not in seen:
        seen.append(comparison)


def _unknown(name: str, values: Any) -> Polynomial:
    raise NotCovered(f"a comparison with {name}")
