"""The outputs of one program on all its inputs, and the comparison of two programs leaf by leaf."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from samebits.check.picture import LeafArrays
from samebits.check.rounding import RoundingEvidence
from samebits.host.time_limit import OutOfTime, limited
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.machine_independence import Independence
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question
from samebits.numerics import floats
from samebits.numerics.bits import Comparison
from samebits.numerics.difference_kinds import DECIDING, KINDS, Kind
from samebits.programs.host_trees import HostTree, compare_trees
from samebits.programs.inputs import Array
from samebits.programs.placement import parts
from samebits.schema.all_sizes import SizesShown
from samebits.schema.assumption import Assumption
from samebits.schema.contract import DIFFERENTIATED, Direction
from samebits.schema.domain import RequiredFact
from samebits.schema.line_difference import NamedLines

# The time in which the evidence on a point is gathered: what is not reached in it is said, and never called more.
R = TypeVar("R")
Otherwise = TypeVar("Otherwise")

OUT_OF_TIME = "out of time"

FORMULAS_SHARE = 0.5
"""The part of the time left that formulas may take: in the rest, rounding is measured."""


@dataclass(frozen=True)
class Budget:
    """The time for the evidence on a point, and what was not reached in it of one leaf.

    Args:
        seconds: how long it is; None has no end.
        end: when it is over, by `time.monotonic`.
        unreached: the steps that were not reached, in words.
        over: those of the point that had their share of the time, and are not tried again for another leaf.
    """

    seconds: float | None = None
    end: float = math.inf
    unreached: list[str] = field(default_factory=list)
    over: set[str] = field(default_factory=set)

    @classmethod
    def from_now(cls, seconds: float | None) -> Budget:
        """Return the budget of a point whose evidence is gathered from now on."""
        return cls() if seconds is None else cls(seconds, time.monotonic() + seconds)

    def for_leaf(self) -> Budget:
        """Return the same time, of which nothing is missed yet."""
        return replace(self, unreached=[])

    def within(self, what: str, step: Callable[[], R], otherwise: Otherwise, share: float = 1.0) -> R | Otherwise:
        """Return what a step gives, or something else where its time is over.

        Args:
            step: which may be ended between two equations or executions.
            share: the part of the time left that it may take.
        """
        if self.seconds is None:
            return step()
        now = time.monotonic()
        try:
            with limited(-math.inf if what in self.over else now + share * (self.end - now)):
                return step()
        except OutOfTime:
            self.over.add(what)
            if what not in self.unreached:
                self.unreached.append(what)
            return otherwise

    @property
    def missed(self) -> str | None:
        """What was not reached, in words."""
        return f"not reached within {self.seconds:g} s: {', '.join(self.unreached)}" if self.unreached else None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafOutcome:
    """What one leaf showed, before it is judged: in an execution, or, where `executed` is false, in proofs alone.

    Args:
        comparison: all inputs taken together; the witness is the first of the class that decides. Of proofs, what the
            traces say: the tree, dtypes, weak types and shapes.
        executed: both sides ran.
        where: the record, and for a gradient the cotangent, of the witness.
        unstable: the side whose bits did not repeat.
        same_on_mesh: where the variant has the bits of the reference on the mesh, and not those of the reference alone:
            gives the outcome of that comparison.
        reference_on_mesh: where the reference has other bits on the mesh than alone: gives the outcome of its point.
        evidence: the float64 measurements, where bits differ.
        no_evidence: why there are none although the difference is of finite floats.
        nothing: why this leaf compared nothing.
        identity: what the fields say of the formulas, where they can decide.
        promises: the labels prove this leaf, for inputs that keep these promises; None where they do not prove it.
        routing: the arguments for whose values alone the proof holds.
        same_program: the reference on one device and the variant are the same compiled program.
        everywhere: whether both sides' bits are the same on every machine, where a contract requires that.
        assumed: the kinds of what the labels' proof assumes beyond shapes and its domain, in words.
        assuming: whether the verdict may rest on such assumptions, of labels or of fields.
        unkept: the promises that the inputs tried do not keep, or that cannot be seen in them.
        apart: the witness of a proof that the sides move other elements to the same place.
        unproved: why no proof could decide.
        not_interpreted: why no formulas were compared: what of the programs could not be interpreted.
        undefined: why the variant's results alone are undefined: it breaks a promise that the reference does not make.
        doubt: of equal formulas that did not run, why their accuracy is not decided by proof.
        elsewhere: gives other inputs at which this leaf differs, or is not what is written, if any are known; asked
            where it would pass.
        derivatives: gives what is assumed of second derivatives, of a gradient; asked where it would pass.
        one_way: names the comparisons that came out one way only at everything tried.
        lines: names the lines of the source that make the leaf differ, at other inputs if these are given; asked where
            it fails.
        arrays: gives both sides on every input, where bits differ.
        for_all: what is shown for all sizes of a family, `proved` or `rounding`; None where nothing is, or not asked.
        family: which these are.
        no_family: why nothing is.
        budget: the time for its evidence, and what was not reached in it; more may be while it is judged.
    """

    comparison: Comparison
    executed: bool = True
    where: str | None = None
    unstable: str | None = None
    same_on_mesh: Callable[[], LeafOutcome] | None = None
    reference_on_mesh: Callable[[], LeafOutcome] | None = None
    evidence: RoundingEvidence | None = None
    no_evidence: str | None = None
    nothing: str | None = None
    identity: FieldIdentity | None = None
    promises: tuple[RequiredFact, ...] | None = None
    routing: tuple[str, ...] = ()
    same_program: bool = False
    assumed: str = ""
    assuming: bool = True
    everywhere: Independence | None = None
    unkept: tuple[RequiredFact, ...] = ()
    apart: str | None = None
    unproved: str | None = None
    not_interpreted: str | None = None
    undefined: str | None = None
    doubt: str | None = None
    elsewhere: Callable[[], Counterexample | None] | None = None
    derivatives: Callable[[], Assumption | None] | None = None
    one_way: Callable[[], list[str]] | None = None
    lines: Callable[[Question | None], NamedLines] | None = None
    arrays: Callable[[], LeafArrays] | None = None
    for_all: Literal["proved", "rounding"] | None = None
    family: SizesShown | None = None
    no_family: str | None = None
    budget: Budget = field(default_factory=Budget)


@dataclass(slots=True)
class ProgramOutputs:
    """One program's outputs on every input of a job, by input label, and whether the first repeated its bits.

    The shardings are of the output's leaves, by path.
    """

    trees: dict[str, HostTree]
    repeats: bool
    layout: dict[str, str]
    replicas: list[Comparison]
    shardings: dict[str, Any] = field(default_factory=dict)

    def digests(self) -> dict[str, str]:
        """Digest the bits of each leaf on every input."""
        hashes: dict[str, Any] = {}
        for label, tree in self.trees.items():
            for path, leaf in tree.leaves.items():
                hashes.setdefault(path, hashlib.sha256()).update(f"{label} {leaf.array.dtype}".encode())
                hashes[path].update(leaf.array.tobytes())
        return {path: digest.hexdigest()[:16] for path, digest in hashes.items()}


def compare_outputs(
    *, reference: ProgramOutputs, optimized: ProgramOutputs
) -> dict[str, tuple[Comparison, str | None]]:
    """Return one comparison per leaf over all inputs that both ran on, with the input of its witness."""
    comparisons: dict[str, tuple[Comparison, str | None]] = {}
    for label, tree in reference.trees.items():
        if label not in optimized.trees:
            continue
        for comparison in compare_trees(tree, optimized.trees[label], "out"):
            where = None if comparison.equal else label
            if comparison.path in comparisons:
                before, first = comparisons[comparison.path]
                comparison = _merge(before, comparison)
                where = first if first is not None and comparison.witness is before.witness else where
            comparisons[comparison.path] = comparison, where
    return comparisons


def leaf_arrays(path: str, reference: ProgramOutputs, optimized: ProgramOutputs) -> LeafArrays:
    """Return a leaf of two programs on the inputs that both ran on, and how that of the second lies on the devices."""
    both = {
        label: (tree.leaves[path].array, optimized.trees[label].leaves[path].array)
        for label, tree in reference.trees.items()
        if label in optimized.trees and path in tree.leaves and path in optimized.trees[label].leaves
    }
    sharding, shapes = optimized.shardings.get(path), [sides[1].shape for sides in both.values()]
    return LeafArrays(both, {} if sharding is None or not shapes else parts(sharding, shapes[0]))


def compared_nothing(reference: ProgramOutputs, path: str, direction: Direction) -> str | None:
    """Explain why a leaf says nothing: no elements, none that is finite, constant, or a gradient of zeros."""
    return says_nothing(
        [tree.leaves[path].array for tree in reference.trees.values() if path in tree.leaves], path, direction
    )


def says_nothing(arrays: Sequence[Array], path: str, direction: str) -> str | None:
    """Explain why a leaf is vacuous (empty, constant, not finite), or return None."""
    if not arrays or path.endswith(DIFFERENTIATED):  # of which the forward direction says it
        return None
    if not any(array.size for array in arrays):
        return f"'{path}' has no elements; nothing was compared"
    rows = [_rows(array) for array in arrays if floats.is_float(array.dtype) or floats.is_complex(array.dtype)]
    if rows and not any(np.any(np.isfinite(real.astype(np.float64))) for real in rows):
        return (
            f"'{path}' is infinite or NaN at every input tried; nothing was compared; state values at which it is "
            "finite, as by --arg x=f32[8]:0.1..2 or values=Uniform(...)"
        )
    if direction == "gradient" and rows and not any(np.any(real.astype(np.float64) != 0) for real in rows):
        return f"the gradient of '{path}' is zero for every cotangent; nothing was compared"
    if direction == "forward" and rows and all(_constant(real) for real in rows):
        return f"every element of '{path}' is the same; a permutation of it would not show"
    return None


def _rows(array: Array) -> Array:
    """Return the elements one beneath another, each a row: of one real number, or of the two parts of a complex one."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if floats.is_complex(flat.dtype):
        return flat.view(flat.real.dtype).reshape(flat.size, 2)
    return flat.reshape(flat.size, 1)


