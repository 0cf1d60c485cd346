"""`samebits bisect pairs` on the engine: the search is in this process, the trainings are in a worker process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from samebits.bisect.endpoints import EndpointsRequest
from samebits.bisect.pairs import bisect_pairs
from samebits.bisect.search.trials import Finding
from samebits.bisect.session import Session
from samebits.engine.bisect_work import BisectWork, JudgeOnEngine
from samebits.engine.drive import Limits
from samebits.engine.run_work import EngineSettings, executor_of


def search_on_engine(
    request: EndpointsRequest, session: Session, only: Sequence[str], most: int, settings: EngineSettings
) -> Finding:
    """Find the choices that make the bad training diverge from the good one.

    Args:
        request: the two trainings.
        session: how the search is run.
        only: judge only this set of choices.
        most: the largest number of sets to try.
        settings: where trainings run; one at a time, since the search decides which is next.

    Raises:
        RequestError: the request is invalid.
        NothingFails: the bad training does not diverge from the good one.
    """
    work = BisectWork(request)
    with contextlib.closing(executor_of(work, 1, settings)) as executor:
        judge = JudgeOnEngine(work, executor, Limits(seconds=settings.seconds, bytes=settings.bytes))
        return bisect_pairs(request, session, only, most, judge)
