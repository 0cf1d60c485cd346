"""What the comparisons of this process assume, for whoever reports on many of them, as pytest does at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from samebits.schema.assumption import Assumption, breakable

REJECT_OPTION = "--samebits-no-assumptions"
"""Of pytest: no comparison of the process may rest on assumptions."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that was made.

    Args:
        name: of the comparison.
        assumptions: what it passes under that other values could break; empty where it fails.
    """

    name: str
    assumptions: tuple[Assumption, ...]


@dataclass(slots=True)
class Reporting:
    """How the comparisons of this process are made and reported.

    Args:
        wanted: whether they are noted down.
        assuming: whether a verdict may rest on assumptions where its call does not say.
        compared: since they were last taken.
    """

    wanted: bool = False
    assuming: bool = True
    compared: list[Compared] = field(default_factory=list)

    def add(self, name: str, leaves: Iterable[Any], *, ok: bool) -> None:
        """Note down a comparison.

        Args:
            name: of the comparison.
            leaves: its results.
            ok: whether it passes.
        """
        if self.wanted:
            taken = breakable(leaves) if ok else ()
            self.compared.append(Compared(name, taken))

    def take(self) -> list[Compared]:
        """What was noted down since the last time."""
        compared, self.compared = self.compared, []
        return compared


REPORTING = Reporting()
"""Of this process."""
