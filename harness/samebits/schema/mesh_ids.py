"""How a mesh is written: `dp2_tp4`, or `fsdp_transpose=2,tensor=4:explicit`; read and written here, as data.

The compact form joins letters and sizes by `_`, so it holds names of letters only. The long form holds every identifier
and the type of an axis. Of each mesh one spelling is canonical: the compact one where it can be written in it.
"""

from __future__ import annotations

import re
from typing import Literal

from samebits.errors import MeshError

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


def read(text: str) -> tuple[Axes, AxisTypes]:
    """The axes and their types that a text means.

    Raises:
        MeshError: it is in neither form, or an axis has a type that none can be given.
    """
    if text == NO_MESH:
        return (), ()
    compact = [_COMPACT.fullmatch(part) for part in text.split("_")]
    if all(compact):
        return tuple((part[1], int(part[2])) for part in compact if part), (None,) * len(compact)
    long = [_LONG.fullmatch(part.strip()) for part in text.split(",")]
    if not all(long):
        raise MeshError(f"mesh '{text}' is malformed; {SPELLING}")
    axes = tuple((part[1], int(part[2])) for part in long if part)
    return axes, tuple(_axis_type(text, part[1], part[3]) for part in long if part)


def written(axes: Axes, types: AxisTypes) -> str:
    """The canonical spelling, which `read` reads back."""
    if not axes:
        return NO_MESH
    if not any(types) and all(_LETTERS.fullmatch(name) for name, _ in axes):
        return "_".join(f"{name}{size}" for name, size in axes)
    kinds = types or (None,) * len(axes)
    return ",".join(
        f"{name}={size}" + (f":{kind}" if kind else "") for (name, size), kind in zip(axes, kinds, strict=True)
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
