"""Meshes by name: `dp2_tp4` is two-way `dp` by four-way `tp`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from samebits.errors import MeshError, MeshNotSpanned

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh, Mesh


NO_MESH = "none"
"""The name of having no mesh: one device, and no axes."""

Mode = Literal["auto", "explicit"]
"""How arrays carry their sharding: `AxisType.Auto` (the compiler decides) or `AxisType.Explicit` (part of the type)."""
MODES: tuple[Mode, ...] = ("auto", "explicit")

Axes = tuple[tuple[str, int], ...]
"""`(name, size)` of each axis, in order."""
AxisTypes = tuple[Mode | None, ...]
"""The type of each axis, in order; None where the sweep decides."""

_COMPACT = re.compile(r"([A-Za-z]+)(0|[1-9][0-9]*)")
_LONG = re.compile(r"([^=:,\s]+)=(0|[1-9][0-9]*)(?::([^=:,\s]*))?")
_LETTERS = re.compile(r"[A-Za-z]+")

SPELLING = (
    "expected names of letters each followed by a size and joined by '_', as in 'dp2_tp4'; or NAME=SIZE joined by ',', "
    "as in 'fsdp_transpose=2,tensor=4'; or 'none' for no mesh"
)


def _axis_type(text: str, name: str, kind: str | None) -> Mode | None:
    known: dict[str | None, Mode | None] = {None: None, "auto": "auto", "explicit": "explicit"}
    if kind == "manual":
        raise MeshError(
            f"mesh '{text}': axis '{name}' is of type manual, which jax.set_mesh rejects; write auto or explicit, and "
            "let jax.shard_map make the axis manual inside the function"
        )
    if kind not in known:
        raise MeshError(f"mesh '{text}': axis '{name}' is of type '{kind}'; expected auto or explicit")
    return known[kind]


__all__ = ["AXES", "MODES", "NO_MESH", "MeshSpec", "Mode"]

AXES = ("data", "fsdp", "tensor", "context", "expert", "stage")
"""The axis names of this repository's own pairs and of the parallelism guide; a mesh can have any others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshSpec:
    """Named axes and their sizes, without devices.

    Equivalent to the keyword arguments of `jax.make_mesh(sizes, names)`, kept as data. Without axes, no mesh at all:
    one device.

    Args:
        axes: `(name, size)` in order; names are identifiers, each at most once, and sizes at least 1.
        types: `auto`, `explicit` or None for each axis, in order; None, of all axes by default, leaves it to the
            sharding mode of the sweep.

    Raises:
        MeshError: an axis name is not an identifier, or is repeated; a size is below 1; or types do not fit.
    """

    axes: Axes
    types: AxisTypes = ()

    def __post_init__(self) -> None:
        names_seen: set[str] = set()
        for name, size in self.axes:
            if not name.isidentifier():
                raise MeshError(f"mesh axis '{name}' is not an identifier; expected letters, digits and '_', e.g. 'dp'")
            if name in names_seen:
                raise MeshError(f"mesh axis '{name}' appears twice in '{self.id}'; give each axis once")
            if size < 1:
                raise MeshError(f"mesh axis '{name}' has size {size}; expected at least 1")
            names_seen.add(name)
        if self.types and len(self.types) != len(self.axes):
            raise MeshError(f"mesh of {len(self.axes)} axes with {len(self.types)} axis types; expected one for each")
        for kind in self.types:
            if kind not in (None, *MODES):
                raise MeshError(f"mesh with an axis of type '{kind}'; expected {' or '.join(MODES)}, or None")
        if not any(self.types):
            object.__setattr__(self, "types", ())

    @classmethod
    def parse(cls, text: str) -> MeshSpec:
        """Read a mesh's id, such as `dp2_tp4`, `fsdp_transpose=2,tensor=4`, `dp=2:explicit,tp=4` or `none`.

        Raises:
            MeshError: the text is malformed.
        """
        if text == NO_MESH:
            return cls(axes=())
        compact = [_COMPACT.fullmatch(part) for part in text.split("_")]
        if all(compact):
            return cls(axes=tuple((part[1], int(part[2])) for part in compact if part))
        long = [_LONG.fullmatch(part.strip()) for part in text.split(",")]
        if not all(long):
            raise MeshError(f"mesh '{text}' is malformed; {SPELLING}")
        axes = tuple((part[1], int(part[2])) for part in long if part)
        return cls(axes=axes, types=tuple(_axis_type(text, part[1], part[3]) for part in long if part))

    @classmethod
    def of(cls, mesh: Mesh | AbstractMesh) -> MeshSpec:
        """Return the axes of a mesh of jax's, with their types; `untyped` and `mode` are the two apart.

        Raises:
            MeshError: it has an axis that cannot be declared: of type manual, or whose name is not a string.
        """
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True):
            if not isinstance(name, str):
                raise MeshError(f"mesh axis {name!r} is of type {type(name).__name__}; expected a name, as in 'dp'")
            if kind.name.lower() not in MODES:
                raise MeshError(
                    f"mesh axis '{name}' is of type {kind.name.lower()}, which jax.set_mesh rejects; "
                    "expected a mesh of auto or explicit axes"
                )
        kinds: dict[str, Mode] = {"Auto": "auto", "Explicit": "explicit"}
        return cls(
            axes=tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
            types=tuple(kinds[kind.name] for kind in mesh.axis_types),
        )

    @property
    def id(self) -> str:
        """Return the name that `parse` reads back; equal meshes have equal ids."""
        if not self.axes:
            return NO_MESH
        if not any(self.types) and all(_LETTERS.fullmatch(name) for name in self.names):
            return "_".join(f"{name}{size}" for name, size in self.axes)
        kinds = self.types or (None,) * len(self.axes)
        words = (
            f"{name}={size}{f':{kind}' if kind else ''}" for (name, size), kind in zip(self.axes, kinds, strict=True)
        )
        return ",".join(words)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the axis names in order."""
        return tuple(name for name, _ in self.axes)

    @property
    def devices(self) -> int:
        """Count the devices that the mesh needs."""
        count = 1
        for _, size in self.axes:
            count *= size
        return count

    @property
    def mode(self) -> Mode | None:
        """Return the one mode in which this mesh runs; None where the sweep decides.

        `explicit` where all types are given and one is explicit; `auto` where all are auto, and without a mesh.
        """
        if not self.axes:
            return "auto"
        if not self.types or None in self.types:
            return None
        return "explicit" if "explicit" in self.types else "auto"

    def modes(self, swept: Sequence[Mode]) -> tuple[Mode, ...]:
        """Return the modes of a sweep in which this mesh runs: its own alone, where it has one."""
        return tuple(swept) if self.mode is None else (self.mode,)

    @property
    def untyped(self) -> MeshSpec:
        """Leave all types to the sweep."""
        return MeshSpec(axes=self.axes)

    def size(self, axis: str) -> int:
        """Return the size of an axis; 1 where the mesh does not have it."""
        return dict(self.axes).get(axis, 1)

    def axis_type(self, axis: str, mode: Mode) -> Mode:
        """Return the type of an axis in a mode of the sweep."""
        return self.fixed().get(axis, mode)

    def fixed(self) -> dict[str, Mode]:
        """Return the axes with a type of their own, and that type."""
        return {name: kind for name, kind in zip(self.names, self.types, strict=False) if kind is not None}

    def explicit_axes(self, mode: Mode) -> tuple[str, ...]:
        """Return the axes of type explicit in a mode of the sweep, in order."""
        return tuple(name for name in self.names if self.axis_type(name, mode) == "explicit")

    @property
    def single(self) -> MeshSpec:
        """Return the mesh of one device with the same axes and types; itself where there are none."""
        return self.having(tuple((name, 1) for name in self.names))

    @property
    def one_device(self) -> MeshSpec:
        """Return it on one device: `data1` of the axes of the field, else `single` in any mode."""
        return MeshSpec(axes=(("data", 1),)) if set(self.names) <= set(AXES) else self.single.untyped

    def having(self, axes: Axes) -> MeshSpec:
        """Return a mesh of other axes and sizes, in which those of this mesh have the same types."""
        kinds = self.fixed()
        return MeshSpec(axes=axes, types=tuple(kinds.get(name) for name, _ in axes))

    def with_devices(self, axis: str, number: int) -> MeshSpec:
        """Return the mesh with another number of devices on one of its axes."""
        return self.having(tuple((name, number if name == axis else size) for name, size in self.axes))

    def build(self, mode: Mode, devices: Sequence[Any] | None = None) -> Any:
        """Build the jax mesh over the first of some devices; None without axes.

        Args:
            mode: of the axes without a type of their own.
            devices: those of the default backend when not given; of several processes, as `spanning` chooses them.

        Raises:
            MeshError: there are fewer devices than the mesh needs.
            MeshNotSpanned: they do not divide by the processes.
        """
        import jax

        available = jax.devices() if devices is None else devices
        self.require(len(available))
        if not self.axes:
            return None
        if devices is None:
            available = self.spanning(available, jax.process_index())
        return jax.make_mesh(
            tuple(size for _, size in self.axes),
            self.names,
            axis_types=self._jax_types(mode),
            devices=available[: self.devices],
        )

    def spanning(self, available: Sequence[Any], process: int) -> Sequence[Any]:
        """Return the devices for this mesh where several processes have them: equally many of each, process by process.

        A mesh that has fewer devices than there are processes lies on each process's own devices, in all of them.

        Raises:
            MeshNotSpanned: the devices of the mesh do not divide by the processes, and one does not have as many.
        """
        by_process: dict[int, list[Any]] = {}
        for device in available:
            by_process.setdefault(device.process_index, []).append(device)
        share, rest = divmod(self.devices, len(by_process))
        if not rest and all(share <= len(own) for own in by_process.values()):
            return [device for own in by_process.values() for device in own[:share]]
        own = by_process[process]
        if self.devices > len(own):
            raise MeshNotSpanned(
                f"mesh '{self.id}' has {self.devices} devices, which do not divide by {len(by_process)} processes of "
                f"{len(own)}; leave it out by --mesh, or start another number of processes"
            )
        return own

    def abstract(self, mode: Mode) -> Any:
        """Build the jax mesh without devices, to trace for: it can be of any size. None without axes."""
        import jax

        if not self.axes:
            return None
        return jax.sharding.AbstractMesh(
            tuple(size for _, size in self.axes), self.names, axis_types=self._jax_types(mode)
        )

    def require(self, available: int) -> None:
        """Refuse a mesh that does not fit."""
        if self.devices > available:
            raise MeshError(
                f"mesh '{self.id}' needs {self.devices} devices and {available} are there; "
                f"on CPU ask for them: --devices {self.devices}, "
                f"or JAX_NUM_CPU_DEVICES={self.devices} where the command has no --devices"
            )

    def _jax_types(self, mode: Mode) -> tuple[Any, ...]:
        import jax

        kinds = {"auto": jax.sharding.AxisType.Auto, "explicit": jax.sharding.AxisType.Explicit}
        return tuple(kinds[self.axis_type(name, mode)] for name in self.names)
