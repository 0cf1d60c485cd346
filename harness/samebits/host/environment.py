"""Everything that the bits depend on, set before jax starts and recorded with every result."""

from __future__ import annotations

import functools
import hashlib
import os
import platform as host
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from samebits.errors import RequestError
from samebits.host.accelerator import (
    DETERMINISTIC,
    NO_PLUGIN,
    expected_platform,
    gpu_plugin,
    gpu_variables,
    jax_platforms,
    only_cpu,
    package_version,
    platform_of,
    prepare_libtpu,
    requested_platform,
    require_one_process,
    why_not_started,
)
from samebits.host.processors import instruction_sets, usable_processors
from samebits.schema.json_text import canonical

DEVICES = 8
"""How many CPU devices a run has when no other number is requested."""

PACKAGES = ("jax", "jaxlib", "libtpu", "numpy", "ml_dtypes", "flax", "optax")
"""What decides the bits of a program, and what the programs of models are made of."""

COMPILE_OPTIONS = {"xla_cpu_parallel_codegen_split_count": "1"}
"""Options of every compilation on the CPU: one piece of machine code per program, not up to 32 that are linked again.

Our programs are small and many compile at once, so this saves an eighth of the time. It moves no bits: the outputs of
853 programs of four pairs had the same digests with and without it (jax 0.10.2).
"""

