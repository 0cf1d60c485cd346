"""Properties of the sides of a pair as findings: what `samebits prove` reports of a declaration, or of one function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from samebits.check.prove_points import PointProver
from samebits.engine.prove_work import ProveWork
from samebits.errors import CouldNotRun, DeclarationError, RequestError
from samebits.host.isolation import note
from samebits.programs.inputs import records
from samebits.programs.like import is_array
from samebits.programs.program_cache import CompileSetup
from samebits.programs.side_call import side_call
from samebits.properties import named
from samebits.properties.outcome import read_matrix
from samebits.properties.reading import Reading
from samebits.schema.assumption import Assumption
from samebits.schema.contract import DIFFERENTIATED
from samebits.schema.finding import DEPENDENCE, Finding, Place, Proof, Ruling, at
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.property_asked import OPTIONS, Property
from samebits.schema.result import Verdict

VERDICTS: Mapping[str, Verdict] = {"proved": "proved", "refuted": "different", "undecided": "error"}
GIVEN = " as given"
"""What ends the condition that names the arguments for whose values alone a proof holds."""


class ProveWithProperties(ProveWork):
    """Proves points of pairs, and decides at each what its declaration asks of the side.

    Both directions are decided at the point that comes first; without `gradients` forward alone.
    """

    def __init__(self, platform: str, *, assuming: bool = True, gradients: bool = True) -> None:
        super().__init__(platform, assuming=assuming)
        self.gradients = gradients
        self._known: dict[tuple[PointProver, Point], list[Finding]] | None = None

    def results(self, prover: PointProver, point: Point) -> list[Finding]:
        """Return the proofs of the leaves of a point, then its properties."""
        leaves, pair = super().results(prover, point), prover.pair
        case = pair.case(point.case)
        wanted = [
            each
            for each in pair.properties
            if fnmatchcase(point.case, each.case) and fnmatchcase(point.variant, each.variant)
        ]
        if not wanted or point.mode != "auto" or case.transform is not None or case.refusal(point.variant) is not None:
            return leaves
        key = prover, replace(point, direction="forward")
        decided = self._known = {known: rows for known, rows in (self._known or {}).items() if known[0] is prover}
        if key not in decided:
            try:
                built = prover.traced(point).on_mesh.built
            except CouldNotRun:  # said of its leaves
                return leaves
            function = prover.sides.functions[point.variant]
            decided[key] = side_findings(pair, point, function, wanted, built, gradients=self.gradients)
        again = leaves[0].replay if leaves else ""
        rows = [each for each in decided[key] if each.place.direction == point.direction]
        return [*leaves, *(replace(each, replay=again) for each in rows)]


def side_findings(
    pair: Pair,
    point: Point,
    function: Callable[..., Any],
    wanted: Sequence[Property],
    built: Any,
    *,
    gradients: bool = True,
) -> list[Finding]:
    """Decide properties of one side at a point, forward and gradient; `built` is the mesh, which may be abstract.

    What a proof is conditional on is a part of the property, and not one of the assumptions that can be rejected.

    Raises:
        DeclarationError: a property does not fit the arguments or outputs.
    """
    import jax

    case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
    if isinstance(built, jax.sharding.AbstractMesh) and mesh.devices <= jax.device_count():
        built = mesh.build(point.mode)  # which can run, for a witness
    trees = pair.argument_trees(case, mesh)
    record = records(pair, case, point.dtype, mesh)["ordinary"]
    call = side_call(pair, point.variant, function, case, mesh, built)

    def side(*values: Any) -> Any:
        arrays: dict[str, Any] = {}
        for (name, tree), value in zip(trees.items(), values, strict=True):
            arrays |= zip(tree.leaves(name), filter(is_array, jax.tree.leaves(value)), strict=True)
        return call(arrays)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    side.__name__ = point.variant
    side.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in trees])  # type: ignore[attr-defined]
    values = [tree.assembled(name, record) for name, tree in trees.items()]
    rows: list[Finding] = []
    with CompileSetup(mesh=built).active():
        for each in wanted:
            try:
                rows += _decided(each, side, values, at(pair.name, point), gradients=pair.gradients and gradients)
            except RequestError as error:
                raise DeclarationError(f"pair '{pair.name}', case '{case.id}', property {each}: {error}") from None
    return rows


def _decided(
    wanted: Property, side: Callable[..., Any], values: list[Any], place: Place, *, gradients: bool
) -> list[Finding]:
    """Return what is seen of a property, for each direction."""
    options = wanted.options
    if "gradient" in OPTIONS[wanted.name]:
        options["gradient"] = options.get("gradient", True) and gradients
    try:
        outcome = getattr(named, wanted.name)(side, *values, **options)
    except CouldNotRun as error:
        return [_finding(place, wanted, Reading(place.direction, str(wanted), "undecided", reason=str(error)))]
    for text in outcome.notes:
        note(f"{wanted} of '{place.variant}': {text}")
    return [_finding(place, wanted, reading) for reading in outcome.readings]


def _finding(place: Place, wanted: Property, reading: Reading) -> Finding:
    """Return a reading as a finding."""
    routing = [text.removesuffix(GIVEN) for text in reading.conditions if text.endswith(GIVEN)]
    others = [text for text in reading.conditions if not text.endswith(GIVEN)]
    by = f"; it gets in by {reading.place}" if reading.place else ""
    refuted = reading.verdict == "refuted"
    leaf = f"{wanted}{DIFFERENTIATED if reading.direction == 'gradient' else ''}"
    return Finding(
        tool="prove",
        place=replace(place, direction=reading.direction, leaf=leaf),
        ruling=Ruling(
            verdict=VERDICTS[reading.verdict],
            required="proved",
            ok=reading.verdict == "proved",
            reason=None if refuted else f"{reading.reason}{by}" or None,
            evidence=reading.claim,
        ),
        proof=Proof(
            method=DEPENDENCE,
            routing=tuple(name for names in routing for name in names.split(", ")),
            assumptions=tuple(Assumption("values", text, "other inputs are not so") for text in others),
            refutation=f"{reading.witness}{by}" if refuted else None,
            reads=read_matrix(reading),
        ),
        seconds=round(reading.seconds, 4),
    )
