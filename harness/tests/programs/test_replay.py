"""The settings that a replay carries: those of jax and XLA that are not the defaults."""

import jax
import pytest

from samebits.programs.catalogue import Locator
from samebits.programs.replay import replay, replay_together, with_settings
from samebits.schema.point import Point

POINT = Point(variant="fast", case="small", dtype="float32", mesh="none", mode="auto", direction="forward")
POINTED = "norm --variant fast --case small --dtype float32 --mesh none --mode auto --direction forward"


@pytest.fixture(autouse=True)
def _no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)


def test_the_defaults_are_left_out() -> None:
    assert replay(Locator(name="norm"), POINT) == f"samebits check {POINTED}"


def test_settings_of_jax() -> None:
    with jax.enable_x64(True), jax.default_matmul_precision("highest"), jax.threefry_partitionable(False):
        again = replay(Locator(name="norm"), POINT)
    settings = "JAX_ENABLE_X64=1 JAX_DEFAULT_MATMUL_PRECISION=highest JAX_THREEFRY_PARTITIONABLE=0"
    assert again == f"{settings} samebits check {POINTED}"


def test_flags_of_xla_but_the_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4 --xla_cpu_enable_fast_math=true")
    assert with_settings("pytest t.py") == "XLA_FLAGS=--xla_cpu_enable_fast_math=true pytest t.py"


def test_a_call_in_a_script_has_no_environment_of_its_own() -> None:
    with jax.enable_x64(True):
        again = replay(Locator(name="f_g", rerun="the call in a.py:3"), POINT)
    assert again == "the call in a.py:3, with JAX_ENABLE_X64=1"


def test_assumptions_and_platform() -> None:
    again = replay(Locator(name="norm"), POINT, "prove", assuming=False, platform="tpu")
    assert again == f"samebits prove {POINTED} --platform tpu --no-assumptions"


def test_processes_are_launched_with_the_settings() -> None:
    with jax.enable_x64(True):
        again = replay_together(replay(Locator(name="norm"), POINT), 2)
    assert again.startswith("JAX_ENABLE_X64=1 samebits run launch -n 2 --devices ") and again.endswith(
        f"-- check {POINTED}"
    )
