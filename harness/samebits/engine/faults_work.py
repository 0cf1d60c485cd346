"""Plants the faults of `samebits audit faults` as work: one that ends its process costs no other."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.audit.faults import fault as planted
from samebits.audit.faults.fault import Fault, FaultRow
from samebits.engine.work import Item, OneByOne, ProcessExit, lost_words
from samebits.errors import MeshError
from samebits.programs.replay import of_tree

if TYPE_CHECKING:
    from samebits.audit.faults.plant import FaultChecks


def fault_items(tree: Path, numbers: Sequence[int]) -> list[Item]:
    """Return faults by number, since one may hold functions; each by itself: one may be impossible to plant."""
    items, known, seen = [], planted.all_faults(tree), Counter[str]()
    for number in numbers:
        fault = known[number]
        words = f"{fault.pair}/{fault.side}: {fault.name}"
        seen[words] += 1
        key = f"{words} ({seen[words]})" if seen[words] > 1 else words
        items.append(
            Item(key=key, pair=key, words=words, replay=_replay(tree, fault), group=fault.pair, payload=number)
        )
    return items


class FaultsWork(OneByOne[FaultRow]):
    """Plants faults, and checks each beside the honest implementation."""

    kind = "faults"
    row = FaultRow

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._checks: FaultChecks | None = None

    def steps(self, item: Item) -> Iterator[str | FaultRow]:
        """Plant and check a fault."""
        from samebits.audit.faults.plant import FaultChecks

        checks = self._checks = self._checks or FaultChecks(self.tree)
        fault = planted.all_faults(self.tree)[item.payload]
        yield f"checking '{fault.side}' of '{fault.pair}' with the fault and without"
        try:
            row = checks.check(fault)
        except MeshError as error:
            row = FaultRow.without_answer(fault, str(error))
        yield row

    def close(self) -> None:
        """Drop the programs."""
        if self._checks is not None:
            self._checks.close()

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> FaultRow:
        """Return a fault without an answer."""
        return FaultRow.without_answer(planted.all_faults(self.tree)[item.payload], lost_words(loss, stage))


def _replay(tree: Path, fault: Fault) -> str:
    return shlex.join(["samebits", "audit", "faults", fault.pair, "--fault", fault.name, *of_tree(tree)])
