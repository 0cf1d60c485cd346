"""What a document says once of a pair for all its results: the inputs of its cases, and the source of its sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class ArgumentFacts:
    """One array argument of a case.

    Args:
        name: of the argument; of a leaf of a tree, with its path.
        array: dtype and shape, such as `int32[8]`; without a dtype, `[8,16]`, where it is that of the sweep.
        spec: the mesh axes of each dimension, such as `('data', None)`; None where nothing is split.
        values: how its elements are drawn.
        special: the special values that a second set of inputs has besides.
    """

    name: str
    array: str
    spec: str | None = None
    values: str = "normal"
    special: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseInputs:
    """What the sides of a pair were called with in a case, on some meshes.

    Args:
        case: its id.
        meshes: on which these are the arguments.
        statics: the static arguments, as Python writes them.
        arguments: the array arguments, in order.
    """

    case: str
    meshes: tuple[str, ...]
    statics: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[ArgumentFacts, ...] = ()


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
