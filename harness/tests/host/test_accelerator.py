"""Which platform jax will start, how many processes may use it, who does, and what is said where it does not start."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host import accelerator
from tests.support.fake_accelerator import BUSY, IN_USE
from tests.support.installed import versions


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which nobody has chosen a platform, with no accelerator, libtpu or plugin."""
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(accelerator, "has_tpu", lambda: False)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: ())
    versions(monkeypatch, libtpu=None)
    return monkeypatch


@pytest.mark.parametrize(
    ("names", "platform"), [("tpu", "tpu"), ("cuda", "gpu"), ("rocm,cpu", "gpu"), ("cpu", "cpu"), ("gpu", "gpu")]
)
def test_the_platform_that_is_named(names: str, platform: str, machine: pytest.MonkeyPatch) -> None:
    machine.setenv("JAX_PLATFORMS", names)
    assert accelerator.expected_platform() == platform
    assert accelerator.requested_platform() == platform


def plugin(name: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, f"jax_plugins.{name}", "jax_plugins")


@pytest.mark.parametrize(
    ("plugins", "drivers", "maker"),
    [
        ((), (), None),
        (("xla_cuda13",), (), "cuda"),
        (("xla_rocm7",), ("kfd",), "rocm"),
        (("xla_cuda12", "xla_rocm7"), ("kfd",), "rocm"),
        (("xla_cuda12", "xla_rocm7"), ("nvidiactl",), "cuda"),
        (("another",), ("nvidiactl",), None),
    ],
)
def test_the_plugin_of_a_gpu(
    plugins: tuple[str, ...],
    drivers: tuple[str, ...],
    maker: str | None,
    machine: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    machine.setattr(importlib.metadata, "entry_points", lambda group: tuple(map(plugin, plugins)))
    for name in drivers:
        (tmp_path / name).touch()
    assert accelerator.gpu_plugin(tmp_path) == maker


def test_a_plugin_that_lies_in_a_folder(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As jax finds it: below the namespace package, without an entry point."""
    (tmp_path / "jax_plugins" / "my_cuda").mkdir(parents=True)
    (tmp_path / "jax_plugins" / "my_cuda" / "__init__.py").touch()
    machine.syspath_prepend(tmp_path)
    assert accelerator.gpu_plugin(tmp_path) == "cuda"


def test_jax_is_told_the_maker_of_a_gpu(machine: pytest.MonkeyPatch) -> None:
    """`JAX_PLATFORMS=gpu` never starts: jax asks every maker's plugin, and no machine has all of them."""
    assert accelerator.jax_platforms("gpu") == "gpu,cpu"  # without a plugin: jax says so
    machine.setattr(importlib.metadata, "entry_points", lambda group: (plugin("xla_cuda13"),))
    words = ("gpu", "gpu,cpu", "cuda", "rocm", "tpu", "cpu", "cpu,tpu", "tpu,cpu", "stand_in", "stand_in,cpu")
    assert [accelerator.jax_platforms(word) for word in words] == [
        "cuda,cpu",
        "cuda,cpu",
        "cuda,cpu",
        "rocm,cpu",
        "tpu,cpu",
        "cpu",
        "cpu,tpu",
        "tpu,cpu",
        "stand_in",
        "stand_in,cpu",
    ]


def test_the_platform_that_jax_chooses(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert accelerator.expected_platform(tmp_path) == "cpu"
    machine.setattr(importlib.metadata, "entry_points", lambda group: (plugin("xla_cuda13"),))
    assert accelerator.expected_platform(tmp_path) == "cpu"  # the plugin is installed, and there is no GPU
    (tmp_path / "nvidiactl").touch()
    assert accelerator.expected_platform(tmp_path) == "gpu"
    machine.setattr(accelerator, "has_tpu", lambda: True)
    assert accelerator.expected_platform(tmp_path) == "gpu"  # without libtpu
    versions(machine, libtpu="0.0.42")
    assert accelerator.expected_platform(tmp_path) == "tpu"
    assert accelerator.requested_platform() is None


def test_several_processes_on_a_tpu_are_rejected() -> None:
    accelerator.require_one_process("tpu", 1, "--workers")
    accelerator.require_one_process("gpu", 4, "--workers")
    with pytest.raises(RequestError) as error:
        accelerator.require_one_process("tpu", 4, "--workers")
    assert str(error.value) == (
        "--workers 4: a TPU belongs to one process at a time; expected --workers 1, or one run for each part of the "
        "chips (TPU_VISIBLE_CHIPS)"
    )


def test_processes_on_a_gpu_share_its_memory() -> None:
    assert accelerator.gpu_variables(4, {}) == {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_CLIENT_MEM_FRACTION": "0.225",
    }
    assert accelerator.gpu_variables(1, {}) == {}
    assert accelerator.gpu_variables(4, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".2"}) == {}


def process(proc: Path, pid: int, command: str, *open_files: str) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_text(command.replace(" ", "\0"))
    for number, file in enumerate(open_files):
        (proc / str(pid) / "fd" / str(number)).symlink_to(file)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine on which one process trains on a TPU, one on a GPU, and one does something else."""
    process(tmp_path, 4711, "python train.py", "/dev/null", "/dev/vfio/1")
    process(tmp_path, 4712, f"python -m x {'a' * 80}", "/dev/nvidia0")
    process(tmp_path, 4713, "bash", "/dev/null", "/dev/vfio/vfio", "/dev/nvidiactl")
    process(tmp_path, os.getpid(), "python -m pytest", "/dev/accel0")
    return tmp_path


def test_the_processes_that_use_a_device(proc: Path) -> None:
    assert accelerator.users_of("tpu", proc) == {4711: "process 4711 (python train.py) has /dev/vfio/1 open"}
    assert accelerator.users_of("gpu", proc) == {
        4712: f"process 4712 (python -m x {'a' * 45}...) has /dev/nvidia0 open"
    }
    assert accelerator.users_of("cpu", proc) == {}


WAIT = "one process at a time can hold it: end that process, wait for it, or run with --platform cpu"
USED = f"the TPU is in use: process 4711 (python train.py) has /dev/vfio/1 open; {WAIT}"
REASONS: dict[str, tuple[str, str, str]] = {
    "in use": ("tpu", IN_USE.format(pid=4711), USED),
    "busy": ("tpu", BUSY, USED),
    "another process": (
        "tpu",
        IN_USE.format(pid=4713),
        f"the TPU is in use: process 4713 (bash); {WAIT}",
    ),
    "a lock that was left": (
        "tpu",
        "Internal error when accessing libtpu multi-process lockfile. Run\n'sudo rm libtpu_lockfile'.",
        f"{USED}; if no process uses it, remove libtpu_lockfile from the temporary folder",
    ),
    "no plugin": (
        "gpu",
        "Unable to initialize backend 'rocm': Backend 'rocm' is not in the list of known backends: ['cpu'].",
        "jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu",
    ),
    "anything else": (
        "tpu",
        "INTERNAL: Failed to get\nglobal TPU topology.",
        "jax does not start on the platform asked for: INTERNAL: Failed to get global TPU topology.",
    ),
    "nothing to do with a device": (
        "cpu",
        "the name is already in use",
        "jax does not start on the platform asked for: the name is already in use",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_why_it_does_not_start(name: str, proc: Path) -> None:
    platform, message, line = REASONS[name]
    assert accelerator.why_not_started(platform, message, proc) == line


def test_a_process_that_may_not_be_seen(tmp_path: Path) -> None:
    assert accelerator.why_not_started("tpu", BUSY, tmp_path) == (
        "the TPU is in use: a process that this user may not see has it open (sudo lsof -w /dev/accel* /dev/vfio/*); "
        f"{WAIT}"
    )


def test_no_answer_names_who_uses_it(proc: Path, tmp_path: Path) -> None:
    assert accelerator.no_answer("tpu", 300.0, proc) == (
        "the TPU did not answer within 300 s: process 4711 (python train.py) has /dev/vfio/1 open; a slice of several "
        "hosts starts only when each of them does; --platform cpu runs without it"
    )
    assert accelerator.no_answer("gpu", 300.0, tmp_path / "nowhere") == (
        "the GPU did not answer within 300 s: no other process is seen to use it; --platform cpu runs without it"
    )


def test_the_models_of_gpus(tmp_path: Path) -> None:
    assert accelerator.gpu_models(tmp_path) == ()
    for number, model in enumerate(["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA H200"]):
        folder = tmp_path / "driver/nvidia/gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 97\n")
    assert accelerator.gpu_models(tmp_path) == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
