"""What a run on Ray is asked for: the cluster, and the resources of each task. Needs no Ray."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError

LAST_PORT = 65535
"""Of TCP."""

LOCAL = "local"
"""The address for a cluster of this machine alone, which is started for the run."""

ACCELERATORS = {"tpu": "TPU", "gpu": "GPU"}
"""Ray's resource for each platform that has one."""

_SPELT = {name.lower(): name for name in ("CPU", "memory", *ACCELERATORS.values())}
"""How Ray writes the names of its own resources; all others are the cluster's."""

_PASSED_ON = ("JAX_", "XLA_", "LIBTPU_", "SAMEBITS_")
"""Beginnings of the names of environment variables that tasks get from the driver. What says which devices of a host
a process may use, as TPU_VISIBLE_CHIPS and CUDA_VISIBLE_DEVICES do, is set by Ray on each node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RayRequest:
    """A run on Ray.

    Args:
        address: `local`, `auto`, or HOST:PORT of a cluster.
        task: resources of each task by Ray's name, such as `{"CPU": 2}`; what is missing is chosen by the platform.
        platform: that tasks run on: `cpu`, `tpu` or `gpu`.
        workers: at most how many tasks run beside each other; None for as many as the cluster has room for.
        folders: absolute paths of the user's trees, which must be the same on every node.
    """

    address: str
    task: Mapping[str, float]
    platform: str = "cpu"
    workers: int | None = None
    folders: tuple[str, ...] = ()

    def environment(self, mine: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that tasks get from the driver, whose own platform is the CPU."""
        passed = {name: value for name, value in mine.items() if name.startswith(_PASSED_ON)}
        return {**passed, "JAX_PLATFORMS": self.platform}


def ray_request(
    address: str,
    task: Sequence[str],
    *,
    platform: str | None = None,
    workers: int | None = None,
    root: Path | None = None,
) -> RayRequest:
    """Return a request from the words of the command line."""
    if address == LOCAL:
        address = os.environ.get("RAY_ADDRESS", LOCAL)
    if address.startswith("ray://"):
        raise RequestError(
            f"--ray {address}: Ray's client protocol streams no results; run samebits on a machine of the cluster, for "
            "instance by `ray job submit --working-dir . -- samebits check --ray auto`"
        )
    if address not in (LOCAL, "auto") and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}", address):
        raise RequestError(
            f"--ray {address}: expected local, auto or HOST:PORT; names of pairs go before --ray, or write --ray=local"
        )
    port = address.rpartition(":")[2]
    if port.isdecimal() and int(port) > LAST_PORT:
        raise RequestError(f"--ray {address}: expected a port of at most {LAST_PORT}, as `ray status` prints it")
    platform = platform or "cpu"
    resources = dict(_resource(text) for text in task)
    wanted = ACCELERATORS.get(platform)
    for name in ACCELERATORS.values():
        if name in resources and name != wanted:
            raise RequestError(
                f"--ray-task {name}={resources[name]:g}: tasks run on the {platform} and would leave it idle; "
                f"add --platform {name.lower()}"
            )
    folder = str((root or Path()).resolve())
    return RayRequest(address=address, task=resources, platform=platform, workers=workers, folders=(folder,))


def _resource(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"([A-Za-z][\w.:-]*)=(\d+(?:\.\d+)?)", text)
    if match is None or (amount := float(match[2])) <= 0:
        raise RequestError(f"--ray-task {text}: expected NAME=AMOUNT with an amount above 0, such as CPU=2 or TPU=4")
    if amount > 1 and amount != int(amount):
        raise RequestError(f"--ray-task {text}: expected an integer above 1, or a part of 1 such as CPU=0.5")
    name = _SPELT.get(match[1].lower(), match[1])
    if name != match[1]:
        raise RequestError(f"--ray-task {text}: did you mean {name}={match[2]}? Ray's names are case-sensitive")
    return name, amount
