"""`samebits bisect pairs`: the choices that make two trainings part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from samebits.cli.bisect import search_options, session_of
from samebits.cli.common import guarded


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name two trainings."""
    options = (
        click.option("--config", metavar="NAME", help="The training that differs: a configuration, or MATRIX/RUN."),
        click.option("--against", metavar="NAME", help="The good one; by default the same with all references."),
        click.option(
            "--choice", "choices", multiple=True, metavar="PAIR[@SITE]=SIDE", help="Another side in --config."
        ),
        click.option("--mesh", metavar="MESH", help="Another mesh of --config."),
        click.option(
            "--shard-mode", type=click.Choice(("auto", "explicit")), help="Another sharding mode of --config."
        ),
        click.option("--defect", metavar="NAME", help="A defect of the model, planted into --config."),
        click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Of every run."),
        click.option(
            "--root", type=click.Path(path_type=Path), metavar="TREE", help="The model's tree; here by default."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def prepare_devices(asked: Any) -> None:
    """Start as many devices as the two trainings need.

    Raises:
        RequestError: as `endpoints_of`.
    """
    from samebits.bisect.endpoints import endpoints_of
    from samebits.host import environment
    from samebits.schema.meshes import MeshSpec

    sides = endpoints_of(asked)
    wanted = max(MeshSpec.parse(config.mesh).devices for config in (sides.good, sides.bad))
    environment.prepare(devices=wanted if wanted > environment.asked_devices() else None)


@click.command("pairs")
@training_options
@click.option("--only", metavar="NAME,NAME", help="Judge this one set of choices, as an earlier search named it.")
@click.option("--most", type=click.IntRange(1), default=200, show_default=True, help="Sets that are looked at.")
@search_options
@guarded
def pairs(
    only: str | None,
    most: int,
    repeat: int,
    journal: Path | None,
    fresh: bool,
    json: Path | None,
    markdown: Path | None,
    **asked: Any,
) -> int:
    """Which choices of the model, per pair and per layer, make a training part from the good one.

    All minimal sets are named, and what only fails together. Changes are mixed as `moe@layer2`: one side of one pair in
    one layer.
    """
    session = session_of(repeat, journal, fresh, json, markdown)
    from samebits.bisect.endpoints import EndpointsRequest

    request = EndpointsRequest(**asked)
    prepare_devices(request)
    from samebits.bisect.pairs import bisect_pairs
    from samebits.cli.bisect_run import run_bisection

    chosen = tuple(name for name in (only or "").split(",") if name)
    return run_bisection(
        "pairs", lambda told: bisect_pairs(request, told, chosen, most), session, json=json, markdown=markdown
    )
