"""Work without jax for tests of executors: items that return, sleep, and end their process in every way."""

import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from samebits.engine.work import Event, Finished, Item, ProcessExit, Reached, Started, Work


class RayToyRow(msgspec.Struct, frozen=True):
    """What became of an item.

    Args:
        key: of the item.
        pid, raylet: of the process that ran it, and of the node that it ran on.
        platform: as its environment says.
        lost: why there is no result.
        where: what its process was at when it was ended.
    """

    key: str
    pid: int = 0
    raylet: str = ""
    platform: str = ""
    lost: str = ""
    where: str = ""


class RayToyWork(Work[RayToyRow]):
    """The payload of an item says what it does: a number of seconds, or how its process ends."""

    kind = "toy"
    row = RayToyRow

    def run(self, items: Sequence[Item], ahead: int) -> Iterator[Event]:
        """Items in their order."""
        for item in items:
            yield Started(item.key)
            yield Reached(item.key, "running")
            if item.payload == "abort":
                os.abort()
            elif item.payload == "exit":
                print("about to leave", flush=True)
                os._exit(3)
            elif item.payload == "allocate":
                taken = []
                while True:
                    taken.append(b"x" * 2**26)
                    time.sleep(0.05)
            else:
                time.sleep(item.payload)
            row = RayToyRow(item.key, os.getpid(), os.environ.get("RAY_RAYLET_PID", ""), os.environ["JAX_PLATFORMS"])
            yield Finished(item.key, (msgspec.Raw(msgspec.json.encode(row)),))

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> RayToyRow:
        """A row that says why."""
        return RayToyRow(item.key, lost=f"{loss.kind}: {loss.text}, {stage}", where=loss.last_words)


def toy_items(*payloads: object, together: int = 4) -> list[Item]:
    """Items with these payloads, so many in a chunk."""
    return [
        Item(
            key=f"item{n}", pair=f"pair{n // together}", words=f"item {n}", replay="", group=n // together, payload=does
        )
        for n, does in enumerate(payloads)
    ]
