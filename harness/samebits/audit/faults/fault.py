"""A planted fault as data: an edit of an implementation or a patch of samebits, and the check that must detect it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from samebits.programs.plan import Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault that the public check must catch.

    Args:
        name: what went wrong, in a few words.
        pair: the pair whose implementation is edited; for a fault of samebits itself, the one on which it shows.
        side: the edited side, or the side on which it shows.
        old: the text that is replaced; it occurs exactly once in the file of that side. Several edits are a tuple.
        new: the text in its place; as many as `old`.
        patch: for a fault of samebits itself: `module:attribute` and what it is replaced by.
        request: where to look; the honest implementation must pass there. Everything by default.
        verdict: the verdict that must come out, or the name of the exception that must be raised; `different` by
            default.
        kind: the class of difference that must be among those found; None, the default, takes any.
        slow: whether only the slow tests plant it; `samebits faults` always does.
    """

    name: str
    pair: str
    side: str
    old: str | tuple[str, ...] = ()
    new: str | tuple[str, ...] = ()
    patch: tuple[str, Callable[..., Any]] | None = None
    request: Request = field(default_factory=Request)
    verdict: str = "different"
    kind: str | None = None
    slow: bool = False
