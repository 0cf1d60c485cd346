"""A point at other inputs than those of its case: what its programs give there, and what they should.

The programs are compiled already; in a proof both are evaluated as written, in the range of their dtypes. What they run
at comes from three sources: boundary values of index arguments (`index_values`), other magnitudes and special values
(`magnitudes`), and, where a gradient cannot be interpreted, other cotangents (`at_other_cotangents`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.check.contract_audit import ANY_DEVICES
from samebits.check.execution import PendingPoint
from samebits.check.point_proofs import PointProofs
from samebits.errors import CouldNotRun, NotCovered
from samebits.host.cache_keys import ByIdentity
from samebits.host.isolation import note
from samebits.interpret.equation import Array
from samebits.interpret.float64_differences import HIDDEN, RangedOracle, evaluated, outputs_of
from samebits.interpret.other_values import Counterexample
from samebits.interpret.probes import ONES, changed, must_run
from samebits.interpret.problem import Question, first_place
from samebits.interpret.rounding_error.estimate import estimate_errors
from samebits.numerics import floats
from samebits.programs.inputs import Record
from samebits.programs.plan import Request, plan
from samebits.schema.domain import Fact
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import CompiledPair
from samebits.schema.point import Point

TOGETHER = (
    "with several processes, programs run at the inputs of their cases alone: at other integers, and at the borders of "
    "shards, what is proved is the program as written"
)
"""The note with points that several processes run together."""

CACHED = 3
"""The findings of so many points are cached: of one alone, on its mesh, and of the reference on that mesh."""


@dataclass(frozen=True, eq=False)
class OtherInputs:
    """Inputs of a point. Of two sides, 0 is the reference alone and 1 the variant on its mesh.

    Args:
        words: how they differ from those of the case; empty for these.
        allowed: such inputs may be given.
        first: of its variant, dtype and direction, the point is the first one on the smallest mesh.
        exponent: the largest of these is two to this power; None where they are not scaled.
        fact: what leaves out the special value that is planted, if one is.
        executed: the compiled programs run; else both are evaluated as written, in the range of their dtypes.
    """

    proofs: PointProofs = field(repr=False)
    job: PendingPoint
    record: Record
    cotangents: dict[str, Array]
    words: str = ""
    allowed: bool = True
    first: bool = True
    changed: tuple[str, ...] = ()
    exponent: int | None = None
    fact: Fact | None = None
    executed: bool = True

    @property
    def sides(self) -> tuple[str, str]:
        """The reference and the variant."""
        return self.proofs.execution.pair.reference_name, self.job.point.variant

    @functools.cached_property
    def ran(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """By leaf, what both sides give.

        Raises:
            CouldNotRun: a callback does not take these inputs.
            NotCovered: what is not executed has no value there.
        """
        if self.executed:
            return self.proofs.execution.sides_at(self.job, self.record, self.cotangents)
        return self._in_range(self.question.reference), self._in_range(self.question.variant)

    def _in_range(self, program: Any) -> dict[str, Array]:
        """Return by leaf what a program gives without rounding in the range of its dtypes."""
        outputs = zip(outputs_of(self.question, program, RangedOracle()), self.question.types(program), strict=True)
        with np.errstate(all="ignore"):
            arrays = [np.asarray(array, kind.dtype) for array, kind in outputs]
        return dict(zip(self.question.outputs, arrays, strict=True))

    @property
    def leaves(self) -> list[str]:
        """Those that both sides give, in one dtype and shape."""
        first, second = ({path: (leaf.dtype, leaf.shape) for path, leaf in side.items()} for side in self.ran)
        return [path for path, kind in first.items() if second.get(path) == kind and self.ran[0][path].size]

    @functools.cached_property
    def question(self) -> Question:
        """Both programs at these inputs."""
        point, job = self.job.point, self.job
        sides = point.direction, job.alone, point.variant, job.on_mesh
        return self.proofs.prover.question(*sides, self.record, self.cotangents)

    def written(self, side: int, path: str) -> Array:
        """Return a leaf as a side is written, evaluated in float64; what a compiler made is to be what it was made of.

        Raises:
            NotCovered: it has no value there.
        """
        compiled = isinstance(self.proofs.execution.pair, CompiledPair)
        program = self.question.sides[0 if compiled else side]
        return np.asarray(evaluated(self.question, program)[list(self.question.outputs).index(path)])

    def bound(self, side: int, path: str) -> Array:
        """Return how far rounding can take a leaf from what is written.

        Raises:
            NotCovered: no bound is known.
        """
        import jax

        program = self.question.sides[side]
        bounds = estimate_errors(program, self.question, jax.default_backend()).bounds
        bound = bounds.get(path, np.asarray(np.inf))  # of a constant there is none
        return np.where(np.isnan(bound), np.inf, bound)

    def both(self, path: str, at: tuple[int, ...]) -> str:
        """Return what both sides give at an element, in words."""
        first, second = (floats.show(side[path][at]) for side in self.ran)
        return f"{place(path, at)} is {first} in '{self.sides[0]}' and {second} in '{self.sides[1]}'"

    def counterexample(self, path: str, words: str) -> Counterexample:
        """Return these inputs as those at which both sides differ in a leaf."""
        return Counterexample(
            words, self.allowed, f"ordinary, {self.words}", values=(self.ran[0][path], self.ran[1][path])
        )


def place(path: str, at: tuple[int, ...]) -> str:
    """Return an element of a leaf, in words."""
    return f"{path}[{', '.join(map(str, at))}]" if at else path


def first_found(
    leaves: Sequence[str], others: Iterable[OtherInputs], apart: Callable[[OtherInputs, str], Counterexample | None]
) -> dict[str, Counterexample]:
    """Return by leaf the first of other inputs at which it is wrong, rather one that may be given.

    Args:
        apart: gives what is wrong with a leaf at inputs, if anything is.
    """
    known: dict[str, Counterexample] = {}
    for other in others:
        for path in leaves:
            if path in known and _weight(known[path]) >= (other.allowed, True):
                continue
            with contextlib.suppress(NotCovered, CouldNotRun):  # these say nothing, such as what a callback rejects
                result = apart(other, path)
                if result is not None and (path not in known or _weight(known[path]) < _weight(result)):
                    known[path] = result
    return known


def _weight(known: Counterexample) -> tuple[bool, bool]:
    return known.allowed, known.kind != "accuracy"


Search = Callable[[OtherInputs], dict[str, Counterexample]]


class Searches:
    """What is found at other inputs of the points of one pair.

    Args:
        searches: each gives other inputs than those of a case at which a leaf is wrong; inputs that may be given count
            first, then their order.
        executed: as of `OtherInputs`.
    """

    def __init__(self, proofs: PointProofs, searches: Sequence[Search], *, executed: bool = True) -> None:
        self._proofs, self._searches, self._executed = proofs, searches, executed
        self._found = functools.lru_cache(maxsize=CACHED * len(searches))(self._searched)

    def counterexample(self, job: PendingPoint, path: str, same_program: bool = False) -> Counterexample | None:
        """Return other inputs at which a leaf differs, or is not what is written; of two doubtful ones, both.

        Args:
            same_program: both sides are, so that nothing that is written takes them apart.
        """
        searched = self._best_found(job, path)
        if same_program or (searched is not None and searched.allowed):
            return searched
        written = self._proofs.counterexample(job, path)
        if searched is None or written is None or written.allowed:
            return written or searched
        return replace(searched, words=f"{searched.words}; {written.words}")

    def _best_found(self, job: PendingPoint, path: str) -> Counterexample | None:
        if self._proofs.execution.sides.programs.group is not None:  # one process alone may ask, and the others wait
            note(TOGETHER)
            return None
        others = (self._found(ByIdentity(job), search).get(path) for search in self._searches)
        return max(filter(None, others), key=lambda other: other.allowed, default=None)

    def _searched(self, identity: ByIdentity, search: Search) -> dict[str, Counterexample]:
        job, execution = identity.value, self._proofs.execution
        assert isinstance(job, PendingPoint)
        inputs = execution.inputs(job.alone, execution.pair.reference_name, job.point.direction)
        first = job.point in self._first
        try:
            usual = next(iter(inputs.values()))
            return search(OtherInputs(self._proofs, job, *usual, first=first, executed=self._executed))
        except CouldNotRun:  # running it at the inputs of the case said why
            return {}

    @functools.cached_property
    def _first(self) -> frozenset[Point]:
        """Of each variant but the reference, dtype and direction, the first point on the smallest mesh.

        Which one follows from the declaration and the number of devices, not from what is selected.
        """
        import jax

        pair = self._proofs.execution.pair
        devices = len(jax.devices()) if self._executed else ANY_DEVICES
        points = sorted(plan(pair, Request(), devices).points, key=lambda p: MeshSpec.parse(p.mesh).devices)
        return frozenset(
            {(p.variant, p.dtype, p.direction): p for p in points[::-1] if p.variant != pair.reference_name}.values()
        )


# Other cotangents at which both programs of a gradient are executed, where they cannot be interpreted.
MORE = 8
"""How many times the difference at ordinary cotangents, relative to the largest value, is more than rounding."""


def at_other_cotangents(usual: OtherInputs) -> dict[str, Counterexample]:
    """Find other cotangents at which a gradient differs by more, by leaf without a formula."""
    if not usual.cotangents or usual.question.uneven is not None:
        return {}

    def apart(other: OtherInputs, path: str) -> Counterexample | None:
        hidden = HIDDEN * 2.0 ** -floats.digits(floats.parts(usual.ran[0][path]).dtype)
        far = _apart(other, path)
        if np.max(far, initial=0.0) <= max(MORE * float(np.max(_apart(usual, path), initial=0.0)), hidden):
            return None
        at = first_place(far == np.max(far))[: other.ran[0][path].ndim]
        return other.counterexample(path, f"executed {other.words}, {other.both(path, at)}")

    leaves = [path for path in usual.question.outputs if must_run(usual.question, path)]
    return first_found(leaves, _cotangents_tried(usual), apart) if leaves else {}


def _cotangents_tried(usual: OtherInputs) -> Iterator[OtherInputs]:
    """Yield the inputs with other cotangents, of plain numbers alone."""
    drawn = usual.cotangents
    wide = [np.asarray(array, np.result_type(array, np.float64)) for array in drawn.values()]
    for arrays, words, allowed in changed(wide, [*drawn], [floats.parts(array).dtype for array in drawn.values()]):
        if allowed and words != ONES:  # which the check has tried
            cotangents = {path: array.astype(drawn[path].dtype) for path, array in zip(drawn, arrays, strict=True)}
            yield replace(usual, cotangents=cotangents, words=f"with {words}")


def _apart(inputs: OtherInputs, path: str) -> Array:
    """Return how far the elements of a leaf are apart, relative to its largest value; 0 where either is not finite."""
    left, right = (np.asarray(floats.parts(side[path]), np.float64) for side in inputs.ran)
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right)
    largest = float(np.max(np.abs(left), where=np.isfinite(left), initial=0.0)) or 1.0
    return np.asarray(np.where(np.isfinite(apart), apart, 0.0) / largest)
