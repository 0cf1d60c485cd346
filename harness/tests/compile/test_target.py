"""Targets by name, layouts spread over their devices, and the TPU compiler where it is missing or does not fit."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.compile import devices as topology
from samebits.compile.devices import NoCompiler, compiler_version, devices, target_mesh
from samebits.errors import DeclarationError, MeshError, RequestError
from samebits.host import libtpu
from samebits.schema.case import Case
from samebits.schema.compile_claim import Claim
from samebits.schema.meshes import MeshSpec
from samebits.schema.real_size import RealSize
from samebits.schema.target import GENERATIONS, Target, fixed_part, spread

NO_LIBTPU = compiler_version(Target(name="v5e:2x2")) is None
needs_libtpu = pytest.mark.skipif(NO_LIBTPU, reason="libtpu, the TPU compiler, is not installed")


@pytest.mark.parametrize(
    ("name", "platform", "cpus"),
    [
        ("cpu", "cpu", None),
        ("cpu:1", "cpu", 1),
        ("cpu:16", "cpu", 16),
        ("v5e:2x2", "tpu", None),
        ("tpu7x:4x4x4", "tpu", None),
        ("v9:2x2", "tpu", None),  # the compiler itself says which it knows
    ],
)
def test_names(name: str, platform: str, cpus: int | None) -> None:
    target = Target(name=name)
    assert (target.platform, target.cpu_devices) == (platform, cpus)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tpu",
        "v5e",
        "v5e:",
        "v5e:4",
        "v5e:2x",
        "v5e:0x2",
        "v5e:2x2x2x2",
        "V5E:2x2",
        "v5e 2x2",
        "cpu:0",
        "cpu:",
        "gpu",
    ],
)
def test_malformed_names(name: str) -> None:
    line = f"target '{name}' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4"
    with pytest.raises(RequestError, match=f"^{re.escape(line)}$"):
        Target(name=name)


@pytest.mark.parametrize("name", ["v7x", "v7", "tpu7"])
def test_the_newest_generation_is_often_called_otherwise(name: str) -> None:
    with pytest.raises(RequestError, match=rf"^target '{name}:2x2x1' is unknown; did you mean 'tpu7x:2x2x1'\?$"):
        Target(name=f"{name}:2x2x1")


@pytest.mark.parametrize(
    ("layout", "number", "mesh"),
    [
        ("context*", 8, "context8"),
        ("context*", 1, "context1"),
        ("fsdp*_tensor2", 128, "fsdp64_tensor2"),
        ("tensor2_fsdp*_expert4", 8, "tensor2_fsdp1_expert4"),
        ("context4", 4, "context4"),
        ("context4", 8, "context4"),
    ],
)
def test_a_layout_is_spread_over_the_devices(layout: str, number: int, mesh: str) -> None:
    assert spread(layout, number) == MeshSpec.parse(mesh)


@pytest.mark.parametrize(
    ("layout", "number", "line"),
    [
        ("context8", 4, "layout 'context8' does not fit 4 devices; its fixed axes need 8"),
        ("fsdp*_tensor3", 8, "layout 'fsdp*_tensor3' does not fit 8 devices; its fixed axes need 3"),
        ("fsdp*_tensor16", 8, "layout 'fsdp*_tensor16' does not fit 8 devices; its fixed axes need 16"),
        ("fsdp*_tensor*", 8, "layout 'fsdp*_tensor*' has 2 stars; expected at most one size left open"),
    ],
)
def test_layouts_that_do_not_fit(layout: str, number: int, line: str) -> None:
    with pytest.raises(MeshError, match=f"^{re.escape(line)}$"):
        spread(layout, number)


@pytest.mark.parametrize("layout", ["", "*", "context", "rows*", "context*_context2"])
def test_malformed_layouts(layout: str) -> None:
    with pytest.raises(MeshError, match=r"^mesh "):
        fixed_part(layout)


# --- real sizes ------------------------------------------------------------------------------------------------------


def real(**changes: Any) -> RealSize:
    usual = {"case": Case(id="long", sizes={"rows": 8}), "layout": "context*", "dtype": "float32", "targets": ("cpu",)}
    return RealSize(**{**usual, **changes})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "targets as text": ({"targets": "cpu"}, "targets is the text 'cpu'; expected a tuple, as in ('cpu',)"),
    "no target": ({"targets": ()}, "names no targets; write targets=('tpu7x:2x2x1',)"),
    "malformed target": ({"targets": ("cpu", "v5e")}, "target 'v5e' is malformed"),
    "malformed layout": ({"layout": "context"}, "mesh 'context' is malformed"),
    "two stars": ({"layout": "context*_fsdp*"}, "has 2 stars"),
    "claims as a list": ({"claims": [Claim(shows="no_gathers", source="us")]}, "claims is of type list"),
    "mode": ({"mode": "manual"}, "mode 'manual' is unknown; expected some of auto, explicit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_size_refuses(name: str) -> None:
    changes, words = REFUSED[name]
    assert real().claims == ()
    with pytest.raises(DeclarationError, match=re.escape(words)) as caught:
        real(**changes)
    assert str(caught.value).startswith("real size 'long'") and "\n" not in str(caught.value)


# --- machines --------------------------------------------------------------------------------------------------------


def plugged(folder: Path, *cards: tuple[str, str]) -> Path:
    for number, (vendor, device) in enumerate(cards):
        card = folder / f"0000:00:{number:02x}.0"
        card.mkdir(parents=True)
        (card / "vendor").write_text(f"{vendor}\n")
        (card / "device").write_text(f"{device}\n")
    return folder


@pytest.mark.parametrize(
    ("cards", "found"),
    [
        ((), False),
        ((("0x1ae0", "0x0042"),), False),  # gVNIC, the network card of Google's machines
        ((("0x8086", "0x0063"),), False),
        ((("0x1ae0", "0x0042"), ("0x1ae0", "0x0063")), True),
        ((("0x1ae0", "0x0076"),), True),
    ],
    ids=["nothing", "network card", "another maker", "v5e beside a network card", "7x"],
)
def test_a_tpu_is_known_by_its_number(cards: tuple[tuple[str, str], ...], found: bool, tmp_path: Path) -> None:
    assert libtpu.has_tpu(plugged(tmp_path, *cards)) is found


def test_a_machine_that_lists_no_devices_has_no_tpu(tmp_path: Path) -> None:
    (tmp_path / "0000:00:00.0").mkdir()  # without the two files
    assert not libtpu.has_tpu(tmp_path)
    assert not libtpu.has_tpu(tmp_path / "nowhere")


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before libtpu was prepared; afterwards the variables are as they were."""
    for name in libtpu.WITHOUT_TPU:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def versions(monkeypatch: pytest.MonkeyPatch, **found: str | None) -> None:
    original = importlib.metadata.version

    def version(package: str) -> str:
        said = found[package] if package in found else original(package)
        if said is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return said

    monkeypatch.setattr(importlib.metadata, "version", version)


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in libtpu.WITHOUT_TPU if name in os.environ}


