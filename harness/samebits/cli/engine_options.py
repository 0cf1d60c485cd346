"""The options of commands that have an engine run items: processes, limits, journal, cache and shard."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samebits.cli.declared import given, option
from samebits.errors import RequestError
from samebits.host.cache_folder import parse_size
from samebits.host.output_files import require_regular

if TYPE_CHECKING:
    from samebits.engine.run_work import EngineSettings

_SIZES = "a size such as 8G or 512M"

ShardOption = Annotated[str | None, option("Only part K of N, with about as many items as the others.", "K/N")]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Where items run, and what each may take."""

    HEADING = "Where it runs"

    workers: Annotated[
        int | None, option("Number of worker processes; by default one per processor, at most 8.", "N", least=1)
    ] = None
    in_process: Annotated[bool, option("Run in this process, without isolation: for debuggers.")] = False
    timeout: Annotated[float | None, option("End an item that takes longer; 900 by default.", "SECONDS", above=0)] = (
        None
    )
    memory: Annotated[
        str | None,
        option("End an item whose process uses more, such as 8G; by default a share of the machine's memory.", "SIZE"),
    ] = None

    def engine_settings(self) -> EngineSettings:
        """The settings of the engine.

        Raises:
            RequestError: two options contradict each other, or a size is malformed.
        """
        from samebits.engine.run_work import EngineSettings, usual_settings

        self._require_consistent()
        if self.in_process:
            return EngineSettings(in_process=True)
        return usual_settings(workers=self.workers, seconds=self.timeout, limit=self._limit())

    def _require_consistent(self) -> None:
        """Reject options that contradict each other."""
        for name, value in (("workers", self.workers), ("timeout", self.timeout), ("memory", self.memory)):
            if self.in_process and value is not None:
                raise RequestError(f"--{name} is about worker processes, and --in-process has none: leave one out")
        if self.timeout is not None and math.isnan(self.timeout):
            raise RequestError("--timeout nan: expected a number of seconds")

    def _limit(self) -> int | None:
        """The bytes of `--memory`."""
        if self.memory is None:
            return None
        limit = parse_size(self.memory, "--memory", _SIZES)
        if limit == 0:
            raise RequestError(f"--memory {self.memory}: no process runs without memory; expected {_SIZES}")
        return limit


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(WorkerOptions):
    """Where items run, on this machine or on a cluster."""

    HEADING = WorkerOptions.HEADING

    ray: Annotated[
        str | None,
        option(
            "Run as tasks of a Ray cluster: auto, HOST:PORT, or local for one on this machine.",
            "[ADDRESS]",
            alone="local",
        ),
    ] = None
    ray_task: Annotated[
        tuple[str, ...],
        option(
            "Resources per task, such as CPU=4; by default one CPU, and all TPU chips or GPUs of a node.",
            "NAME=AMOUNT",
        ),
    ] = ()

    def settings_on(self, platform: str | None) -> EngineSettings:
        """The settings of the engine.

        Args:
            platform: where items run; jax chooses by default, and the CPU on Ray.

        Raises:
            RequestError: two options contradict each other, or a size is malformed.
        """
        if self.ray_task and self.ray is None:
            raise RequestError(f"--ray-task {self.ray_task[0]}: it is about tasks of a Ray cluster; add --ray")
        if self.ray is not None and self.in_process:
            raise RequestError("--ray runs items in processes of a cluster, and --in-process here: leave one out")
        if self.ray is None:
            return super().engine_settings()
        from samebits.engine.ray_request import ray_request
        from samebits.engine.run_work import EngineSettings

        self._require_consistent()
        root: Path | None = getattr(self, "root", None)
        request = ray_request(self.ray, self.ray_task, platform=platform, workers=self.workers, root=root)
        # The memory of this machine says nothing about the nodes: each finds the share of a task itself.
        settings = EngineSettings(workers=self.workers, bytes=self._limit(), ray=request)
        return settings if self.timeout is None else replace(settings, seconds=self.timeout)

    def driver_platform(self, platform: str | None) -> str | None:
        """The platform of this process: the CPU where items run on Ray, which has the accelerators for its tasks.

        Args:
            platform: where items run.
        """
        return platform if self.ray is None else "cpu"


@dataclass(frozen=True, kw_only=True)
class EngineOptions(ClusterOptions):
    """Where items run, and where their results are at once."""

    HEADING = WorkerOptions.HEADING

    resume: Annotated[bool, option("Continue an interrupted earlier run of the same request.")] = False
    journal: Annotated[
        Path | None,
        option(
            "Write each result here at once, and keep the file; by default a temporary file in the cache folder.",
            "FILE",
        ),
    ] = None

    def engine_settings(
        self, *, shard: str | None = None, fresh: bool = False, platform: str | None = None
    ) -> EngineSettings:
        """The settings of the engine.

        Args:
            shard: the text of `--shard`.
            fresh: whether remembered results are ignored.
            platform: where items run; jax chooses by default, and the CPU on Ray.

        Raises:
            RequestError: two options contradict each other, or a size or a shard is malformed.
        """
        from samebits.engine.shard import Shard

        part = None if shard is None else Shard.parse(shard)
        require_regular("--journal", self.journal)
        settings = self.settings_on(platform)
        return replace(settings, resume=self.resume, journal=self.journal, fresh=fresh, shard=part)

    def require_no_engine(self, what: str) -> None:
        """Reject these options for a command that does everything in its own process.

        Args:
            what: the command, as in "prove model".

        Raises:
            RequestError: one was given.
        """
        for name in given(self, WorkerOptions, ClusterOptions, EngineOptions):
            if name != "--in-process":  # which is what such a command does anyway
                raise RequestError(f"{name} is about worker processes; `samebits {what}` has none, leave it out")
