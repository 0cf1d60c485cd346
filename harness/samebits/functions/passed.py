"""How the comparisons of this process are made and noted down, for whoever reports on many of them, as pytest does."""

from __future__ import annotations

from dataclasses import dataclass, field

from samebits.schema.assumption import Assumption

REJECT_OPTION = "--samebits-no-assumptions"
"""Of pytest: no comparison of the process may rest on assumptions."""


@dataclass(slots=True)
class Reporting:
    """How the comparisons of this process are made and reported.

    Args:
        assuming: whether a verdict may rest on assumptions where its call does not say.
        compared: since they were last taken.
    """

    wanted: bool = False
    assuming: bool = True
    compared: list[tuple[str, tuple[Assumption, ...]]] = field(default_factory=list)

    def add(self, name: str, assumptions: tuple[Assumption, ...]) -> None:
        """Note down a comparison and what it passes under that other values could break; nothing where it fails."""
        if self.wanted:
            self.compared.append((name, assumptions))

    def take(self) -> list[tuple[str, tuple[Assumption, ...]]]:
        """Return what was noted down since the last time."""
        compared, self.compared = self.compared, []
        return compared


REPORTING = Reporting()
"""Of this process."""
