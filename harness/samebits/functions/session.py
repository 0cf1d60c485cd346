"""The programs that comparisons of functions share: a second call with other values compiles nothing."""

from __future__ import annotations

import functools
from collections import OrderedDict

from samebits.functions.passed import REPORTING
from samebits.programs.program_cache import Programs
from samebits.schema.point import Effort

PAIRS = 64
"""Of how many comparisons the programs are held; those compared longest ago are dropped first."""


class SharedPrograms:
    """The programs of a process, by the name of the comparison."""

    def __init__(self) -> None:
        self.programs = Programs()
        self._names: OrderedDict[str, None] = OrderedDict()
        self._tested = False

    def effort(self, *, assuming: bool = True, budget: float | None = None) -> Effort:
        """Return how hard the points of a comparison are tried: only the first of a process tests the checker."""
        assuming = assuming and REPORTING.assuming
        effort = Effort(selftest=not self._tested, idle_axes=True, assuming=assuming, budget=budget)
        self._tested = True
        return effort

    def use(self, name: str) -> Programs:
        """Return the programs, for a comparison of this name."""
        self._names[name] = None
        self._names.move_to_end(name)
        while len(self._names) > PAIRS:
            self.programs.forget(self._names.popitem(last=False)[0])
        return self.programs


@functools.cache
def session() -> SharedPrograms:
    """Return the session of this process."""
    return SharedPrograms()
