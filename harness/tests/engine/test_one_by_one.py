"""Items that are done one after the other: what is reported of each, and what travels to another process."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

from samebits.engine.work import Finished, Item, OneByOne, ProcessExit, Reached, Remark, Started, Trouble
from samebits.errors import DeclarationError
from samebits.host.isolation import note


@dataclass(frozen=True)
class Squared:
    """A row."""

    number: int


class Squares(OneByOne[Squared]):
    """Squares numbers; a negative one is a wrong declaration."""

    kind = "squares"
    row = Squared

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[int, int] | None = None

    def steps(self, item: Item) -> Iterator[str | Squared]:
        yield "squaring it"
        self._known = {**(self._known or {}), item.payload: item.payload**2}
        note(f"squared {item.payload}")
        if item.payload < 0:
            raise DeclarationError("negative")
        yield Squared(item.payload**2)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> Squared:
        return Squared(0)


def item(number: int) -> Item:
    return Item(key=f"k{number}", pair=f"p{number}", words="", replay="", group=0, payload=number)


def test_an_item_that_raises_leaves_the_others_as_they_are() -> None:
    events = list(Squares("toy").run([item(-1), item(3)], 0))
    assert [type(event) for event in events] == [Started, Reached, Trouble, Remark, Started, Reached, Finished, Remark]
    assert events[1:4] == [
        Reached("k-1", "squaring it"), Trouble("p-1", "negative", DeclarationError.exit_code), Remark("squared -1"),
    ]  # fmt: skip
    (done,) = (event for event in events if isinstance(event, Finished))
    assert (done.key, [bytes(row) for row in done.rows]) == ("k3", [b'{"number":9}'])


def test_what_is_cached_stays_in_its_process() -> None:
    work = Squares("toy")
    list(work.run([item(2)], 0))
    there = pickle.loads(pickle.dumps(work))
    assert (work._known, there._known, there.name) == ({2: 4}, None, "toy")
