"""`samebits bisect pairs` and `steps`: the choices that make two trainings diverge, and the first step that differs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from samebits.cli import engine_options, options
from samebits.cli.bisect import SearchOptions
from samebits.cli.declared import option

if TYPE_CHECKING:
    from samebits.bisect.endpoints import EndpointsRequest
    from samebits.bisect.search.trials import SearchFinding
    from samebits.bisect.session import Session
    from samebits.engine.run_work import EngineSettings


@dataclass(frozen=True, kw_only=True)
class TrainingChoice:
    """Which trainings are compared."""

    HEADING = "The trainings"

    config: Annotated[str | None, option("The training that differs: a configuration, or MATRIX/RUN.", "NAME")] = None
    against: Annotated[str | None, option("The good one; by default the same with all references.", "NAME")] = None
    choices: Annotated[tuple[str, ...], option("Another side in --config.", "PAIR[@SITE]=SIDE", "--choice")] = ()
    shard_mode: Annotated[Literal["auto", "explicit"] | None, option("Another sharding mode of --config.")] = None
    defect: Annotated[str | None, option("A defect of the model, planted into --config.", "NAME")] = None
    steps: Annotated[int, option("Of every run.", "N", least=1)] = 20


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(TrainingChoice, SearchOptions):
    """The options of a search between two trainings."""

    mesh: Annotated[str | None, option("Another mesh, of --config or of a pair.", "MESH")] = None
    root: options.Tree = None

    def endpoints(self) -> EndpointsRequest:
        """The two trainings; as many devices as they need are started.

        Raises:
            RequestError: as `endpoints_of`.
        """
        from samebits.bisect.endpoints import EndpointsRequest, endpoints_of
        from samebits.host import environment
        from samebits.schema.meshes import MeshSpec

        request = self.request(EndpointsRequest)
        ends = endpoints_of(request)
        wanted = max(MeshSpec.parse(config.mesh).devices for config in (ends.good, ends.bad))
        devices = wanted if wanted > environment.asked_devices() else None
        environment.prepare(devices=devices, platform=self.platform_here())
        return request

    def platform_here(self) -> str | None:
        """The platform of this process; by default the one that was asked for."""
        return self.platform


@dataclass(frozen=True, kw_only=True)
class PairsOptions(engine_options.ClusterOptions, EndpointOptions):
    """The options of `samebits bisect pairs`."""

    only: Annotated[
        str | None, option("Judge this one set of choices, as an earlier search named it.", "NAME,NAME")
    ] = None
    most: Annotated[int, option("The most sets that are judged.", "N", least=1)] = 200

    def platform_here(self) -> str | None:
        """The CPU where trainings run on Ray."""
        return self.driver_platform(self.platform)


@options.command(PairsOptions)
def pairs(chosen: PairsOptions) -> int:
    """Find the choices of the model, per pair and per layer, that make a training diverge from the good one.

    All minimal sets are named, including those that fail only in combination. Changes are mixed as `moe@layer2`: one
    side of one pair in one layer. Trainings run in a worker process: one that crashes or does not end is UNTESTABLE,
    and the search goes on.
    """
    session, request = chosen.session(), chosen.endpoints()
    settings = replace(chosen.settings_on(chosen.platform), workers=None if chosen.in_process else 1)
    choices = tuple(name for name in (chosen.only or "").split(",") if name)
    return chosen.run(
        "pairs",
        lambda session: search_on_engine(request, session, choices, chosen.most, settings),
        session,
        apart=not settings.in_process,
        ray=settings.ray,
    )


def search_on_engine(
    request: EndpointsRequest, session: Session, only: Sequence[str], most: int, settings: EngineSettings
) -> SearchFinding:
    """Find the choices that make the bad training diverge, with the search here and trainings in a worker process.

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
    from samebits.bisect.pairs import bisect_pairs
    from samebits.engine.bisect_work import BisectWork, JudgeOnEngine
    from samebits.engine.drive import Limits
    from samebits.engine.run_work import executor_of

    work = BisectWork(request)
    with contextlib.closing(executor_of(work, 1, settings)) as executor:
        judge = JudgeOnEngine(work, executor, Limits(seconds=settings.seconds, bytes=settings.bytes))
        return bisect_pairs(request, session, only, most, judge)


@options.command(EndpointOptions)
def steps(chosen: EndpointOptions) -> int:
    """Find the first step that differs, and whether in the forward pass, the backward pass or the update.

    Every step of the training that differs starts from the good one's state before that step, so that differences which
    a run only carries along are not attributed to it.
    """
    session, request = chosen.session(), chosen.endpoints()
    from samebits.bisect.steps import bisect_steps

    return chosen.run("steps", lambda session: bisect_steps(request, session), session)
