"""Work whose items are done one after the other, with nothing ahead: each says its stages, then its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from samebits.engine.check_work import finished, remarks, trouble
from samebits.engine.work import Event, Item, Reached, Row, Started, Work


class OneByOne(Work[Row]):
    """Does its items in order; an exception of one leaves the others as they are."""

    @abstractmethod
    def steps(self, item: Item) -> Iterator[str | Row]:
        """Do an item: yield its stages in words, and at the end its row."""

    def failed(self, item: Item, error: Exception) -> Event:
        """Report an item that raised."""
        return trouble(item.pair, error)

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Do items, and report what happens."""
        for item in items:
            yield Started(key=item.key)
            try:
                for step in self.steps(item):
                    yield Reached(item.key, step) if isinstance(step, str) else finished(item.key, (step,))
            except Exception as error:
                yield self.failed(item, error)
            yield from remarks()
