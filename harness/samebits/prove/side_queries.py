"""What the sides of a pair ask about the process that traces them, at the sizes of a case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from samebits.errors import SamebitsError
from samebits.programs.program_cache import Program, Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove.mesh_queries import Query, process_queries
from samebits.schema.pair import Pair


class SideQueries:
    """Collects what sides ask while they are traced; what was traced without looking is traced again, apart.

    Args:
        pair: the declaration.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._apart: Programs | None = None
        self._asked: WeakKeyDictionary[Program, tuple[Query, ...]] = WeakKeyDictionary()
        self._is_on = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside, what is traced under `watch` is looked at, which takes as long again."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    @contextmanager
    def watch(self, program: Program) -> Iterator[None]:
        """The context in which the code of a program is traced."""
        if not self._is_on:
            yield
            return
        with process_queries() as queries:
            try:
                yield
            finally:
                self._asked[program] = tuple(dict.fromkeys(query for query in queries if query.asks != {"mesh"}))

    def of(self, sides: TracedSides, direction: str, side: str, site: Site) -> tuple[Query, ...]:
        """The queries of a side at a site.

        Args:
            sides: those of the pair.
            direction: `forward` or `gradient`.
            side: its name.
            site: where it is traced.
        """
        with self.on():
            program = _program(sides, direction, side, site)
            if program is None:
                return ()
            if program not in self._asked:
                self._apart = self._apart or Programs(threads=1, watch=self.watch)
                again = _program(TracedSides(self._pair, self._apart), direction, side, site)
                self._asked[program] = () if again is None else self._asked[again]
            return self._asked[program]

    def close(self) -> None:
        """Drop what was traced apart."""
        if self._apart is not None:
            self._apart.close()
            self._apart = None


def _program(sides: TracedSides, direction: str, side: str, site: Site) -> Program | None:
    try:
        return sides.forward(side, site) if direction == "forward" else sides.gradient(side, site)
    except SamebitsError:
        return None  # whoever needs the program meets it too
