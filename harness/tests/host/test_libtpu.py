"""A TPU is recognised by its PCI number; a libtpu that does not fit jax is reported in one line."""

import importlib.metadata
import os
from pathlib import Path

import pytest

from samebits.host import accelerator
from tests.support.installed import versions


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
    assert accelerator.has_tpu(plugged(tmp_path, *cards)) is found


def test_a_machine_that_lists_no_devices_has_no_tpu(tmp_path: Path) -> None:
    (tmp_path / "0000:00:00.0").mkdir()  # without the two files
    assert not accelerator.has_tpu(tmp_path)
    assert not accelerator.has_tpu(tmp_path / "nowhere")


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before libtpu was prepared; afterwards the variables are as they were."""
    for name in accelerator.WITHOUT_TPU:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in accelerator.WITHOUT_TPU if name in os.environ}


@pytest.mark.usefixtures("no_variables")
def test_the_user_s_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "has_tpu", lambda: False)
    versions(monkeypatch, libtpu="0.0.42.1")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "mine")
    accelerator.prepare_libtpu()
    assert variables() == {**accelerator.WITHOUT_TPU, "TPU_ACCELERATOR_TYPE": "mine"}


@pytest.mark.usefixtures("no_variables")
def test_on_a_machine_with_a_tpu_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "has_tpu", lambda: True)
    accelerator.prepare_libtpu()
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
    assert accelerator.mismatch() == (line if wanted else None)
