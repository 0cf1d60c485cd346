"""The point of a pair that a bisection begins with, as it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samebits.errors import RequestError
from samebits.programs.catalogue import suggest
from samebits.schema.contract import DIRECTIONS
from samebits.schema.meshes import MODES, MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRequest:
    """The failing point, and what of it is given rather than shrunk.

    Args:
        pair, variant, case, mesh, dtype, mode, direction: the point; None takes the first that the case allows.
        leaf: whose difference counts; of the gravest, the first.
        sizes: of the case, changed.
        label: the input that is run, alone, with `values` and zeros elsewhere.
        values: elements by name, `x[0, 1]`.
        only: judge this point, and shrink nothing.
        root: the tree of the pair.
    """

    pair: str
    variant: str
    case: str
    mesh: str
    dtype: str | None = None
    mode: str | None = None
    direction: str | None = None
    leaf: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    label: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    only: bool = False
    root: Path | None = None


def point_of(pair: Pair, asked: PointRequest) -> Point:
    """The point that was asked for.

    Raises:
        RequestError: a name is unknown, or the case does not run so.
    """
    names = (
        ("variant", asked.variant, pair.sides),
        ("case", asked.case, tuple(case.id for case in pair.cases)),
    )
    for what, name, known in names:
        if name not in known:
            raise RequestError(f"pair '{pair.name}' has no {what} '{name}'; {suggest(name, list(known))}")
    case = pair.case(asked.case)
    chosen = {}
    for what, wanted, known in (
        ("dtype", asked.dtype, case.dtypes or pair.dtypes),
        ("mode", asked.mode, case.modes or tuple(mode for mode in MODES if mode in pair.modes)),
        ("direction", asked.direction, DIRECTIONS if pair.gradients else DIRECTIONS[:1]),
    ):
        if wanted is not None and wanted not in known:
            raise RequestError(
                f"pair '{pair.name}', case '{case.id}' has no {what} '{wanted}'; it has {', '.join(known)}"
            )
        chosen[what] = wanted or known[0]
    unknown = [axis for axis in MeshSpec.parse(asked.mesh).names if axis not in pair.axes]
    if unknown:
        listed = ", ".join(pair.axes)
        raise RequestError(f"--mesh {asked.mesh}: pair '{pair.name}' has no axis '{unknown[0]}'; it knows {listed}")
    return Point(variant=asked.variant, case=asked.case, mesh=asked.mesh, **chosen)  # type: ignore[arg-type]


def devices_here() -> int:
    """How many devices there are; starts the backend."""
    import jax

    return len(jax.devices())
