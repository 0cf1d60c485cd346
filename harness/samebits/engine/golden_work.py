"""The runs of `samebits golden check` as work: one configuration after the other."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from samebits.engine.check_work import lost_words
from samebits.engine.one_by_one import OneByOne
from samebits.engine.work import Item, ProcessExit
from samebits.programs.replay import of_tree
from samebits.train.golden.check import CheckedGolden


def golden_items(tree: Path, names: Iterable[str]) -> list[Item]:
    """Return one per configuration."""
    return [
        Item(
            key=name,
            pair=name,
            words=name,
            replay=shlex.join(["samebits", "golden", "check", "--config", name, *of_tree(tree)]),
            group=name,
            payload=name,
        )
        for name in names
    ]


class GoldenWork(OneByOne[CheckedGolden]):
    """Runs configurations, and compares each with its golden.

    Args:
        tree: of the model.
    """

    kind = "golden check"
    row = CheckedGolden

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def steps(self, item: Item) -> Iterator[str | CheckedGolden]:
        """Run and compare."""
        from samebits.host import environment
        from samebits.train.cache import persistent_compile_cache
        from samebits.train.golden.runs import GoldenSession, check_run, selected
        from samebits.train.request import load_model

        yield "running it"
        model = load_model(self.tree)
        session = GoldenSession(model=model, root=self.tree, here=environment.capture())
        (named,) = selected(model, (), (item.payload,))
        with persistent_compile_cache():
            yield check_run(session, named)

    def lost(self, item: Item, loss: ProcessExit, stage: str) -> CheckedGolden:
        """Return a run that could not be made."""
        message = f"config '{item.payload}': {lost_words(loss, stage)}; again: {item.replay}"
        return CheckedGolden(name=item.payload, status="not run", message=message)
