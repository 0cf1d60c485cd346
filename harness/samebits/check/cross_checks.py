"""Which points that labels prove are executed all the same, as a cross-check of the compiler, and which are not.

In: a pair and a point with its programs traced. Out: the outcomes of a point that need not be executed. What is
selected depends on the declaration alone, so that a point has the same result in every run of the whole pair, in every
shard of it and in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

import numpy as np

from samebits.check.execution import Execution, MovementProof, PendingPoint, cross_check_input
from samebits.check.outcome import LeafOutcome, says_nothing
from samebits.check.point_proofs import PointProofs
from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.rounding_error.estimate import ideal_values
from samebits.numerics.bits import Comparison
from samebits.programs.placement import check_mesh_used, idle_axes
from samebits.programs.plan import Request, plan
from samebits.prove.partitioned_gather import needed_by_sums
from samebits.prove.problem import other_outputs
from samebits.rooms import door
from samebits.schema.domain import unsaid
from samebits.schema.finding import where
from samebits.schema.pair import Pair
from samebits.schema.point import Effort, Point

_Side = tuple[str, str]
"""A variant and a direction."""


class SizeProofs:
    """What is proved of points for all sizes beside executing them; here nothing, as nothing asks for it."""

    def prove_movement(self, point: Point) -> bool:
        """Tell whether every leaf of a point has the same bits for all sizes and for every number of devices."""
        del point
        return False

    def attached(self, point: Point, movement: MovementProof, outcomes: Iterable[LeafOutcome]) -> list[LeafOutcome]:
        """Return the outcomes of a point, each with what is proved of it for all sizes.

        Args:
            movement: what labels prove of it at its own sizes.
        """
        del point, movement
        return list(outcomes)


def size_proofs(pair: Pair, effort: Effort, platform: str | None = None) -> SizeProofs:
    """Return the proofs for all sizes of a pair, where its contracts or the effort ask for them.

    Args:
        platform: whose branches of `lax.platform_dependent` are taken; that of this process by default.

    Raises:
        RequestError: they do, and symbolic sizes are not installed.
    """
    if effort.all_sizes or any(contract.sizes == "all" for contract in pair.contracts):
        proofs: SizeProofs = door("sizes.beside_runs").PairSizeProofs(pair, every=effort.all_sizes, platform=platform)
        return proofs
    return SizeProofs()


class CrossChecks:
    """The points of a pair that are executed whatever is proved of them.

    Of each variant and direction these are points of the default plan that have every case, dtype, mesh and mode at
    least once; all variants run at the same places as far as possible, since they share the reference's programs.
    `single` has one of them for each variant and direction: it is executed even where all sizes are proved.

    Args:
        devices: how many there are, on which the plan depends.
        all_sizes: whether all but `single` may be left out.
    """

    def __init__(self, pair: Pair, devices: int, *, all_sizes: bool = False) -> None:
        covering = _covering(plan(pair, Request(), devices).points)
        self.points = frozenset(covering)
        self.single = frozenset({_side(point): point for point in reversed(covering)}.values())
        self._counts = Counter(map(_side, self.single if all_sizes else self.points))

    @classmethod
    def of(cls, pair: Pair, effort: Effort) -> CrossChecks | None:
        """Return the points of a pair that are executed whatever is proved; None where all are."""
        import jax

        return cls(pair, len(jax.devices()), all_sizes=effort.all_sizes) if effort.sparing else None

    def spares(self, point: Point, sizes: SizeProofs) -> bool:
        """Return whether a point need not be executed where labels prove it.

        Args:
            sizes: the proofs for all sizes, which are asked where one point of its variant and direction is enough.
        """
        return point not in self.points or (point not in self.single and sizes.prove_movement(point))

    def others(self, point: Point) -> int:
        """Return how many points of the variant and direction of a point are executed whatever is proved."""
        return self._counts[_side(point)]


def _covering(points: Iterable[Point]) -> list[Point]:
    """Choose greedily the setting of the points that cover most values not seen yet, the first of equals."""
    by_setting: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        by_setting.setdefault((point.case, point.dtype, point.mesh, point.mode), []).append(point)
    covers = {
        setting: {(_side(point), axis, value) for point in of_setting for axis, value in enumerate(setting)}
        for setting, of_setting in by_setting.items()
    }
    missing = set().union(*covers.values())
    chosen: list[Point] = []
    while missing:
        best = max(covers, key=lambda setting: len(covers[setting] & missing))
        missing -= covers[best]
        chosen += by_setting[best]
    return chosen


def _side(point: Point) -> _Side:
    return point.variant, point.direction


def proved_outcomes(execution: Execution, proofs: PointProofs, job: PendingPoint) -> list[LeafOutcome] | None:
    """Return the outcomes of a point that labels prove for every leaf; None where any must be executed.

    It must where a side does more than to move elements and to add exact zeros, where the contract accepts rounding or
    does not state what the proof requires of the inputs (that of a gather too which the partitioner may compile to a
    sum over devices), where an exemption covers a leaf, and where the declared layouts leave an axis of the mesh idle,
    so that the arrays that the compiler lays out must show whether the mesh is used.
    """
    if any(program.error is not None for program in job.programs.values()) or not _splits(execution, job):
        return None
    pair, point, sides = execution.pair, job.point, execution.sides
    proof = proofs.movement(job)
    if not proof.holds or not proof.only_moved:
        return None
    traced = other_outputs(sides, point.direction, *execution.ends(job))
    sums = needed_by_sums(sides, point.direction, point.variant, job.on_mesh)
    for comparison in traced:
        contract = pair.contract(**where(point), leaf=comparison.path, moves=True)
        stated = not unsaid(contract.domain, (*proof.promises.get(comparison.path, ()), *sums))
        expected = contract.lowest != "rounding" and pair.exemption(**where(point), leaf=comparison.path) is None
        if not comparison.equal or not stated or not expected:
            return None
    try:
        empty = _nothing(proofs, job)
    except NotCovered:  # whether its values say something is then seen by running it
        return None
    return [
        LeafOutcome(
            comparison=Comparison(path=comparison.path, elements=comparison.elements),
            nothing=empty.get(comparison.path),
            promises=proof.promises.get(comparison.path),
            routing=proof.routing,
            assumed=proof.assumed,
            elsewhere=partial(proofs.counterexample, job, comparison.path),
            derivatives=proofs.prover.derivatives(point.direction, point.variant, comparison.path),
        )
        for comparison in traced
    ]


def _splits(execution: Execution, job: PendingPoint) -> bool:
    """Return whether the mesh is the one asked for, and the layouts split an argument over each of its axes."""
    site = job.on_mesh
    if not site.on_mesh:
        return True
    assert site.built is not None
    try:
        check_mesh_used({}, {}, site.mesh, site.built)
    except CouldNotRun:  # running it says why
        return False
    return not idle_axes(execution.sides.types(site).values(), site.mesh)


def _nothing(proofs: PointProofs, job: PendingPoint) -> dict[str, str]:
    """Explain by leaf why its values say nothing at the input at which the point would run.

    Raises:
        NotCovered: an equation has no value in float64.
    """
    questions = proofs.questions(job)
    question = questions[cross_check_input(questions, job.point.direction)]
    values = ideal_values(question.reference, question)
    types = dict(zip(question.outputs, question.types(question.reference), strict=True))
    reasons = {}
    for leaf, kind in types.items():
        array = values.get(leaf, np.empty(kind.shape, np.int8))
        reasons[leaf] = says_nothing([array], leaf, job.point.direction)
    return {leaf: why for leaf, why in reasons.items() if why is not None}
