"""Devices to compile for: those of a TPU slice, from the compiler in the `libtpu` wheel and without a TPU; or CPUs."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import CouldNotRun, RequestError
from harness.meshes import MeshSpec, Mode
from harness.quiet import quiet
from harness.target import GENERATIONS, Target

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


class NoCompiler(CouldNotRun):
    """The compiler of a target is not installed."""


def prepare_libtpu() -> None:
    """Set what libtpu needs on a machine without a TPU; on one with a TPU nothing is touched."""
    if not has_tpu():
        for name, value in WITHOUT_TPU.items():
            os.environ.setdefault(name, value)


def has_tpu(pci: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether this machine has TPU chips: devices of Google's with a TPU's number, as Linux lists them."""

    def number(device: Path, name: str) -> str:
        try:
            return (device / name).read_text().strip()
        except OSError:
            return ""

    return any(
        number(device, "vendor") == _GOOGLE and number(device, "device") in _TPU_CHIPS for device in pci.glob("*")
    )


def compiler_version(target: Target) -> str | None:
    """The version of the package that holds the target's compiler: libtpu, or jaxlib for the CPU."""
    try:
        return importlib.metadata.version("libtpu" if target.platform == "tpu" else "jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return None


def mismatch() -> str | None:
    """A line on a libtpu that is not the one jax asks for; None where it fits or is not there."""
    asked = next((one for one in importlib.metadata.requires("jax") or () if one.startswith("libtpu==")), None)
    have = compiler_version(Target(name="v5e:2x2"))
    if asked is None or have is None:
        return None
    wanted = asked.split("==")[1].split(";")[0].strip()
    if have == wanted or have.startswith(wanted.removesuffix("*")):
        return None
    return (
        f"libtpu {have} is installed, and jax {importlib.metadata.version('jax')} asks for {wanted}: "
        f"programs may not be readable; {EXTRA} installs the one that fits"
    )


@functools.cache
def devices(target: Target) -> Sequence[Any]:
    """The devices of a target, in the compiler's order.

    Raises:
        NoCompiler: libtpu is not installed.
        RequestError: the compiler does not know the slice, or there are fewer CPU devices than asked for.
    """
    if target.platform == "cpu":
        return _cpu(target)
    if compiler_version(target) is None:
        raise NoCompiler(f"target '{target.name}' needs the TPU compiler, which is not installed: {EXTRA}")
    prepare_libtpu()
    from jax.experimental import topologies

    with quiet() as written:
        try:
            found = topologies.get_topology_desc(platform="tpu", topology_name=target.name).devices
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or written()[-300:]
            raise RequestError(
                f"target '{target.name}': the TPU compiler does not give this slice: {reason}; "
                f"generations are {', '.join(GENERATIONS)}, sizes as in v5e:2x2, v5p:2x2x1, tpu7x:4x4x4"
            ) from None
    return tuple(found)


def _cpu(target: Target) -> Sequence[Any]:
    import jax

    found = jax.devices("cpu")
    wanted = target.cpu_devices or len(found)
    if wanted > len(found):
        raise RequestError(
            f"target '{target.name}': {len(found)} CPU devices are there; ask for them: --devices {wanted}"
        )
    return tuple(found[:wanted])


def target_mesh(target: str | Target, layout: str | MeshSpec, mode: Mode = "auto") -> Any:
    """The mesh of a target, laid out on its physical topology.

    Equivalent to `jax.make_mesh(sizes, names, devices=DEVICES_OF_THE_TARGET)`.

    Args:
        target: a target or its name, such as `v5p:2x2x1`.
        layout: a mesh, or a layout such as `fsdp*`.
        mode: `auto` or `explicit`.

    Raises:
        NoCompiler: libtpu is not installed.
        RequestError: the target or the layout is wrong.
    """
    from harness.target import spread

    target = Target(name=target) if isinstance(target, str) else target
    found = devices(target)
    spec = spread(layout, len(found)) if isinstance(layout, str) else layout
    return spec.build(mode, found)
