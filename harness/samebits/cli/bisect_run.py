"""`samebits bisect` as a command: a search comes in, its finding goes out. To be imported after `prepare`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from samebits.bisect.search.trials import NothingFails, SearchFinding, Trials
from samebits.bisect.session import Session, counted
from samebits.cli.pipeline import Command, CommandRun
from samebits.engine.ray_request import RayRequest
from samebits.host.environment import Environment
from samebits.report.bisect import BisectDocument
from samebits.report.progress import ProgressBar


@dataclass(frozen=True, kw_only=True)
class BisectCommand(Command[Environment, SearchFinding, BisectDocument]):
    """Search for a cause.

    Args:
        what: which bisection, for the report where nothing fails.
        search: the bisection.
        session: as the options say.
        cached: whether compiled training steps are cached on disk.
        apart: whether other processes run the points.
        ray: the cluster on which they do; None for this machine.
        asked: what is searched, in words of the command line.
    """

    what: str
    search: Callable[[Session], SearchFinding]
    session: Session
    cached: bool = True
    apart: bool = False
    ray: RayRequest | None = None
    asked: str = ""

    on_interrupt = "interrupted; what was judged so far is shown"
    handles_signals = True

    def load(self, run: CommandRun) -> Environment:
        """The environment; what is searched for is loaded by the search."""
        return run.start_backend(workers=int(self.apart), ray=self.ray)

    def execute(self, run: CommandRun, inputs: Environment, results: list[SearchFinding]) -> None:
        """Search; where nothing fails, that is the finding."""
        from samebits.train.cache import persistent_compile_cache

        begun: list[Trials[Any]] = []
        session = replace(self.session, begun=begun.append)
        with (
            run.progress(f"bisect {self.what}") as bar,
            persistent_compile_cache() if self.cached else contextlib.nullcontext(),
        ):
            try:
                results.append(self.search(replace(session, say=bar.say, judged=partial(_judged, bar))))
            except NothingFails as nothing:
                results.append(
                    SearchFinding(
                        what=self.what,
                        found=False,
                        sentence=str(nothing),
                        trials=nothing.tried,
                        runs=len(nothing.tried),
                        repeats=sum(trial.looks - 1 for trial in nothing.tried),
                    )
                )
            except KeyboardInterrupt:
                results.append(self._interrupted(begun))
                raise

    def _interrupted(self, begun: list[Trials[Any]]) -> SearchFinding:
        """What is known of a search that did not come to its end."""
        if not begun:
            sentence = "interrupted before anything was judged"
            return SearchFinding(what=self.what, found=False, sentence=sentence, interrupted=True)
        again = "the same command" + (" without --fresh" if self.session.fresh else "")
        judged = counted(sum(trials.runs for trials in begun), "point")
        sentence = f"interrupted, {judged} judged; {again} continues from the journal"
        return begun[-1].finding(found=False, sentence=sentence, interrupted=True)

    def document(self, run: CommandRun, inputs: Environment, results: list[SearchFinding]) -> BisectDocument:
        """The finding with its time."""
        (finding,) = results
        finding = replace(finding, seconds=round(run.seconds, 3))
        return BisectDocument(environment=inputs, asked=self.asked, finding=finding)


def _judged(bar: ProgressBar, seconds: float, left: int | None) -> None:
    """A point was judged; without a count of those that are left, the bar has no end."""
    bar.add("points", seconds)
    if left is not None:
        bar.expect("points", left)
