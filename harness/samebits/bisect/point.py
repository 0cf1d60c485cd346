"""The failing point of a pair at which a bisection starts, read from the command line's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samebits.errors import RequestError
from samebits.host import environment
from samebits.programs.catalogue import Locator, default_root, suggest
from samebits.schema.case import Case
from samebits.schema.contract import DIRECTIONS
from samebits.schema.meshes import MODES, MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRequest:
    """A failing point, with the sizes and inputs that are given rather than searched for.

    Args:
        pair, variant, case, mesh, dtype, mode, direction: the point; None takes the first that the case allows, of
            meshes made smaller to one device, and where tensors are aligned an empty text too.
        leaf: the output whose difference counts; the first with the most severe verdict by default.
        sizes: changed sizes of the case.
        label: the only input to run, with `values` and zeros elsewhere.
        values: elements by name, such as `x[0, 1]`.
    """

    pair: str
    variant: str
    case: str
    mesh: str | None
    dtype: str | None = None
    mode: str | None = None
    direction: str | None = None
    leaf: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    label: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    only: bool = False
    root: Path | None = None

    @property
    def tree(self) -> Path:
        """The tree of the pair."""
        return self.root or default_root()

    @property
    def locator(self) -> Locator:
        """Where the pair is declared."""
        return Locator(name=self.pair, root=None if self.root is None else str(self.root))


def point_of(pair: Pair, request: PointRequest) -> Point:
    """Return the point of a request.

    Raises:
        RequestError: a name is unknown, or the case does not allow the dtype, mode or direction.
    """
    names = (("variant", request.variant, pair.sides), ("case", request.case, tuple(case.id for case in pair.cases)))
    for what, name, known in names:
        if name not in known:
            raise RequestError(f"pair '{pair.name}' has no {what} '{name}'; {suggest(name, list(known))}")
    case = pair.case(request.case)
    mesh = (
        MeshSpec.parse((case.meshes or pair.meshes)[0]).single if request.mesh is None else MeshSpec.parse(request.mesh)
    )
    chosen = {}
    for what, wanted, known in (
        ("dtype", request.dtype, case.dtypes or pair.dtypes),
        ("mode", request.mode, _modes(pair, case, mesh)),
        ("direction", request.direction, DIRECTIONS if pair.gradients else DIRECTIONS[:1]),
    ):
        if wanted is not None and wanted not in known:
            raise RequestError(
                f"pair '{pair.name}', case '{case.id}' has no {what} '{wanted}'; it has {', '.join(known)}"
            )
        chosen[what] = wanted or known[0]
    unknown = [axis for axis in mesh.names if axis not in pair.axes]
    if unknown:
        listed = ", ".join(pair.axes)
        raise RequestError(f"--mesh {request.mesh}: pair '{pair.name}' has no axis '{unknown[0]}'; it knows {listed}")
    return Point(variant=request.variant, case=request.case, mesh=mesh.id, **chosen)  # type: ignore[arg-type]


def _modes(pair: Pair, case: Case, mesh: MeshSpec) -> tuple[str, ...]:
    """Return the sharding modes that a case allows on a mesh."""
    swept = case.modes or tuple(mode for mode in MODES if mode in pair.modes)
    return mesh.modes(swept)


def point_options(point: Point) -> dict[str, Any]:
    """Return the options that name a point, with the number of devices where its mesh needs more than usual."""
    names = ("variant", "case", "dtype", "mesh", "mode", "direction")
    devices = MeshSpec.parse(point.mesh).devices
    return {
        **{name: getattr(point, name) for name in names},
        "devices": devices if devices > environment.DEVICES else None,
    }


def mesh_measures(mesh: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers that a search for the smallest point makes smaller."""
    return {"devices": MeshSpec.parse(mesh).devices, **sizes}


def device_count() -> int:
    """Return the number of devices; starts the backend."""
    import jax

    return jax.device_count()