_COUNT_FLAG = re.compile(r"--xla_force_host_platform_device_count=\S+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """What a result was measured with.

    Args:
        versions: of samebits, Python and `PACKAGES`; None where a package is not installed. Documents of older versions
            have fewer.
        platform, device_kind, devices: of the default backend.
        machine: the architecture of the host's processor, such as `x86_64`.
        instruction_sets: of the host's processor, as far as XLA:CPU chooses code by them.
        cpus: how many processors this process may use.
        flags: XLA_FLAGS and LIBTPU_INIT_ARGS as set.
        settings: the jax settings that change numbers.
    """

    versions: dict[str, str | None]
    platform: str
    device_kind: str
    devices: int
    machine: str
    instruction_sets: tuple[str, ...]
    cpus: int
    flags: dict[str, str]
    settings: dict[str, str]

    def lines(self) -> list[str]:
        """Return the environment for a report's head, most informative first."""
        v = self.versions
        libtpu = f", libtpu {v['libtpu']}" if v["libtpu"] else ""
        flags = " ".join(value for value in self.flags.values() if value) or "none"
        settings = ", ".join(f"{name.removeprefix('jax_')}={value}" for name, value in self.settings.items())
        return [
            f"jax {v['jax']}, jaxlib {v['jaxlib']}{libtpu}, numpy {v['numpy']}, python {v['python']}",
            f"{self.devices} x {self.platform} ({self.device_kind}), {self.cpus} cpus, "
            f"{self.machine} {'/'.join(self.instruction_sets) or 'unknown ISA'}",
            f"flags: {flags}; {settings}",
        ]

    def decisive(self) -> dict[str, Any]:
        """Return the values that the digest covers: all that can change bits.

        Left out are the number of processors, the version of samebits (whose changes must be visible), libtpu without a
        TPU, and the flag for the number of devices, which is recorded separately.
        """
        values = asdict(self)
        del values["cpus"], values["versions"]["samebits"]
        if self.platform != "tpu":
            del values["versions"]["libtpu"]
            values["flags"].pop("LIBTPU_INIT_ARGS", None)
        values["flags"] = {name: without_device_count(text) for name, text in values["flags"].items()}
        return values

    def digest(self) -> str:
        """Return a short digest of everything that the bits depend on."""
        return hashlib.sha256(canonical(self.decisive()).encode()).hexdigest()[:16]

    def unlike(self, other: Environment) -> list[str]:
        """Return the differences between two environments, such as `jax 0.10.2 -> 0.11.0`."""
        mine, theirs = _flat(self.decisive()), _flat(other.decisive())
        return [
            f"{name} {_short(mine.get(name))} -> {_short(theirs.get(name))}"
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        ]

    @property
    def folder(self) -> str:
        """The folder of files accepted on this platform: `cpu`, `gpu-nvidia_h100_80gb_hbm3`, `tpu-tpu_v5_lite`."""
        kind = re.sub(r"[^a-z0-9]+", "_", self.device_kind.lower()).strip("_")
        return self.platform if kind in ("", self.platform) else f"{self.platform}-{kind}"


def prepare(
    *, devices: int | None = None, platform: str | None = None, processes: int = 1, option: str = "--workers"
) -> None:
    """Set devices, platform, determinism and shares of a GPU's memory; must run before jax's backend starts.

    What is None stays as the user's environment or jax says. `option` says how many processes run beside each other.
    Processes that this one starts have the same, by their environment.
    """
    if devices is not None and devices < 1:
        raise RequestError(f"--devices {devices}: expected at least 1")
    if backend_started():
        _refuse_late(devices, platform)
        return
    prepare_libtpu()
    platform = "cpu" if platform is None and only_cpu() else platform
    flags = os.environ.get("XLA_FLAGS", "")
    if devices is not None and _COUNT_FLAG.search(flags):
        flags = without_device_count(flags)
    elif devices is None and not _COUNT_FLAG.search(flags):
        devices = _chosen_devices()
    before = os.environ.get("JAX_PLATFORMS")
    names = platform or before
    if names:
        os.environ["JAX_PLATFORMS"] = names = jax_platforms(names)
    expected = platform_of(platform) if platform else expected_platform()
    require_one_process(expected, processes, option)
    if expected == "gpu":
        # A run that does not repeat its own bits can say nothing about them.
        flags = _with_flag(flags, DETERMINISTIC)
        os.environ.update(gpu_variables(processes, os.environ))
    if flags:
        os.environ["XLA_FLAGS"] = flags
    else:
        os.environ.pop("XLA_FLAGS", None)
    if devices is not None:
        os.environ["JAX_NUM_CPU_DEVICES"] = str(devices)
    if "jax" in sys.modules:
        # jax reads its environment when it is imported; after that, only its configuration counts.
        import jax

        if devices is not None:
            jax.config.update("jax_num_cpu_devices", devices)
        if names and (
            platform or getattr(jax.config, "jax_platforms", None) == before
        ):  # otherwise code has set it, and it stays
            jax.config.update("jax_platforms", names)


def capture() -> Environment:
    """Return the environment of this process; starts the backend."""
    import jax

    here = devices_here()
    device = here[0]
    settings = (
        "jax_enable_x64",
        "jax_default_matmul_precision",
        "jax_threefry_partitionable",
        "jax_numpy_dtype_promotion",
    )
    return Environment(
        versions={
            "samebits": package_version("samebits"),
            "python": host.python_version(),
            **{name: package_version(name) for name in PACKAGES},
        },
        platform=device.platform,
        device_kind=device.device_kind,
        devices=len(here),
        machine=host.machine(),
        instruction_sets=instruction_sets(),
        cpus=usable_processors(),
        flags={name: os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")},
        settings={
            **{name: str(getattr(jax.config, name, None)) for name in settings},
            **compile_options(),
        },
    )


def devices_here() -> list[Any]:
    """Return the devices of jax's backend, which is started."""
    import jax

    try:
        devices = list(jax.devices())
    except (RuntimeError, AssertionError) as error:  # jax's assertion: of all platforms named, none is installed
        why = " ".join(str(error).split()) or (
            f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')} names no platform that this jax has; install jax's "
            "plugin for it, or set JAX_PLATFORMS=cpu"
        )
        raise RequestError(why_not_started(expected_platform(), why)) from None
    requested = requested_platform()
    if requested == "gpu" and devices[0].platform == "cpu" and gpu_plugin() is None:
        raise RequestError(NO_PLUGIN)
    if requested in ("tpu", "gpu") and devices[0].platform != requested:
        raise RequestError(
            f"jax started on {devices[0].platform}, and not on {requested} as asked for (JAX_PLATFORMS or --platform); "
            "its warnings above say why"
        )
    return devices


def platform_of_results() -> str:
    """Return the platform on which results are made, also where this process itself stays on the CPU."""
    names = os.environ.get("JAX_PLATFORMS")
    return platform_of(names) if names else expected_platform()


def without_device_count(flags: str) -> str:
    """Return XLA_FLAGS without the flag for the number of CPU devices."""
    return " ".join(_COUNT_FLAG.sub("", flags).split())


def asked_devices() -> int:
    """Return how many CPU devices the environment or jax's configuration asks for, without starting a backend."""
    match = _COUNT_FLAG.search(os.environ.get("XLA_FLAGS", ""))
    if match:
        return _count("XLA_FLAGS", match[0].split("=")[1])
    return _chosen_devices()


def _chosen_devices() -> int:
    """Count devices as the environment says, else as a conftest.py has configured jax, else by default."""
    if "JAX_NUM_CPU_DEVICES" in os.environ:
        return _count("JAX_NUM_CPU_DEVICES", os.environ["JAX_NUM_CPU_DEVICES"])
    configured = getattr(getattr(sys.modules.get("jax"), "config", None), "jax_num_cpu_devices", -1)
    return configured if configured > 0 else DEVICES


def flags_header(devices: str) -> list[str]:
    """Return the versions and flags for a report's head, without starting a backend."""
    names = ("samebits", "jax", "jaxlib", "libtpu", "numpy")
    versions = ", ".join(f"{name} {version}" for name in names if (version := package_version(name)))
    settings = {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(("JAX_", "XLA_", "LIBTPU_"))
    }
    return [
        f"{versions}, python {host.python_version()}; {devices}",
        " ".join(f"{name}={value!r}" for name, value in settings.items()) or "no JAX_, XLA_ or LIBTPU_ variables set",
    ]


def configuration() -> tuple[tuple[str, Any], ...]:
    """Return every setting of jax as it is now, by name; those that context managers change included."""
    import jax

    # Settings that a context manager can change are attributes, the others are only in `values`.
    return tuple((name, getattr(jax.config, name, value)) for name, value in jax.config.values.items())


@functools.cache
def compile_options() -> dict[str, str]:
    """Return `COMPILE_OPTIONS` on the CPU, where this XLA has them; starts the backend."""
    import jax

    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict(COMPILE_OPTIONS))
    except RuntimeError:  # XLA rejects an option that it does not have; then there is nothing to set
        return {}
    return dict(COMPILE_OPTIONS)


def backend_started() -> bool:
    """Return whether jax has started a backend; jax has no public function for it."""
    if "jax" not in sys.modules:
        return False
    import jax

    name = "jax_num_cpu_devices"
    devices = int(getattr(jax.config, name))
    try:
        jax.config.update(name, max(devices, 0) + 1)
    except RuntimeError:  # jax says so
        return True
    jax.config.update(name, devices)
    return False


def _refuse_late(devices: int | None, platform: str | None) -> None:
    import jax

    if devices is not None and jax.default_backend() == "cpu" and devices != len(jax.devices()):
        raise RequestError(
            f"{devices} devices asked for, but jax has already started with {len(jax.devices())}; "
            "set JAX_NUM_CPU_DEVICES before the first use of jax"
        )
    if platform is not None and platform_of(platform) != jax.default_backend():
        raise RequestError(f"platform {platform} asked for, but jax has already started on {jax.default_backend()}")


def _count(variable: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise RequestError(f"the environment says {variable}={text}; expected a number of devices, at least 1")
    return int(text)


def _with_flag(flags: str, flag: str) -> str:
    return flags if flag.split("=")[0] in flags else f"{flags} {flag}".strip()


def _flat(value: Any, place: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {k: v for name, item in value.items() for k, v in _flat(item, f"{place}.{name}".strip(".")).items()}
    return {place.removeprefix("versions.").removeprefix("settings."): value}


def _short(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
