"""Conditions of several proofs as those of one that needs them all."""

from __future__ import annotations

import re
from collections.abc import Iterable

from samebits.errors import SamebitsError
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.prove.size_of_case import expression

_AT_MOST = re.compile(r"(?P<size>.+) <= (?P<number>-?\d+)")


def strictest(conditions: Iterable[str]) -> tuple[str, ...]:
    """Conditions without those that follow from another one, as `2*rows <= 9` does from `16*rows <= 9`.

    Args:
        conditions: such as `rows >= 1`; sizes are at least 1.
    """
    texts = tuple(dict.fromkeys(conditions))
    sizes = {text: read for text in texts if (read := _at_most(text)) is not None}
    return tuple(
        text
        for text in texts
        if not any(
            text in sizes and other != text and number == sizes[text][1] and _is_more(size, sizes[text][0])
            for other, (size, number) in sizes.items()
        )
    )


def _at_most(condition: str) -> tuple[Polynomial, int] | None:
    """The size that is at most a number, and the number; None of any other condition."""
    matched = _AT_MOST.fullmatch(condition)
    try:
        return None if matched is None else (expression(matched["size"]), int(matched["number"]))
    except SamebitsError:  # a condition on more than sizes
        return None


def _is_more(size: Polynomial, other: Polynomial) -> bool:
    """Whether a size is another one and more, at all values of its symbols."""
    return size != other and all(factor > 0 for _, factor in (size - other).terms)
