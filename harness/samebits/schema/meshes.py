"""Meshes by name: `expert4_fsdp2` is four-way `expert` by two-way `fsdp`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from samebits.errors import MeshError

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh, Mesh

AXES = ("data", "fsdp", "tensor", "context", "expert", "stage")
"""The axis names of the field; a mesh uses no other."""

Mode = Literal["auto", "explicit"]
"""How arrays carry their sharding: `AxisType.Auto` (the compiler decides) or `AxisType.Explicit` (part of the type)."""
MODES: tuple[Mode, ...] = ("auto", "explicit")

NO_MESH = "none"
"""The id of one device without a mesh."""

_PART = re.compile(r"([a-z]+)(0|[1-9][0-9]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshSpec:
    """Named axes and their sizes, without devices.

    Equivalent to the keyword arguments of `jax.make_mesh(sizes, names)`, kept as data.

    Args:
        axes: `(name, size)` in order, names from `AXES`, each at most once, sizes of at least 1.

    Raises:
        MeshError: an axis is unknown, repeated or smaller than 1, or there is none.
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise MeshError(f"a mesh without axes; expected at least one of {', '.join(AXES)}, as in 'context4'")
        names_seen: set[str] = set()
        for name, size in self.axes:
            if name not in AXES:
                near = difflib.get_close_matches(name, AXES, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise MeshError(f"mesh axis '{name}' is unknown; the axes are {', '.join(AXES)}{hint}")
            if name in names_seen:
                raise MeshError(f"mesh axis '{name}' appears twice in '{self.id}'; give each axis once")
            if size < 1:
                raise MeshError(f"mesh axis '{name}' has size {size}; expected at least 1")
            names_seen.add(name)

    @classmethod
    def parse(cls, text: str) -> MeshSpec:
        """Read a mesh's id, such as `context8` or `expert4_fsdp2`.

        Raises:
            MeshError: the text is not a list of axis names followed by sizes, joined by `_`.
        """
        parts = [_PART.fullmatch(part) for part in text.split("_")]
        if not all(parts):
            raise MeshError(
                f"mesh '{text}' is malformed; expected axis names each followed by a size and joined by '_', "
                "as in 'context8' or 'expert4_fsdp2'"
            )
        return cls(axes=tuple((part[1], int(part[2])) for part in parts if part))

    @property
    def id(self) -> str:
        """The name that `parse` reads back."""
        return "_".join(f"{name}{size}" for name, size in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The axis names in order."""
        return tuple(name for name, _ in self.axes)

    @property
    def devices(self) -> int:
        """How many devices the mesh needs."""
        count = 1
        for _, size in self.axes:
            count *= size
        return count

    def size(self, axis: str) -> int:
        """The size of an axis; 1 where the mesh does not have it."""
        return dict(self.axes).get(axis, 1)

    def build(self, mode: Mode, devices: Sequence[Any] | None = None) -> Mesh:
        """The jax mesh over the first of some devices, all axes in one sharding mode.

        Args:
            mode: of all axes.
            devices: those of the default backend when not given.

        Raises:
            MeshError: there are fewer devices than the mesh needs.
        """
        import jax

        available = jax.devices() if devices is None else devices
        self.require(len(available))
        return jax.make_mesh(
            tuple(size for _, size in self.axes),
            self.names,
            axis_types=(_axis_type(mode),) * len(self.axes),
            devices=available[: self.devices],
        )

    def abstract(self, mode: Mode) -> AbstractMesh:
        """The jax mesh without devices, to trace for: it can be of any size."""
        import jax

        return jax.sharding.AbstractMesh(
            tuple(size for _, size in self.axes), self.names, axis_types=(_axis_type(mode),) * len(self.axes)
        )

    def require(self, available: int) -> None:
        """Refuse a mesh that does not fit.

        Raises:
            MeshError: it needs more than `available` devices.
        """
        if self.devices > available:
            raise MeshError(
                f"mesh '{self.id}' needs {self.devices} devices and {available} are there; "
                f"on CPU ask for them: --devices {self.devices}"
            )


def _axis_type(mode: Mode) -> Any:
    import jax

    return {"auto": jax.sharding.AxisType.Auto, "explicit": jax.sharding.AxisType.Explicit}[mode]
