"""The devices of a target: TPU slices, CPUs of this process, and a missing TPU compiler."""

import importlib.metadata
import re
from collections.abc import Callable
from typing import Any

import pytest

from samebits.compile import devices as topology
from samebits.compile.devices import NoCompiler, compiler_version, devices, target_mesh
from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import MeshSpec
from samebits.schema.target import GENERATIONS, Target
from tests.support.installed import versions

NO_LIBTPU = compiler_version(Target(name="v5e:2x2")) is None
needs_libtpu = pytest.mark.skipif(NO_LIBTPU, reason="libtpu, the TPU compiler, is not installed")


@pytest.fixture
def fresh() -> Callable[[Target], Any]:
    """`devices` without what it remembers, and without making it forget."""
    return devices.__wrapped__


def test_without_libtpu_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch, fresh: Callable[[Target], Any]) -> None:
    versions(monkeypatch, libtpu=None)
    line = "target 'v5e:2x2' needs the TPU compiler, which is not installed: pip install 'samebits[tpu]'"
    with pytest.raises(NoCompiler, match=f"^{re.escape(line)}$") as caught:
        fresh(Target(name="v5e:2x2"))
    assert caught.value.exit_code == 3
    assert compiler_version(Target(name="v5e:2x2")) is None
    assert compiler_version(Target(name="cpu")) == importlib.metadata.version("jaxlib")


def test_cpus(fresh: Callable[[Target], Any]) -> None:
    assert len(fresh(Target(name="cpu:2"))) == 2
    assert fresh(Target(name="cpu"))[:2] == fresh(Target(name="cpu:2"))
    there = len(fresh(Target(name="cpu")))
    line = f"target 'cpu:4096': {there} CPU devices are there; set JAX_NUM_CPU_DEVICES=4096 before jax starts"
    with pytest.raises(RequestError, match=f"^{re.escape(line)}$"):
        fresh(Target(name="cpu:4096"))


def test_a_mesh_over_the_devices_of_a_target() -> None:
    mesh = target_mesh("cpu:4", "fsdp*_tensor2", "explicit")
    assert dict(mesh.shape) == {"fsdp": 2, "tensor": 2}
    assert mesh.explicit_axes == ("fsdp", "tensor")
    assert target_mesh(Target(name="cpu:4"), MeshSpec.parse("context2")).devices.size == 2
    with pytest.raises(MeshError, match="does not fit 4 devices"):
        target_mesh("cpu:4", "context8")


@needs_libtpu
def test_a_slice_counts_chips_and_some_hold_two_devices() -> None:
    assert (len(topology.devices(Target(name="v5e:2x2"))), len(topology.devices(Target(name="tpu7x:2x2x1")))) == (4, 8)


@needs_libtpu
@pytest.mark.parametrize("name", ["v9:2x2", "v5e:3x5"])
def test_a_slice_that_the_compiler_does_not_know(name: str) -> None:
    with pytest.raises(RequestError, match=f"^target '{name}': the TPU compiler does not give this slice: ") as caught:
        devices(Target(name=name))
    assert "\n" not in str(caught.value)
    assert f"generations are {', '.join(GENERATIONS)}" in str(caught.value)
