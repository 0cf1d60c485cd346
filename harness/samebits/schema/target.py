"""What a program is compiled for: `cpu`, or a TPU slice by name such as `tpu7x:4x4x4`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import MeshSpec

GENERATIONS = ("v4", "v5e", "v5p", "v6e", "tpu7x")
"""The names of TPU generations as libtpu writes them, for hints; the compiler itself reports the slices it supports."""

_SLICE = re.compile(r"([a-z][a-z0-9]*):([1-9][0-9]*(?:x[1-9][0-9]*){1,2})")
_CPU = re.compile(r"cpu(?::([1-9][0-9]*))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A machine to compile for.

    Args:
        name: `cpu` (as many devices as there are), `cpu:16`, or a TPU slice `GENERATION:AxB[xC]` in chips.

    Raises:
        RequestError: it is neither.
    """

    name: str

    def __post_init__(self) -> None:
        if _CPU.fullmatch(self.name):
            return
        if not _SLICE.fullmatch(self.name):
            raise RequestError(
                f"target '{self.name}' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4"
            )
        generation = self.name.partition(":")[0]
        if generation in ("v7x", "v7", "tpu7"):
            raise RequestError(f"target '{self.name}' is unknown; did you mean 'tpu7x:{self.name.partition(':')[2]}'?")

    @property
    def platform(self) -> str:
        """Return `cpu` or `tpu`."""
        return "cpu" if _CPU.fullmatch(self.name) else "tpu"

    @property
    def cpu_devices(self) -> int | None:
        """Return how many devices `cpu:N` asks for; None for `cpu` alone and for TPUs."""
        match = _CPU.fullmatch(self.name)
        return int(match[1]) if match and match[1] else None


def can_match(pattern: str) -> bool:
    """Tell whether a shell pattern of targets, `cpu` or `tpu` matches any target of a generation that is known."""
    kinds = ("cpu", *(f"{generation}:" for generation in GENERATIONS))
    begin = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    if begin != pattern:
        return any(kind.startswith(begin) or begin.startswith(kind) for kind in kinds)
    known = _CPU.fullmatch(pattern) or (_SLICE.fullmatch(pattern) and begin.startswith(kinds))
    return pattern == "tpu" or bool(known)


def spread(layout: str, devices: int) -> MeshSpec:
    """Return the mesh of a layout on so many devices: the size written `*` takes what the others leave.

    Equivalent to `MeshSpec.parse(layout.replace("*", str(devices // others)))`.
    """
    fixed = fixed_part(layout)
    if fixed.devices > devices or ("*" in layout and devices % fixed.devices):
        raise MeshError(f"layout '{layout}' does not fit {devices} devices; its fixed axes need {fixed.devices}")
    return MeshSpec.parse(layout.replace("*", str(devices // fixed.devices))) if "*" in layout else fixed


def fixed_part(layout: str) -> MeshSpec:
    """Return the mesh of a layout with 1 for the size left open."""
    if layout.count("*") > 1:
        raise MeshError(f"layout '{layout}' has {layout.count('*')} stars; expected at most one size left open")
    return MeshSpec.parse(layout.replace("*", "1"))
