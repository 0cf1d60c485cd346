"""The branches of `lax.platform_dependent`: which of them a platform takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.errors import NotCovered

_NAMES = {"gpu": ("cuda", "rocm")}
"""Platforms that have other names in `lax.platform_dependent`."""


def branch_of(platform: str | None, platforms: Sequence[Any]) -> int:
    """The number of the branch of a platform.

    Args:
        platform: such as `cpu`; None takes the default branch.
        platforms: of each branch, the names of its platforms; None is the default.

    Raises:
        NotCovered: there is none, and no default.
    """
    wanted = _NAMES.get(platform or "", (platform,))
    for number, names in enumerate(platforms):
        if names is not None and any(name in names for name in wanted):
            return number
    if None not in platforms:
        raise NotCovered(f"no branch of lax.platform_dependent is for {platform or 'every platform'}")
    return list(platforms).index(None)
