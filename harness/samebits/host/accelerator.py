"""Accelerators and processes: which platform jax will start, how many processes may use it, and which ones do.

A TPU chip belongs to one process at a time: libtpu rejects the second one, or waits for ever. A GPU can be shared, but
each process of jax takes three quarters of its memory at the start, unless its environment says otherwise.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pkgutil
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from samebits.errors import RequestError

# The TPU compiler's package on machines without a TPU: what it reads from the environment, and whether it fits jax.
WITHOUT_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",  # else it looks for a metadata server
    "TPU_ACCELERATOR_TYPE": "v5p-8",  # else it complains; the slice is named where the topology is asked for
    "TPU_WORKER_HOSTNAMES": "localhost",  # else it complains
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a second process aborts on a lock that guards hardware
}
"""What libtpu reads when it is loaded, for a machine that has no TPU; what the user has set is kept."""

_GOOGLE = "0x1ae0"  # network cards of Google's machines have it too
_TPU_CHIPS = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")
"""PCI numbers of TPU chips, v3 to 7x."""

EXTRA = "pip install 'samebits[tpu]'"


def prepare_libtpu() -> None:
    """Set what libtpu needs on a machine without a TPU; on one with a TPU nothing is touched."""
    if package_version("libtpu") is not None and not has_tpu():
        for name, value in WITHOUT_TPU.items():
            os.environ.setdefault(name, value)


def only_cpu() -> bool:
    """Return whether jax would load libtpu for nothing: it is installed for its compiler, without an accelerator.

    Loaded, it takes over signals and writes to the terminal; so where the user leaves the platform to jax, it is CPU.
    """
    if "JAX_PLATFORMS" in os.environ or package_version("libtpu") is None or has_tpu():
        return False
    return not importlib.metadata.entry_points(group="jax_plugins")


def has_tpu(pci: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Return whether this machine has TPU chips: devices of Google's with a TPU's number, as Linux lists them."""

    def number(device: Path, name: str) -> str:
        try:
            return (device / name).read_text().strip()
        except OSError:  # a device without such a file is no TPU
            return ""

    return any(
        number(device, "vendor") == _GOOGLE and number(device, "device") in _TPU_CHIPS for device in pci.glob("*")
    )


def package_version(package: str) -> str | None:
    """Return the version of an installed package; None where it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # the extra `tpu` is not installed
        return None


def mismatch() -> str | None:
    """Return a line on a libtpu that is not the one jax asks for; None where it fits or is not there."""
    requirement = next(
        (requirement for requirement in importlib.metadata.requires("jax") or () if requirement.startswith("libtpu==")),
        None,
    )
    have = package_version("libtpu")
    if requirement is None or have is None:
        return None
    wanted = requirement.split("==")[1].split(";")[0].strip()
    if have == wanted or have.startswith(wanted.removesuffix("*")):
        return None
    return (
        f"libtpu {have} is installed, and jax {importlib.metadata.version('jax')} asks for {wanted}: "
        f"programs may not be readable; {EXTRA} installs the one that fits"
    )


DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
"""Sums without atomics, whose order differs from run to run, and no autotuning, which picks kernels by the clock.

XLA's `docs/determinism.md`; it fails to compile what has no deterministic form (select-and-scatter).
"""

GPU_SHARE = 0.9
"""What all processes on a GPU may take of its memory together; the rest is for CUDA's own contexts."""

_MEMORY = (
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)

_GPU_FILES = {"cuda": ("nvidia0", "nvidiactl", "dxg"), "rocm": ("kfd", "dxg")}
"""Jax's names of the makers of GPUs, and the files of their drivers in `/dev`; `dxg` is Windows' own."""

NO_PLUGIN = "jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu"

_OPEN_FILES = {"tpu": r"/dev/(accel\d+|vfio/\d+)", "gpu": r"/dev/(nvidia\d+|kfd)"}

_IN_USE = re.compile(
    r"already in use|Device or resource busy|libtpu_lockfile|multi-process lockfile|CUDA_ERROR_DEVICE_UNAVAILABLE"
)
_PROCESS = re.compile(r"by process with pid (\d+)")
_UNKNOWN = re.compile(r"not in the list of known backends|names no platform that this jax has")


def platform_of(names: str) -> str:
    """Return what jax calls the platform of a list such as `cuda,cpu`: `gpu`."""
    first = names.split(",")[0]
    return "gpu" if first in _GPU_FILES else first


def jax_platforms(names: str) -> str:
    """Return what `JAX_PLATFORMS` must say for a platform to start: `cuda,cpu` for a GPU of NVIDIA.

    jax takes `gpu` for every maker's plugin, and fails on the first that is not installed. The CPU is named too, as it
    is where the choice is left to jax: proofs compute in float64 on it, and so may the code of users.

    Args:
        names: a platform, or a list of them as in `JAX_PLATFORMS`.
    """
    platforms = [(gpu_plugin() or name) if name == "gpu" else name for name in names.split(",")]
    if platform_of(platforms[0]) in _OPEN_FILES and "cpu" not in platforms:
        platforms.append("cpu")
    return ",".join(platforms)


