"""Sizes of memory and of files, as users write them."""

from __future__ import annotations

import math
import re

from samebits.errors import RequestError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?B)?|B)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, place: str, expected: str, *, with_unit: bool = False) -> int:
    """Return a size in bytes: `8G` and `8GiB` are 8 * 2**30, `8GB` is 8 * 10**9; without a unit it is in bytes.

    Args:
        text: as the user wrote it.
        place: where it was written, for the message.
        expected: what is expected there, for the message.
        with_unit: whether all but 0 need a unit.

    Raises:
        RequestError: it is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    size = math.inf
    if match is not None and not (with_unit and match[2] is None and text.strip() != "0"):
        unit, suffix = (match[2] or "").lower(), (match[3] or "").lower()
        size = float(match[1]) * (1000 if suffix == "b" else 1024) ** _POWERS.get(unit, 0)
    if size == math.inf:
        raise RequestError(f"{place}: '{text}' is not a size; expected {expected}")
    return int(size)
