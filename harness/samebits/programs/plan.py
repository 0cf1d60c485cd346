"""Which points of the product run: all of them, or a fixed selection of them.

The selection covers every two values of case, dtype, mesh and mode together, and every three of dtype, mesh and mode: a
fault that needs one dtype on one mesh in one mode is not left to chance.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from samebits.errors import DeclarationError, RequestError
from samebits.programs.catalogue import Locator, suggest
from samebits.programs.inputs import differentiable
from samebits.programs.other_sizes import is_at, read_sizes
from samebits.schema.case import Case
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.meshes import MODES, MeshSpec, Mode
from samebits.schema.pair import Pair, check_spec_axes, require_axes
from samebits.schema.point import Point


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user asked for; empty, the default, means everything. Each entry is a name or a shell pattern.

    Args:
        variants: the sides; the reference's own name selects the reference on the mesh.
        cases: ids of cases.
        dtypes: names of dtypes.
        meshes: ids of meshes; one that the pair does not list runs too.
        modes: `auto`, `explicit`.
        directions: `forward`, `gradient`.
        full: the whole product instead of the covering selection; False by default.
        sizes: other sizes for the cases that have them, as in `length=64,cp=16`; other cases do not run then.
    """

    variants: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    meshes: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    full: bool = False
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PointSetting:
    """The part of a point that all sides and directions share."""

    case: str
    dtype: str
    mesh: str
    mode: Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What will run of one pair.

    Args:
        points: in an order that keeps sharers of a program together.
        selected, product: how many settings run, and how many the whole product has.
        unfit: wide meshes that are left out because they need more devices than there are.
        whole: nothing was filtered away, so statements about the whole declaration can be made.
    """

    points: tuple[Point, ...]
    selected: int
    product: int
    unfit: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedPair:
    """A pair that loaded, with what will run of it."""

    locator: Locator
    pair: Pair
    plan: Plan


def plan(pair: Pair, request: Request, devices: int) -> Plan:
    """Return the points of a pair, at the sizes of the request, that a request asks for."""
    meshes, unfit = _meshes(pair, request, devices)
    cases = _chosen("case", request.cases, tuple(case.id for case in pair.cases), pair.name)
    sizes = read_sizes(request.sizes)
    dtypes = _chosen("dtype", request.dtypes, pair.dtypes, pair.name)
    specs = {mesh: MeshSpec.parse(mesh) for mesh in meshes}
    known_modes = [mode for mode in MODES if mode in pair.modes or any(mode == spec.mode for spec in specs.values())]
    modes = _chosen("mode", request.modes, known_modes, pair.name)
    sides = _chosen("variant", request.variants, pair.sides, pair.name)
    directions = _chosen("direction", request.directions, DIRECTIONS, pair.name)
    product = [
        PointSetting(case=case.id, dtype=dtype, mesh=mesh, mode=mode)
        for case in pair.cases
        if case.id in cases and is_at(case, sizes)
        for mesh in meshes
        if allows(case.meshes, mesh) or (sizes and mesh in request.meshes)
        for dtype in dtypes
        if case.dtypes is None or dtype in case.dtypes
        for mode in specs[mesh].modes(pair.modes)
        if mode in modes and (case.modes is None or mode in case.modes or not specs[mesh].axes)
    ]
    chosen = product if request.full else covering(product)
    for case_id, mesh in dict.fromkeys((setting.case, setting.mesh) for setting in chosen):
        check_spec_axes(pair, pair.arguments(pair.case(case_id), specs[mesh]))
    points = tuple(
        Point(variant=side, case=s.case, dtype=s.dtype, mesh=s.mesh, mode=s.mode, direction=direction)
        for s in chosen
        for direction in directions_of(pair, pair.case(s.case), s)
        if direction in directions
        for side in sides
        if side == pair.reference_name
        or pair.case(s.case).variants is None
        or side in (pair.case(s.case).variants or ())
    )
    if not points:
        what = "this request" if request != Request(full=request.full) else "its declaration"
        error = RequestError if request != Request(full=request.full) else DeclarationError
        raise error(
            f"pair '{pair.name}': {what} yields no case; loosen the filters, or the cases' dtypes, meshes and variants"
        )
    whole = request in (Request(), Request(full=True))
    return Plan(points=points, selected=len(chosen), product=len(product), unfit=unfit, whole=whole)


def covering(product: Sequence[PointSetting]) -> list[PointSetting]:
    """Return a selection that loses no two values which occur together in the product, and no dtype, mesh and mode.

    Greedy: take the setting that covers most combinations not seen yet, the first of equals, until none is left.
    Written here because the product has holes (cases restrict their meshes and dtypes), and the known pairwise
    generators take holes as a filter, under which they can miss combinations that do exist.
    """
    combined = [combinations(setting) for setting in product]
    missing = set().union(*combined)
    use: Counter[str] = Counter()
    taken: list[int] = []
    rest = list(range(len(product)))
    while missing:
        # Among equals prefer values used least so far, which spreads dtypes and modes evenly over the meshes.
        best = min(rest, key=lambda i: (-len(combined[i] & missing), sum(use[v] for v in _values(product[i])), i))
        taken.append(best)
        rest.remove(best)
        missing -= combined[best]
        use.update(_values(product[best]))
    return [product[i] for i in sorted(taken)]


def combinations(setting: PointSetting) -> set[frozenset[str]]:
    """Return what a setting covers: every two of its values, and its dtype, mesh and mode together."""
    values = _values(setting)
    return {*map(frozenset, itertools.combinations(values, 2)), frozenset(values[1:])}


def _values(setting: PointSetting) -> tuple[str, ...]:
    """Return the values of a setting, each with the name of its axis."""
    return tuple(f"{name}={getattr(setting, name)}" for name in ("case", "dtype", "mesh", "mode"))


def directions_of(pair: Pair, case: Case, setting: PointSetting) -> tuple[Direction, ...]:
    """Return forward, and gradient where a float argument can be differentiated; a refusing case has no gradient."""
    if not pair.gradients or any(not refusal.variants for refusal in case.refuses):
        return ("forward",)
    if case.transform in ("remat", "second_derivative"):
        return ("gradient",)  # forward, they are the case itself and its gradient
    args = pair.arguments(case, MeshSpec.parse(setting.mesh))
    return DIRECTIONS if differentiable(args, setting.dtype) else ("forward",)


def allows(declared: tuple[str, ...] | None, mesh: str) -> bool:
    """Tell whether a case runs on a mesh; one asked for by name that the pair lacks is for unrestricted cases."""
    return declared is None or mesh in declared


def _chosen(what: str, patterns: tuple[str, ...], known: Sequence[str], pair: str) -> list[str]:
    if not patterns:
        return list(known)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise RequestError(f"pair '{pair}' has no {what} '{pattern}'; {suggest(pattern, list(known))}")
    return [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _meshes(pair: Pair, request: Request, devices: int) -> tuple[list[str], tuple[str, ...]]:
    wide = [mesh for mesh in pair.wide_meshes if MeshSpec.parse(mesh).devices <= devices]
    unfit = tuple(mesh for mesh in pair.wide_meshes if mesh not in wide)
    if not request.meshes:
        return [*pair.meshes, *wide], unfit
    fitting = []
    unfit = ()
    for text in request.meshes:
        matching = [mesh for mesh in pair.meshes + pair.wide_meshes if fnmatchcase(mesh, text)]
        for mesh in matching or [text]:
            spec = MeshSpec.parse(mesh)
            require_axes(pair, spec)
            if mesh in pair.wide_meshes and mesh != text and spec.devices > devices:
                unfit = (*unfit, mesh)  # a pattern asks for those that fit; only a name insists
                continue
            spec.require(devices)
            fitting.append(spec.id)
    return list(dict.fromkeys(fitting)), unfit
