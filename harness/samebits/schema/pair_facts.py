"""What a document says once of a pair for all its results: the inputs of its cases, and the source of its sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseInputs:
    """What the sides of a pair were called with in a case, on some meshes.

    Args:
        case: its id.
        meshes: on which these are the arguments.
        statics: the static arguments, as Python writes them.
        arguments: the array arguments by name, of a tree its leaves: dtype, sizes and mesh axes, then how the elements
            are drawn, as in `int32[8@data,16] integers from 0 to 9` or `[8,16@(fsdp,tensor)] normal, special nan`.
            Without a dtype it has that of the sweep; special values are in a second set of inputs.
    """

    case: str
    meshes: tuple[str, ...]
    statics: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSource:
    """Where the function of a side is written.

    Args:
        side: the reference or a variant.
        file: the last folder and the name of the file, as places in `lines` have it.
        first, last: its first and its last line.
        text: these lines, at most 120; None where all results of the side hold with equal bits.
    """

    side: str
    file: str
    first: int
    last: int
    text: str | None = None
