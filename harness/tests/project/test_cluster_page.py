"""The manifests of the page about clusters, held against the command line and against what tasks ask for."""

import itertools
import re
import shlex
from typing import Any

import pytest
import yaml

from samebits.cluster.ray_connection import task_resources
from samebits.engine.ray_request import ray_request
from tests.project.pages import DOCS, blocks, rejected
from tests.support.invoke import REPOSITORY

PAGE = DOCS / "guides" / "clusters.md"

MANIFESTS = [
    yaml.safe_load(b.text) for b in blocks(PAGE.read_text(encoding="utf-8"), PAGE.name) if b.language == "yaml"
]


def words_of(manifest: Any) -> list[str]:
    program, *words = shlex.split(manifest["spec"]["entrypoint"])
    assert program == "samebits"
    return words


def values(words: list[str], option: str) -> list[str]:
    return [after for word, after in itertools.pairwise(words) if word == option]


def workers(manifest: Any) -> Any:
    (group,) = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return group


def container(group: Any) -> Any:
    (only,) = group["template"]["spec"]["containers"]
    return only


def as_ray_sees_it(manifest: Any) -> list[dict[str, Any]]:
    """The nodes that KubeRay makes of the workers: their limits are Ray's resources."""
    group = workers(manifest)
    limits = container(group)["resources"]["limits"]
    resources = {"CPU": float(limits["cpu"])}
    if "google.com/tpu" in limits:
        resources["TPU"] = float(limits["google.com/tpu"])
    return [{"Resources": resources, "Labels": {}} for _ in range(group["replicas"])]


def test_there_is_one_for_cpus_and_one_for_tpus() -> None:
    assert [manifest["metadata"]["name"] for manifest in MANIFESTS] == ["samebits-cpu", "samebits-tpu"]
    assert {(manifest["apiVersion"], manifest["kind"]) for manifest in MANIFESTS} == {("ray.io/v1", "RayJob")}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=["cpu", "tpu"])
def test_the_entrypoint_is_a_command_line(manifest: Any) -> None:
    assert rejected(words_of(manifest)) is None
    assert rejected([*words_of(manifest), "--rayy"]) is not None, "the check can fail"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=["cpu", "tpu"])
def test_the_workers_have_what_tasks_ask_for(manifest: Any) -> None:
    words = words_of(manifest)
    (address,) = values(words, "--ray")
    platform = next(iter(values(words, "--platform")), None)
    request = ray_request(address, values(words, "--ray-task"), platform=platform)
    nodes = as_ray_sees_it(manifest)
    task = task_resources(request, nodes)
    if platform == "tpu":
        assert task["TPU"] == nodes[0]["Resources"]["TPU"], "a process takes all chips of its host"
        assert workers(manifest)["numOfHosts"] == 1
        assert workers(manifest)["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2"
    assert container(workers(manifest))["resources"]["limits"] == container(workers(manifest))["resources"]["requests"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=["cpu", "tpu"])
def test_what_is_written_lies_on_the_volume(manifest: Any) -> None:
    words, head = words_of(manifest), manifest["spec"]["rayClusterSpec"]["headGroupSpec"]
    (mount,) = container(head)["volumeMounts"]
    for option in ("--journal", "--json", "--markdown"):
        assert all(path.startswith(mount["mountPath"] + "/") for path in values(words, option))
    assert head["rayStartParams"]["num-cpus"] == "0", "the driver has the head for itself"
    assert container(head)["image"] == container(workers(manifest))["image"], "versions must agree"


def test_the_versions_of_ray_are_the_pinned_one() -> None:
    (pinned,) = re.findall(r"^ray==(\S+)$", (REPOSITORY / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert {manifest["spec"]["rayClusterSpec"]["rayVersion"] for manifest in MANIFESTS} == {pinned}
    assert f"FROM rayproject/ray:{pinned}-py312" in PAGE.read_text(encoding="utf-8")
