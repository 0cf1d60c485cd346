"""The scans of the programs that are compared, and which of one program are those of the other.

A comparison of computed numbers is an unknown answer, named after what is compared. Where that is carried by a loop,
both programs have one answer only if their loops have one name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samebits.sizes.places.facts import Fact

Alike = Callable[[Any, Any], bool]
"""Whether two scans are shown to carry the same, number by number."""

MOST_COMPARED = 16
"""With how many scans of the other program one is compared."""


class KnownLoops(dict[str, Any]):
    """Scans by name; `shared` is true where two of them have one name."""

    def __init__(self) -> None:
        super().__init__()
        self._alike: Alike | None = None
        self._first: list[Any] = []
        self._names: dict[str, str] = {}
        self._assumed: dict[str, list[tuple[Any, dict[Fact, None]]]] = {}
        self._asked: set[str] = set()
        self.shared = False

    def begin(self, alike: Alike) -> None:
        """Forget which scans are the same, as indices may have been cut since.

        Args:
            alike: decides it for two scans.
        """
        self._alike, self._first, self._names, self._assumed, self.shared = alike, [], {}, {}, False

    def name_of(self, scan: Any) -> str:
        """The name of the first scan that is shown to be the same; its own where none is.

        Args:
            scan: with its `name`, `length` and `carries`, in the frame that its `demand` has.
        """
        name: str = scan.name
        if self._alike is None or name in self._asked:
            return name
        if name not in self._names:
            self._asked.add(name)
            try:
                self._names[name] = self._first_like(scan, self._alike)
            finally:
                self._asked.discard(name)
        for evaluator, facts in self._assumed.get(name, ()):
            # Wherever it is called the same, and not only where that was found out.
            evaluator.assumed |= facts
        return self._names[name]

    def _first_like(self, scan: Any, alike: Alike) -> str:
        others = [
            first
            for first in self._first
            if (first.length, first.carries) == (scan.length, scan.carries)
            and first.demand.frame.depth == scan.demand.frame.depth
        ]
        for first in others[:MOST_COMPARED]:
            is_alike, assumed = _asked_alone(alike, first, scan)
            if is_alike:
                self._assumed[scan.name] = assumed
                self.shared = True
                return str(first.name)
        self._first.append(scan)
        return str(scan.name)


def _asked_alone(alike: Alike, first: Any, second: Any) -> tuple[bool, list[tuple[Any, dict[Fact, None]]]]:
    """Whether two scans are the same, and what their evaluators assume for that, which these do not note yet."""
    evaluators = first.demand.evaluator, second.demand.evaluator
    before = [dict(evaluator.assumed) for evaluator in evaluators]
    for evaluator in evaluators:
        evaluator.assumed.clear()
    try:
        is_alike = alike(first, second)
        return is_alike, [(evaluator, dict(evaluator.assumed)) for evaluator in evaluators]
    finally:
        for evaluator, facts in zip(evaluators, before, strict=True):
            evaluator.assumed.clear()
            evaluator.assumed.update(facts)
