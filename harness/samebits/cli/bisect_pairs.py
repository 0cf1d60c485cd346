"""`samebits bisect pairs`: the choices that make two trainings diverge."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samebits.cli import engine_options, options
from samebits.cli.bisect import SearchOptions, search_options

if TYPE_CHECKING:
    from samebits.bisect.endpoints import EndpointsRequest
    from samebits.bisect.search.trials import Finding
    from samebits.bisect.session import Session
    from samebits.engine.run_work import EngineSettings


training_options = options.together(
    click.option("--config", metavar="NAME", help="The training that differs: a configuration, or MATRIX/RUN."),
    click.option("--against", metavar="NAME", help="The good one; by default the same with all references."),
    click.option("--choice", "choices", multiple=True, metavar="PAIR[@SITE]=SIDE", help="Another side in --config."),
    click.option("--mesh", metavar="MESH", help="Another mesh of --config."),
    click.option("--shard-mode", type=click.Choice(("auto", "explicit")), help="Another sharding mode of --config."),
    click.option("--defect", metavar="NAME", help="A defect of the model, planted into --config."),
    click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Of every run."),
    click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The model's tree; here by default."),
)
"""The options that name two trainings."""


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(SearchOptions):
    """What `training_options` and `search_options` give."""

    config: str | None
    against: str | None
    choices: tuple[str, ...]
    mesh: str | None
    shard_mode: str | None
    defect: str | None
    steps: int
    root: Path | None

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

    only: str | None
    most: int

    def platform_here(self) -> str | None:
        """The CPU where trainings run on Ray."""
        return self.driver_platform(self.platform)


@click.command("pairs")
@training_options
@click.option("--only", metavar="NAME,NAME", help="Judge this one set of choices, as an earlier search named it.")
@click.option("--most", type=click.IntRange(1), default=200, show_default=True, help="The most sets that are judged.")
@engine_options.cluster_options
@search_options
@options.takes(PairsOptions)
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
) -> Finding:
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
