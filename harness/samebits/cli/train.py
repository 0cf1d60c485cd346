"""`samebits train`: a full model trained under many configurations, and every run compared with the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from samebits.cli import engine_options, options
from samebits.cli.distributed_options import DistributedOptions, distributed, started


@dataclass(frozen=True, kw_only=True)
class TrainOptions(engine_options.EngineOptions, DistributedOptions, options.ReportOptions):
    """The options of `samebits train`."""

    matrix: str | None
    config: str | None
    steps: int
    dtype: str | None
    mesh: str | None
    shard_mode: str | None
    choices: tuple[str, ...]
    text: Path | None
    against: str | None
    beside: Path | None
    detection: bool
    listing: bool
    root: Path | None
    no_cache: bool
    verbose: bool
    platform: str | None


@click.command("train")
@click.option("--matrix", metavar="NAME", help="All runs of a matrix.")
@click.option("--config", metavar="NAME", help="One configuration, compared with itself on one device.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Steps per run.")
@click.option("--dtype", type=click.Choice(("float32", "bfloat16")), help="Activation dtype; float32 by default.")
@click.option("--mesh", metavar="MESH", help="With --config: another mesh, such as expert8.")
@click.option("--shard-mode", type=click.Choice(("auto", "explicit")), help="With --config: another sharding mode.")
@click.option("--choice", "choices", multiple=True, metavar="PAIR=SIDE", help="With --config: another side of a pair.")
@click.option("--text", type=click.Path(path_type=Path), metavar="FILE", help="Train on the bytes of a file.")
@click.option("--against", metavar="REV", help="Compare with another git revision, loss by loss and norm by norm.")
@click.option(
    "--beside",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with a document of the same matrix: which runs have its bits, which lie within the envelope.",
)
@click.option("--detection", is_flag=True, help="Plant the model's defects one by one; show which gate finds which.")
@click.option("--list", "listing", is_flag=True, help="List matrices and configurations.")
@click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of the model; here by default.")
@click.option("--no-cache", is_flag=True, help="Compile again, cache nothing (always so on the CPU).")
@engine_options.engine_options
@options.platform
@distributed
@options.verbose
@options.json_file("all traces")
@options.markdown_file("tables for a pull request")
@options.takes(TrainOptions)
def train(chosen: TrainOptions) -> int:
    """Train a full model under every configuration of a matrix, and say which runs have identical bits.

    The first run is repeated and rewritten in ways that leave its mathematics unchanged; how far its bits move then
    bounds all others. Single steps from the same state are compared array by array, whole runs by their losses.
    Configurations run in worker processes, also those of another revision and those with a planted defect: one that
    crashes or does not end is reported, and the others are compared.
    """
    files, spanning = chosen.report_files(), chosen.spanning()
    chosen.alone_only(against=chosen.against, detection=chosen.detection, list=chosen.listing)
    if chosen.distributed:
        chosen.require_no_engine("train --distributed")
    from samebits.train.request import TrainRequest, select

    request = TrainRequest(
        matrix=chosen.matrix,
        config=chosen.config,
        steps=chosen.steps,
        dtype=chosen.dtype,
        mesh=chosen.mesh,
        shard_mode=chosen.shard_mode,
        choices=chosen.choices,
        text=chosen.text,
        root=chosen.root,
    )
    if chosen.listing:
        from samebits.cli.train_run import show_list

        return show_list(request)
    model, matrix = select(request)
    then = None
    if chosen.against is not None:
        from samebits.cli.train_against import options_there, train_at

        options = options_there(click.get_current_context())
        then = train_at(chosen.against, request.tree, options, [run.name for run in matrix.runs])
    from samebits.host import environment
    from samebits.schema.meshes import MeshSpec

    wanted = max(MeshSpec.parse(config.mesh).devices for config in matrix.runs)
    # Each of several processes has as many devices as its environment says.
    devices = wanted if wanted > environment.asked_devices() and spanning is None else None
    platform = chosen.driver_platform(chosen.platform)
    environment.prepare(devices=devices, platform=platform, processes=chosen.workers or 1)
    settings = chosen.engine_settings(platform=chosen.platform)  # how many workers there are depends on the platform
    group = started(spanning)
    from samebits.cli.pipeline import run_command
    from samebits.cli.train_run import TrainCommand, runs_of

    command = TrainCommand(
        model=model,
        matrix=matrix,
        request=request,
        against=then,
        detection=chosen.detection,
        cached=not chosen.no_cache and group is None,
        settings=replace(settings, group=group),
        beside=chosen.beside,
        verbose=chosen.verbose,
    )
    if group is not None:
        from samebits.cli.distributed_run import run_together

        return run_together(command, files, group, lambda _: runs_of(command))
    return run_command(command, files)
