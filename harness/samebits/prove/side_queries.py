"""What the sides of a pair ask about the process that traces them, at the sizes of a case."""

from __future__ import annotations

from collections.abc import Hashable

from samebits.errors import SamebitsError
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove.mesh_queries import Query, mesh_queries
from samebits.schema.pair import Pair


class SideQueries:
    """Traces sides once more, apart from all that was traced before, and collects what they ask.

    Args:
        pair: the declaration.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._known: dict[Hashable, tuple[Query, ...]] = {}

    def of(self, direction: str, side: str, site: Site) -> tuple[Query, ...]:
        """The queries of a side at a site.

        Args:
            direction: `forward` or `gradient`.
            side: its name.
            site: where it is traced.
        """
        key = direction, side, site.key
        if key not in self._known:
            programs = Programs(threads=1)
            sides = TracedSides(self._pair, programs)
            try:
                with mesh_queries() as queries:
                    sides.forward(side, site) if direction == "forward" else sides.gradient(side, site)
            except SamebitsError:
                pass  # whoever needs the program meets it too
            finally:
                programs.close()
            self._known[key] = tuple(dict.fromkeys(query for query in queries if query.asks != {"mesh"}))
        return self._known[key]
