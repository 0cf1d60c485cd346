"""The TPU compiler's package on machines without a TPU: what it reads from the environment, and whether it fits jax."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

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
    """Whether jax would load libtpu for nothing: it is installed for its compiler, and there is no accelerator at all.

    Loaded, it takes over signals and writes to the terminal; so where the user leaves the platform to jax, it is CPU.
    """
    if "JAX_PLATFORMS" in os.environ or package_version("libtpu") is None or has_tpu():
        return False
    return not importlib.metadata.entry_points(group="jax_plugins")


def has_tpu(pci: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether this machine has TPU chips: devices of Google's with a TPU's number, as Linux lists them."""

    def number(device: Path, name: str) -> str:
        try:
            return (device / name).read_text().strip()
        except OSError:  # a device without such a file is no TPU
            return ""

    return any(
        number(device, "vendor") == _GOOGLE and number(device, "device") in _TPU_CHIPS for device in pci.glob("*")
    )


def package_version(package: str) -> str | None:
    """The version of an installed package; None where it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # the extra `tpu` is not installed
        return None


def mismatch() -> str | None:
    """A line on a libtpu that is not the one jax asks for; None where it fits or is not there."""
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
