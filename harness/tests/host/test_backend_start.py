"""An accelerator is started in a process of its own: one that is in use, hangs, or has another libtpu is one line."""

import importlib.metadata
import os
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host import accelerator, backend_start, environment
from tests.support import fake_accelerator as fake
from tests.support.child import run_python
from tests.support.installed import versions

STARTS = {
    "in use": (
        fake.raises(fake.IN_USE.format(pid=os.getpid())),
        60.0,
        rf"^the TPU is in use: process {os.getpid()} \(.*\); one process at a time can hold it: end that process, "
        "wait for it, or run with --platform cpu$",
    ),
    "hangs": (
        fake.HANGS,
        4.0,
        "^the TPU did not answer within 4 s: no other process is seen to use it; a slice of several hosts starts only "
        "when each of them does; --platform cpu runs without it$",
    ),
    "crashes": (
        fake.CRASHES,
        60.0,
        "^jax does not start on the platform asked for: the process that tried ended with SIGABRT$",
    ),
    "falls back": (
        fake.FALLS_BACK,
        60.0,
        r"^jax started on cpu, and not on tpu as asked for \(JAX_PLATFORMS or --platform\); its warnings above say why",
    ),
}


def chosen(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Only processes that are started from here see the platform; jax runs in this one already."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(backend_start, "expected_platform", lambda: variables["JAX_PLATFORMS"].split(",")[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_fails_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body, seconds, line = STARTS[name]
    chosen(monkeypatch, fake.install(tmp_path, "tpu", body))
    with pytest.raises(RequestError, match=line):
        backend_start.capture_apart(seconds)


@pytest.mark.slow
def test_a_start_that_works_lets_go_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice: each process would find the lock of the one before it."""
    lock = tmp_path / "lock"
    chosen(monkeypatch, {**fake.install(tmp_path, "stand_in", fake.exclusive(lock)), "JAX_NUM_CPU_DEVICES": "3"})
    assert backend_start.capture_apart(60).devices == 3
    assert backend_start.capture_apart(60).devices == 3
    first, second = map(int, (tmp_path / "lock.starts").read_text().split())
    assert len({first, second, os.getpid()}) == 3


@pytest.mark.slow
def test_the_driving_process_stays_on_the_cpu(tmp_path: Path) -> None:
    """It uses jax, and has not started the platform that the processes it starts have."""
    lock = tmp_path / "lock"
    code = """
from samebits.host import environment
from samebits.host.backend_start import capture_apart, leave_to_workers, require_answer
environment.prepare()
require_answer(60)
assert leave_to_workers(1).devices == 8
require_answer(60)
import jax
jax.devices()
capture_apart(60)
"""
    variables = fake.install(tmp_path, "stand_in", fake.exclusive(lock))
    ran = run_python("-c", code, cwd=tmp_path, **variables)
    assert ran.returncode == 0, ran.stderr
    assert len((tmp_path / "lock.starts").read_text().split()) == 3  # the second `require_answer` is on the CPU


def test_on_the_cpu_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_start, "capture_apart", lambda seconds: pytest.fail("started"))
    monkeypatch.setattr(backend_start, "expected_platform", lambda: "cpu")
    monkeypatch.setattr(environment, "backend_started", lambda: False)
    backend_start.require_answer()


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
