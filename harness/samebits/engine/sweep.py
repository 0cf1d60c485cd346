"""A sweep: the points of many pairs, one result after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence

from samebits.engine.check_work import CheckWork, check_items
from samebits.engine.journal import Journal
from samebits.engine.run_work import EngineSettings, run_work
from samebits.engine.verdict_cache import VerdictCache
from samebits.programs.plan import LoadedPair
from samebits.schema.finding import Finding
from samebits.schema.point import USUAL, Effort
from samebits.schema.result import Problem

IN_PROCESS = EngineSettings(in_process=True)


def sweep(
    loaded: Sequence[LoadedPair],
    *,
    on_problem: Callable[[Problem], None],
    settings: EngineSettings = IN_PROCESS,
    effort: Effort = USUAL,
    journal: Journal | None = None,
    store: VerdictCache | None = None,
) -> Generator[Finding]:
    """Yield all results of a sweep in the order in which they are known; closing the iterator ends all processes.

    Args:
        loaded: pairs with their plans.
        on_problem: called once with each pair that turns out not to run at all.
        settings: where and how; in this process by default.
        effort: how hard each point is tried.
        journal: where results are written at once.
        store: what remembers results between runs.
    """
    ran = run_work(
        CheckWork(
            effort,
            group=settings.group,
            pairs={item.locator: item.pair for item in loaded},
            memory=None if store is None else store.memory,
        ),
        check_items(loaded),
        settings,
        on_problem=on_problem,
        journal=journal,
        store=store,
    )
    with contextlib.closing(ran):
        for done in ran:
            yield from done.rows
