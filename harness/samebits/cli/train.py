"""`samebits train`: a full model trained under many configurations, and every run compared with the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from samebits.cli import engine_options, options
from samebits.cli.declared import option, record_of, words_of
from samebits.cli.engine_options import DistributedOptions, started
from samebits.rooms import door


@dataclass(frozen=True, kw_only=True)
class TrainOptions(engine_options.EngineOptions, DistributedOptions, options.ReportOptions):
    """The options of `samebits train`."""

    matrix: Annotated[str | None, option("All runs of a matrix.", "NAME")] = None
    config: Annotated[str | None, option("One configuration, compared with itself on one device.", "NAME")] = None
    steps: Annotated[int, option("Steps per run.", "N", least=1)] = 20
    dtype: Annotated[Literal["float32", "bfloat16"] | None, option("Activation dtype; float32 by default.")] = None
    mesh: Annotated[str | None, option("With --config: another mesh, such as expert8.", "MESH")] = None
    shard_mode: Annotated[Literal["auto", "explicit"] | None, option("With --config: another sharding mode.")] = None
    choice: Annotated[tuple[str, ...], option("With --config: another side of a pair.", "PAIR=SIDE")] = ()
    text: Annotated[Path | None, option("Train on the bytes of a file.", "FILE")] = None
    against: Annotated[
        str | None, option("Compare with another git revision, loss by loss and norm by norm.", "REV")
    ] = None
    beside: Annotated[
        Path | None,
        option(
            "Compare with a document of the same matrix: which runs have its bits, which lie within the envelope.",
            "FILE",
        ),
    ] = None
    detection: Annotated[bool, option("Plant the model's defects one by one; show which gate finds which.")] = False
    list_: Annotated[bool, option("List matrices and configurations.")] = False
    verbose: options.Verbose = False
    root: options.Tree = None
    no_cache: Annotated[bool, option("Compile again, cache nothing (always so on the CPU).")] = False
    platform: options.Platform = None

    def there(self) -> list[str]:
        """Return the options of the same runs at another revision, without those of today's runs and their report."""
        today = ("--root", "--against", "--beside", "--detection", "--list", "--verbose")
        files = replace(self, text=None if self.text is None else self.text.resolve())
        return words_of(files, TrainOptions, engine_options.ClusterOptions, engine_options.WorkerOptions, but=today)


@options.command(TrainOptions)
def train(chosen: TrainOptions) -> int:
    """Train a full model under every configuration of a matrix, and say which runs have identical bits.

    The first run is repeated and rewritten in ways that leave its mathematics unchanged; how far its bits move then
    bounds all others. Single steps from the same state are compared array by array, whole runs by their losses.
    Configurations run in worker processes, also those of another revision and those with a planted defect: one that
    crashes or does not end is reported, and the others are compared.
    """
    spanning = chosen.spanning()
    chosen.alone_only("against", "detection", "list_")
    if chosen.distributed:
        chosen.require_no_engine("train --distributed")
    from samebits.train.request import TrainRequest, select

    request = record_of(TrainRequest, chosen, choices=chosen.choice)
    if chosen.list_:
        shown: int = door("cli.train_run").show_list(request)
        return shown
    model, matrix = select(request)
    then = None
    if chosen.against is not None:
        from samebits.cli.train_against import train_at

        then = train_at(chosen.against, request.tree, chosen.there(), [run.name for run in matrix.runs])
    from samebits.host import environment
    from samebits.schema.meshes import MeshSpec

    wanted = max(MeshSpec.parse(config.mesh).devices for config in matrix.runs)
    # Each of several processes has as many devices as its environment says.
    devices = wanted if wanted > environment.asked_devices() and spanning is None else None
    settings = chosen.prepared(devices=devices)
    group = started(spanning)
    settings = replace(settings, group=group)
    return options.run("train_run:train_matrix", chosen, request, model, matrix, then, settings, group=group)
