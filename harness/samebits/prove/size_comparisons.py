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

import numpy as np
from jax import export

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.bounds import is_not_negative
from samebits.interpret.all_sizes.dimensions import dimension
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.equation import is_machinery, short


@dataclass(frozen=True, slots=True)
class SizeComparison:
    """Two sizes that were compared and taken to be different.

    Args:
        difference: of the sizes; where it is 0 the traced program is another one. None where that is no polynomial, as
            of a remainder or of a look-up in a dictionary.
        place: the line that compares them.
        text: what was compared.
    """

    difference: Polynomial | None
    place: str
    text: str


@contextmanager
def comparisons(lowest: Mapping[str, int]) -> Iterator[list[SizeComparison]]:
    """Collect the undecided comparisons of traced code.

    Args:
        lowest: by symbol, its smallest value.
    """
    seen: list[SizeComparison] = []
    if not lowest:
        yield seen
        return
    kind: Any = type(export.symbolic_shape("size")[0])
    compare, hashed, module = kind.__eq__, kind.__hash__, inspect.getfile(kind)

    def recorded(self: Any, other: Any) -> Any:
        answer = compare(self, other)
        caller = _caller(module)
        if answer is False and caller is not None:
            _record(seen, (self, other), caller, lowest)
        return answer

    def looked_up(self: Any) -> int:
        caller = _caller(module)
        if caller is not None and not is_machinery(caller.f_code.co_filename):
            _add(seen, SizeComparison(None, _place(caller), f"the hash of {self}"))
        return int(hashed(self))

    def is_not_zero(self: Any) -> bool:
        # jax says nothing of truth, and to Python every object is true: `if n % 2:` would hold for all sizes.
        return bool(self != 0)

    truth = vars(kind).get("__bool__")
    kind.__eq__, kind.__hash__, kind.__bool__ = recorded, looked_up, is_not_zero
    try:
        yield seen
    finally:
        kind.__eq__, kind.__hash__ = compare, hashed
        if truth is None:
            del kind.__bool__
        else:
            kind.__bool__ = truth


def _caller(module: str) -> FrameType | None:
    """The frame that compares: jax's `!=` asks its `==`, and neither file is the one that counts."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in (__file__, module):
        frame = frame.f_back
    return frame


def _record(seen: list[SizeComparison], sizes: tuple[Any, Any], frame: FrameType, lowest: Mapping[str, int]) -> None:
    """Note a comparison of the user's code that came out as "different"."""
    if is_machinery(frame.f_code.co_filename) or not all(map(_is_size, sizes)):
        return
    text = f"{sizes[0]} and {sizes[1]}"
    try:
        difference = dimension(sizes[0], _unknown) - dimension(sizes[1], _unknown)
    except NotCovered:
        _add(seen, SizeComparison(None, _place(frame), text))
        return
    if is_not_negative(difference - 1, {}, lowest) or is_not_negative(-difference - 1, {}, lowest):
        return
    _add(seen, SizeComparison(difference, _place(frame), text))


def _is_size(value: Any) -> bool:
    return export.is_symbolic_dim(value) or isinstance(value, int | float | np.number)


def _place(frame: FrameType) -> str:
    return f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"


def _add(seen: list[SizeComparison], comparison: SizeComparison) -> None:
    if comparison not in seen:
        seen.append(comparison)


def _unknown(name: str, values: Any) -> Polynomial:
    raise NotCovered(f"a comparison with {name}")