def _constant(rows: Array) -> bool:
    """Return whether all rows are one value; both zeros count as one, and so do NaNs of the same bits."""
    bits = floats.raw_bits(rows)
    return bool(len(rows) > 1 and (np.all(bits == bits[0]) or np.all(rows == rows[0])))


def _merge(first: Comparison, second: Comparison) -> Comparison:
    """Take two inputs of one leaf together."""
    kinds: dict[Kind, int] = {
        kind: first.kinds.get(kind, 0) + second.kinds.get(kind, 0)
        for kind in KINDS
        if kind in first.kinds or kind in second.kinds
    }
    farthest: dict[Kind, int] = {
        kind: max(comparison.farthest[kind] for comparison in (first, second) if kind in comparison.farthest)
        for kind in kinds
        if kind in first.farthest or kind in second.farthest
    }
    across = {
        kind: comparison.across[kind]
        for comparison in (second, first)
        for kind, distance in farthest.items()
        if kind in comparison.across and comparison.farthest[kind] == distance
    }
    witnesses = [comparison.witness for comparison in (first, second) if comparison.witness is not None]
    ulps = [c.max_ulp for c in (first, second) if c.max_ulp is not None]
    return Comparison(
        path=first.path,
        elements=first.elements + second.elements,
        mismatches=first.mismatches + second.mismatches,
        max_ulp=max(ulps) if ulps else None,
        kinds=kinds,
        farthest=farthest,
        across=across,
        witness=min(witnesses, key=lambda witness: DECIDING.index(witness.kind), default=None),
        detail=first.detail or second.detail,
    )