@pytest.mark.usefixtures("no_variables")
def test_the_user_s_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libtpu, "has_tpu", lambda: False)
    versions(monkeypatch, libtpu="0.0.42.1")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "mine")
    libtpu.prepare_libtpu()
    assert variables() == {**libtpu.WITHOUT_TPU, "TPU_ACCELERATOR_TYPE": "mine"}


@pytest.mark.usefixtures("no_variables")
def test_on_a_machine_with_a_tpu_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libtpu, "has_tpu", lambda: True)
    libtpu.prepare_libtpu()
    assert variables() == {}


ASKED: dict[str, tuple[list[str] | None, str | None, str | None]] = {
    "fits": (["libtpu==0.0.42.*; extra == 'tpu'"], "0.0.42.1", None),
    "the same": (["libtpu==0.0.42; extra == 'tpu'"], "0.0.42", None),
    "another": (["numpy>=2", "libtpu==0.0.42.*; extra == 'tpu'"], "0.0.17", "0.0.42.*"),
    "not installed": (["libtpu==0.0.42.*; extra == 'tpu'"], None, None),
    "jax asks for none": (["numpy>=2"], "0.0.17", None),
    "jax says nothing": (None, "0.0.17", None),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_libtpu_that_jax_does_not_ask_for_gets_a_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, have, wanted = ASKED[name]
    monkeypatch.setattr(importlib.metadata, "requires", lambda package: asked)
    versions(monkeypatch, libtpu=have, jax="0.10.2")
    line = (
        f"libtpu {have} is installed, and jax 0.10.2 asks for {wanted}: programs may not be readable; "
        "pip install 'samebits[tpu]' installs the one that fits"
    )
    assert libtpu.mismatch() == (line if wanted else None)


# --- devices ---------------------------------------------------------------------------------------------------------


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
def test_a_slice_is_counted_in_chips_and_some_chips_hold_two_devices() -> None:
    assert (len(topology.devices(Target(name="v5e:2x2"))), len(topology.devices(Target(name="tpu7x:2x2x1")))) == (4, 8)


@needs_libtpu
@pytest.mark.parametrize("name", ["v9:2x2", "v5e:3x5"])
def test_a_slice_that_the_compiler_does_not_know(name: str) -> None:
    with pytest.raises(RequestError, match=f"^target '{name}': the TPU compiler does not give this slice: ") as caught:
        devices(Target(name=name))
    assert "\n" not in str(caught.value)
    assert f"generations are {', '.join(GENERATIONS)}" in str(caught.value)