def gpu_plugin(devices: Path = Path("/dev")) -> str | None:
    """Return jax's name of the maker whose plugin is installed; of several, the one whose driver is here."""
    modules = {plugin.value for plugin in importlib.metadata.entry_points(group="jax_plugins")}
    folders = [os.path.join(folder, "jax_plugins") for folder in sys.path]
    modules |= {module.name for module in pkgutil.iter_modules(folders)}
    makers = [maker for maker in _GPU_FILES if any(maker in module for module in modules)]
    return next((maker for maker in makers if _has_driver(maker, devices)), next(iter(makers), None))


def _has_driver(maker: str, devices: Path) -> bool:
    return any((devices / name).exists() for name in _GPU_FILES[maker])


def gpu_models(proc: Path = Path("/proc")) -> tuple[str, ...]:
    """List the models of NVIDIA's GPUs here, each once, without starting jax; none where the driver does not."""
    models = set()
    for file in (proc / "driver/nvidia/gpus").glob("*/information"):
        with contextlib.suppress(OSError):  # a device that was removed meanwhile
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            models |= {line.partition(":")[2].strip() for line in lines if line.startswith("Model:")}
    return tuple(sorted(models))


def requested_platform() -> str | None:
    """Return the platform that the environment or jax's configuration names; None where the choice is left to jax."""
    configured = getattr(getattr(sys.modules.get("jax"), "config", None), "jax_platforms", None)
    names = configured or os.environ.get("JAX_PLATFORMS")
    return platform_of(names) if names else None


def expected_platform(devices: Path = Path("/dev")) -> str:
    """Return the platform that jax will start on, found without starting it."""
    requested = requested_platform()
    if requested is not None:
        return requested
    if package_version("libtpu") is not None and has_tpu():
        return "tpu"
    maker = gpu_plugin(devices)
    return "gpu" if maker is not None and _has_driver(maker, devices) else "cpu"


def require_one_process(platform: str, processes: int, option: str) -> None:
    """Reject several processes on a TPU."""
    if platform == "tpu" and processes > 1:
        raise RequestError(
            f"{option} {processes}: a TPU belongs to one process at a time; expected {option} 1, or one run for each "
            "part of the chips (TPU_VISIBLE_CHIPS)"
        )


def gpu_variables(processes: int, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which processes share a GPU's memory; none where the user has set one."""
    if processes < 2 or any(name in variables for name in _MEMORY):
        return {}
    return {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_CLIENT_MEM_FRACTION": f"{GPU_SHARE / processes:.3f}",
    }


def users_of(platform: str, proc: Path = Path("/proc")) -> dict[int, str]:
    """Return the other processes that have a device open, by number, each with the device and its command.

    Processes of other users are seen by root only.
    """
    users = {}
    for folder in proc.glob("[0-9]*"):
        pid = int(folder.name)
        device = _open_device(folder / "fd", _OPEN_FILES.get(platform, "(?!)"))
        if device and pid != os.getpid():
            users[pid] = f"process {pid} ({_command(folder)}) has {device} open"
    return users


def why_not_started(platform: str, message: str, proc: Path = Path("/proc")) -> str:
    """Explain why jax does not start on a platform, in one line."""
    message = " ".join(message.split())
    if platform in _OPEN_FILES and _IN_USE.search(message):
        return f"the {platform.upper()} is in use: {_who(platform, message, proc)}; {_what_to_do(platform, message)}"
    if platform == "gpu" and _UNKNOWN.search(message):
        return NO_PLUGIN
    return f"jax does not start on the platform asked for: {message}"


def no_answer(platform: str, seconds: float, proc: Path = Path("/proc")) -> str:
    """Say that a platform did not start in time, and why that may be, in one line."""
    users = "; ".join(users_of(platform, proc).values())
    slice_ = "; a slice of several hosts starts only when each of them does" if platform == "tpu" else ""
    return (
        f"the {platform.upper()} did not answer within {seconds:g} s: {users or 'no other process is seen to use it'}"
        f"{slice_}; --platform cpu runs without it"
    )


def _who(platform: str, message: str, proc: Path) -> str:
    users = users_of(platform, proc)
    named = _PROCESS.search(message)
    if named and int(named[1]) not in users:
        return f"process {named[1]} ({_command(proc / named[1])})"
    files = "/dev/accel* /dev/vfio/*" if platform == "tpu" else "/dev/nvidia*"
    return "; ".join(users.values()) or f"a process that this user may not see has it open (sudo lsof -w {files})"


def _what_to_do(platform: str, message: str) -> str:
    lock = "; if no process uses it, remove libtpu_lockfile from the temporary folder" if "lockfile" in message else ""
    rule = "one process at a time can hold it: " if platform == "tpu" else ""
    return f"{rule}end that process, wait for it, or run with --platform cpu{lock}"


def _open_device(descriptors: Path, pattern: str) -> str | None:
    try:
        for link in descriptors.iterdir():
            target = os.readlink(link)
            if re.fullmatch(pattern, target):
                return target
    except OSError:  # ended meanwhile, or another user's
        return None
    return None


def _command(folder: Path) -> str:
    """Return the command line of a process, shortened."""
    try:
        words = (folder / "cmdline").read_text(encoding="utf-8", errors="replace").replace("\0", " ").split()
    except OSError:  # ended meanwhile
        return "ended meanwhile"
    text = " ".join(words) or "a process of the system"
    return text if len(text) <= 60 else f"{text[:57]}..."
