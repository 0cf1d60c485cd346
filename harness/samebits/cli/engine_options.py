"""The options of commands that have an engine run items: processes, limits, journal, cache and shard; and lockstep."""

from __future__ import annotations

import math
import os
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samebits.cli.declared import given, option, spelled
from samebits.engine.distributed_request import (
    COORDINATOR,
    DISTRIBUTED,
    NUM_PROCESSES,
    PROCESS_ID,
    VARIABLES,
    WAIT,
    DistributedRequest,
)
from samebits.errors import RequestError
from samebits.host.cache_folder import parse_size
from samebits.host.output_files import require_regular

if TYPE_CHECKING:
    from samebits.cluster.process_group import ProcessGroup
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
        """Return the settings of the engine."""
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
        """Return the bytes of `--memory`."""
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
        """Return the settings of the engine on a platform; jax chooses by default, and the CPU on Ray."""
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
        """Return the platform of this process: the CPU where items run on Ray, whose tasks have the accelerators."""
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
        """Return the settings of the engine."""
        from samebits.engine.work import Shard

        part = None if shard is None else Shard.parse(shard)
        require_regular("--journal", self.journal)
        settings = self.settings_on(platform)
        return replace(settings, resume=self.resume, journal=self.journal, fresh=fresh, shard=part)

    def prepared(self, *, shard: str | None = None, fresh: bool = False, devices: int | None = None) -> EngineSettings:
        """Prepare the environment, and return the settings of the engine: how many workers there are depends on it."""
        from samebits.host import environment

        platform: str | None = getattr(self, "platform", None)
        environment.prepare(devices=devices, platform=self.driver_platform(platform), processes=self.workers or 1)
        return self.engine_settings(shard=shard, fresh=fresh, platform=platform)

    def require_no_engine(self, what: str) -> None:
        """Reject these options for a command that does everything in its own process."""
        for name in given(self, WorkerOptions, ClusterOptions, EngineOptions):
            if name != "--in-process":  # which is what such a command does anyway
                raise RequestError(f"{name} is about worker processes; `samebits {what}` has none, leave it out")


@dataclass(frozen=True, kw_only=True)
class DistributedOptions:
    """Which of several processes this is."""

    HEADING = "Several processes with one mesh"

    distributed: Annotated[
        bool,
        option(
            "Run as one of several processes with one mesh; jax.distributed detects the launcher.",
            variable=DISTRIBUTED,
        ),
    ] = False
    coordinator: Annotated[
        str | None, option("Process 0, if no launcher is detected.", "HOST:PORT", variable=COORDINATOR)
    ] = None
    process_id: Annotated[int | None, option("Which process this is, from 0.", "I", variable=PROCESS_ID)] = None
    num_processes: Annotated[int | None, option("Number of processes.", "N", variable=NUM_PROCESSES)] = None
    wait: Annotated[
        int,
        option(
            "With --distributed: how long a process waits for the others at a point.",
            "SECONDS",
            least=1,
            variable=WAIT,
        ),
    ] = 600

    def spanning(self) -> DistributedRequest | None:
        """Return what is said about the processes; None where this one is alone."""
        for name in VARIABLES:  # processes that are started from here are not among those meant
            os.environ.pop(name, None)
        if not self.distributed:
            for name in given(self, DistributedOptions):
                if name != "--wait":  # which a launcher may set for every process
                    raise RequestError(f"{name} goes with --distributed; add it")
            return None
        return DistributedRequest(
            coordinator=self.coordinator,
            process_id=self.process_id,
            num_processes=self.num_processes,
            seconds=float(self.wait),
        )

    def alone_only(self, *names: str) -> None:
        """Reject options that several processes with one mesh do not have."""
        for name in names:
            if self.distributed and getattr(self, name) not in (None, False):
                more = "; --wait SECONDS limits each point" if name == "timeout" else ""
                raise RequestError(f"--{spelled(name)} does not go with --distributed{more}; leave it out")


def started(request: DistributedRequest | None) -> ProcessGroup | None:
    """Start jax among the processes of a request, after `environment.prepare`; None where this one is alone."""
    if request is None:
        return None
    from samebits.cluster.start import start

    _drop_lines_of_gloo()
    return start(request)


def _drop_lines_of_gloo() -> None:
    """Drop what gloo prints to standard output for every device of every communicator, from many threads at once."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)

    def forward() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "[Gloo] Rank " not in line and "Expected number of connected peer ranks" not in line:
                    print(line, end="", file=sys.__stderr__, flush=True)

    threading.Thread(target=forward, name="output of others", daemon=True).start()
