"""The connection to a Ray cluster: made in bounded time, or the failure reported in one line; the room on its nodes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from samebits.cluster.ray_node import node_name, tasks_on
from samebits.engine.ray_request import ACCELERATORS, LOCAL, RayRequest
from samebits.errors import RequestError

REACHED = 10.0
"""Seconds in which the address must take a connection."""

OBJECT_STORE = 2**28
"""Bytes of shared memory for a cluster of this machine; results are small, and containers have little of it."""

SLICE = "ray.io/tpu-slice-name"
"""Ray's label for the TPU slice that a node is a host of."""

Node = Mapping[str, Any]
"""An entry of `ray.nodes()`."""

_IN_BYTES = ("memory", "object_store_memory")
"""Resources that Ray takes by options of their own."""


class RayCluster:
    """A connected cluster.

    Args:
        request: what is asked for.
        nodes: those that are alive.
        owned: whether this object has made the connection, and ends it.

    Raises:
        RequestError: it has no room for what is asked for.
    """

    def __init__(self, request: RayRequest, nodes: Sequence[Node], owned: bool) -> None:
        self.request, self._owned = request, owned
        self.task = task_resources(request, nodes)

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive now and have room for a task, in an order that stays."""
        import ray

        alive = [node for node in ray.nodes() if node["Alive"] and tasks_on(node["Resources"], self.task)]
        return sorted(alive, key=lambda node: str(node["NodeID"]))

    def room(self) -> int:
        """Return how many tasks run beside each other now."""
        return sum(tasks_on(node["Resources"], self.task) for node in self.nodes())

    def options(self) -> dict[str, Any]:
        """Return the options of a task."""
        rest = {name: amount for name, amount in self.task.items() if name not in ("CPU", "GPU", *_IN_BYTES)}
        return {
            **{name: self.task[name] for name in _IN_BYTES if name in self.task},
            "num_cpus": self.task.get("CPU", 0),
            "num_gpus": self.task.get("GPU", 0),
            "resources": rest,
            # Whether and how often a chunk runs again is decided by the driver, which knows what is done of it.
            "max_retries": 0,
            "retry_exceptions": False,
            "num_returns": "streaming",
            # Chunks are long and large: by default Ray fills one node before it uses the next.
            "scheduling_strategy": "SPREAD",
        }

    def close(self) -> None:
        """End the connection, and a cluster that was started for it."""
        if self._owned:
            import ray

            with _signals_unchanged():
                ray.shutdown()


def connect(request: RayRequest) -> RayCluster:
    """Reach a cluster, or start one of this machine alone.

    Args:
        request: what is asked for; where this process is connected already, its address does not count.

    Raises:
        RequestError: Ray is not installed, the cluster cannot be reached, or it has no room for what is asked for.
    """
    ray = require_ray()
    owned = not ray.is_initialized()
    if owned:
        _init(ray, request)
    try:
        return RayCluster(request, [node for node in ray.nodes() if node["Alive"]], owned)
    except BaseException:
        if owned:
            with _signals_unchanged():
                ray.shutdown()
        raise


def task_resources(request: RayRequest, nodes: Sequence[Node]) -> dict[str, float]:
    """Return the resources of each task: what was asked for, one CPU, and all chips or GPUs of a node."""
    task = {"CPU": 1.0, **request.task}
    wanted = ACCELERATORS.get(request.platform)
    if wanted is not None and wanted not in task:
        # One process takes all chips of a host: a second one could not start there.
        task[wanted] = max((float(node["Resources"].get(wanted, 0)) for node in nodes), default=0.0)
        if not task[wanted]:
            raise RequestError(
                f"--platform {request.platform} asks for {wanted}, the cluster has none ({_in_words(nodes)}); if Ray "
                f"does not find the devices, start nodes with `ray start --resources='{{\"{wanted}\": 4}}'`"
            )
    fitting = [node for node in nodes if tasks_on(node["Resources"], task)]
    if not fitting:
        listed = ", ".join(f"{name}: {amount:g}" for name, amount in task.items())
        raise RequestError(f"--ray asks for {listed} for each task, no node has that ({_in_words(nodes)})")
    if wanted == "TPU":
        _require_single_hosts(fitting)
    return task


def _require_single_hosts(nodes: Sequence[Node]) -> None:
    """A process on one host of a slice waits for those on the others, which are not tasks of the same chunk."""
    hosts: dict[str, str] = {}
    for node in nodes:
        name = (node.get("Labels") or {}).get(SLICE)
        if name in hosts:
            raise RequestError(
                f"nodes {hosts[name]} and {node_name(node)} are hosts of one TPU slice, '{name}': a task has one host, "
                "and a process there would wait for the others; use slices of one host, or --distributed on all hosts"
            )
        if name:
            hosts[name] = node_name(node)


def _in_words(nodes: Sequence[Node]) -> str:
    """Return what a cluster has, such as `2 nodes: CPU 8, 4`."""
    has = []
    for name in ("CPU", *ACCELERATORS.values()):
        amounts = [f"{node['Resources'][name]:g}" for node in nodes if node["Resources"].get(name)]
        if amounts:
            has.append(f"{name} {', '.join(amounts)}")
    return f"{len(nodes)} node{'s' * (len(nodes) != 1)}: {'; '.join(has) or 'no resources'}"


def require_ray() -> Any:
    """Ray's module, which only runs with `--ray` need."""
    try:
        import ray
    except ImportError as error:
        missing = "is not installed" if error.name == "ray" else f"does not import: {error}"
        raise RequestError(f"--ray: Ray {missing}; pip install 'samebits[ray]'") from None
    return ray


def _init(ray: Any, request: RayRequest) -> None:
    """Connect as driver; Ray's own lines stay away from the report."""
    usual = {"address": request.address, "log_to_driver": False, "logging_level": "ERROR"}
    local = {"num_cpus": request.workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    # A cluster for one run reports no usage. One attempt to reach another: without the variable Ray takes 15 minutes.
    name, value = (
        ("RAY_USAGE_STATS_ENABLED", "0") if request.address == LOCAL else ("RAY_gcs_server_port_wait_time_s", "1")
    )
    _require_listener(request.address)
    with _signals_unchanged(), _variable(name, value):
        try:
            ray.init(**usual, **(local if request.address == LOCAL else {}))
        except Exception as error:
            why = " ".join(str(error).split())[:300]
            raise RequestError(
                f"--ray {request.address}: no cluster can be reached from this machine: {why} (start one with "
                "`ray start --head`, run samebits on one of its nodes, or leave the address out)"
            ) from None


def _require_listener(address: str) -> None:
    """Reject an address where nothing takes a connection: Ray itself would try for a long time."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED):
            return
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RequestError(
            f"--ray {address}: no connection ({why}); expected HOST:PORT of the cluster's head, as `ray status` and "
            "`ray start --head` print it"
        ) from None


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Give an environment variable a value inside, unless the user has set it."""
    before = os.environ.get(name)
    os.environ.setdefault(name, value)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _signals_unchanged() -> Iterator[None]:
    """Ray sets a handler of SIGTERM, which would end the process without a report."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
