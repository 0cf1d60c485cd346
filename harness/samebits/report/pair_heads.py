"""The head of a pair in a document: its inputs, its meshes and its sources, said once for all its results."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from samebits.errors import DeclarationError, SamebitsError
from samebits.programs.implementations import implementation
from samebits.programs.inputs import arg_shape
from samebits.programs.plan import LoadedPair
from samebits.report.check import CaseInputs, PairHead, SideSource
from samebits.schema.case import Arg, AxisSize, Case, ContextMesh
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given, Integers, Normal, Uniform

SOURCE_LINES = 120
"""How much of a function is shown, at most."""

STATIC_LETTERS = 120
"""The same of a static argument."""


def pair_head(item: LoadedPair, results: Iterable[Finding]) -> PairHead:
    """Return what a document says of a pair."""
    pair, plan = item.pair, item.plan
    settings = dict.fromkeys((point.case, point.mesh) for point in plan.points)
    return PairHead(
        pair=pair.name,
        reference=pair.reference_name,
        variants=pair.variant_names,
        selected=plan.selected,
        product=plan.product,
        unfit=plan.unfit,
        meshes={mesh: dict(MeshSpec.parse(mesh).axes) for mesh in dict.fromkeys(mesh for _, mesh in settings)},
        inputs=tuple(_inputs(pair, [*settings])),
        sources=tuple(_sources(pair, [result for result in results if result.place.pair == pair.name])),
    )


def _inputs(pair: Pair, settings: Sequence[tuple[str, str]]) -> Iterator[CaseInputs]:
    """Return the inputs of each case; meshes on which they are the same are one entry."""
    for case_id in dict.fromkeys(case for case, _ in settings):
        case, meshes = pair.case(case_id), [mesh for name, mesh in settings if name == case_id]
        try:
            by_mesh = {mesh: tuple(_arguments(pair, case, MeshSpec.parse(mesh))) for mesh in meshes}
        except DeclarationError:  # noqa: S112  its points are not run, and are a problem of the document with this message
            continue
        statics = {name: _static(value) for name, value in case.statics.items()}
        for arguments in dict.fromkeys(by_mesh.values()):
            alike = tuple(mesh for mesh in meshes if by_mesh[mesh] == arguments)
            yield CaseInputs(case=case_id, meshes=alike, statics=statics, arguments=dict(arguments))


def _arguments(pair: Pair, case: Case, mesh: MeshSpec) -> Iterator[tuple[str, str]]:
    """Return the arguments by name, each as text."""
    for name, arg in pair.arguments(case, mesh).items():
        dtype = arg.dtype or ("int32" if isinstance(arg.values, Integers) else "")
        axes = itertools.zip_longest(arg_shape(arg, name, case), arg.spec)
        special = f", special {', '.join(arg.special)}" if arg.special else ""
        yield name, f"{dtype}[{','.join(_dimension(*dimension) for dimension in axes)}] {_values(arg)}{special}"


def _dimension(size: int, axes: str | tuple[str, ...] | None) -> str:
    """Return a dimension, with the mesh axes that split it."""
    if not axes:
        return str(size)
    return f"{size}@{axes}" if isinstance(axes, str) else f"{size}@({','.join(axes)})"


def _values(arg: Arg) -> str:
    """Return how the elements of an argument are drawn, in words."""
    values = arg.values
    if isinstance(values, Normal):
        usual = Normal()
        changed = [f"{name} {getattr(values, name):g}" for name in ("scale", "offset")
                   if getattr(values, name) != getattr(usual, name)]  # fmt: skip
        return ", ".join(("normal", *changed))
    if isinstance(values, Uniform):
        return f"uniform from {values.low:g} to {values.high:g}"
    if isinstance(values, Integers):
        also = f", and {', '.join(map(str, values.also))}" if values.also else ""
        return f"integers from {values.low} to {values.high - 1}{also}"
    if isinstance(values, Given):
        return "an array that was given, and variations of it"
    name = getattr(values, "__name__", "")
    return f"{name}(rng, shape)" if name.isidentifier() else "a function of the declaration"


def _static(value: object) -> str:
    if isinstance(value, AxisSize):
        return f"the size of mesh axis '{value.axis}'"
    if isinstance(value, ContextMesh):
        return "the mesh"
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:STATIC_LETTERS]  # an address is another one in every run


def _sources(pair: Pair, results: Sequence[Finding]) -> Iterator[SideSource]:
    """Yield the sources of all sides; the text of those whose bits differ somewhere, and then of the reference."""
    apart = {result.place.variant for result in results if result.comparison.picture is not None or result.failed}
    for side in pair.sides:
        try:
            source = side_source(side, implementation(pair, side))
        except SamebitsError:  # noqa: S112  it does not import, which its points say
            continue
        if source is not None:
            shown = side in apart or (side == pair.reference_name and bool(apart))
            yield source if shown else SideSource(side=side, file=source.file, first=source.first, last=source.last)


def side_source(side: str, function: Callable[..., Any]) -> SideSource | None:
    """Return where a function is written, with its text; None of one without a source, as in a compiled module."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
    except (OSError, TypeError):  # built in, of a compiled module, or made of a text
        return None
    if file is None:
        return None
    return SideSource(
        side=side,
        file="/".join(Path(file).parts[-2:]),
        first=max(first, 1),
        last=max(first, 1) + len(lines) - 1,
        text=textwrap.dedent("".join(lines[:SOURCE_LINES])).rstrip("\n"),
    )
