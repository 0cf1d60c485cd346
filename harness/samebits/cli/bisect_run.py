"""The work of `samebits bisect`: a search comes in, its finding goes out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

from samebits.bisect.search.trials import NothingFails, SearchFinding, Trials
from samebits.bisect.session import Search, Session, counted
from samebits.cli.bisect import SearchOptions
from samebits.cli.pipeline import CommandRun
from samebits.engine.run_work import EngineSettings
from samebits.report.bisect import BisectDocument
from samebits.report.progress import ProgressBar

HERE = EngineSettings(in_process=True)


def search_cause(
    chosen: SearchOptions,
    what: str,
    search: Search,
    session: Session,
    run: CommandRun,
    *,
    settings: EngineSettings = HERE,
    cached: bool = True,
) -> BisectDocument:
    """Search for a cause; where nothing fails, that is the finding."""
    from samebits.train.cache import persistent_compile_cache

    here = run.start_backend(workers=min(settings.processes, 1), ray=settings.ray)
    begun: list[Trials[Any]] = []
    finding = SearchFinding(what=what, found=False, sentence="interrupted before anything was judged", interrupted=True)
    with (
        run.partial("interrupted; what was judged so far is shown"),
        run.progress(f"bisect {what}") as bar,
        persistent_compile_cache() if cached else contextlib.nullcontext(),
    ):
        session = replace(session, begun=begun.append, say=bar.say, judged=partial(_judged, bar))
        try:
            finding, begun = search(session), []
        except NothingFails as nothing:
            finding, begun = nothing.finding(what), []
    if begun:  # the search did not come to its end
        again = "the same command" + (" without --fresh" if session.fresh else "")
        judged = counted(sum(trials.runs for trials in begun), "point")
        sentence = f"interrupted, {judged} judged; {again} continues from the journal"
        finding = begun[-1].finding(found=False, sentence=sentence, interrupted=True)
    finding = replace(finding, seconds=round(run.seconds, 3))
    return BisectDocument(environment=here, asked=chosen.asked(), finding=finding)


def _judged(bar: ProgressBar, seconds: float, left: int | None) -> None:
    """Count a point that was judged; without a count of those that are left, the bar has no end."""
    bar.add("points", seconds)
    if left is not None:
        bar.expect("points", left)
