"""What of a connection needs no cluster."""

import sys
from typing import Any

import pytest

from samebits.cluster.ray_connection import SLICE, RayCluster, connect, require_ray, task_resources
from samebits.engine.ray_request import ray_request
from samebits.errors import RequestError


def node(name: str, labels: dict[str, str] | None = None, **resources: float) -> dict[str, Any]:
    """An entry of `ray.nodes()`."""
    return {
        "NodeID": name,
        "NodeManagerHostname": name,
        "NodeManagerAddress": "10.0.0.1",
        "Alive": True,
        "Resources": resources,
        "Labels": labels,
    }


def test_a_task_takes_all_chips_of_a_host() -> None:
    nodes = [node("head", CPU=8), node("one", CPU=8, TPU=4), node("two", CPU=8, TPU=4)]
    assert task_resources(ray_request("local", (), platform="tpu"), nodes) == {"CPU": 1, "TPU": 4}
    assert task_resources(ray_request("local", ("TPU=1",), platform="tpu"), nodes) == {"CPU": 1, "TPU": 1}
    assert task_resources(ray_request("local", ("CPU=2",)), nodes) == {"CPU": 2}


def test_memory_is_an_option_and_no_resource_of_a_task() -> None:
    """Ray raises ValueError where `resources` has it."""
    nodes = [node("one", CPU=8, fast=4, memory=9e9)]
    options = RayCluster(ray_request("local", ("memory=1000", "fast=2")), nodes, owned=False).options()
    assert (options["memory"], options["resources"], options["num_cpus"]) == (1000, {"fast": 2}, 1)


def test_a_cluster_without_the_resources_is_told() -> None:
    nodes = [node("head", CPU=8), node("one", CPU=2)]
    with pytest.raises(RequestError, match=r"--platform tpu asks for TPU, the cluster has none \(2 nodes: CPU 8, 2\)"):
        task_resources(ray_request("local", (), platform="tpu"), nodes)
    with pytest.raises(RequestError, match=r"asks for CPU: 1, TPU: 4 for each task, no node has that \(2 nodes: CPU"):
        task_resources(ray_request("local", ("TPU=4",), platform="tpu"), nodes)


def test_a_slice_of_several_hosts_is_told() -> None:
    hosts = [node(f"host{n}", {SLICE: "slice-0"}, CPU=8, TPU=4) for n in range(2)]
    with pytest.raises(RequestError, match=r"nodes host0 \(10.0.0.1\) and host1 \(10.0.0.1\) are hosts of one TPU"):
        task_resources(ray_request("local", (), platform="tpu"), hosts)
    alone = [node(f"host{n}", {SLICE: f"slice-{n}"}, CPU=8, TPU=4) for n in range(2)]
    assert task_resources(ray_request("local", (), platform="tpu"), alone)["TPU"] == 4


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for called in (require_ray, lambda: connect(ray_request("local", ()))):
        with pytest.raises(RequestError, match=r"--ray: Ray is not installed; pip install 'samebits\[ray\]'"):
            called()
