"""`samebits prove --all-sizes`: every point of a plan put to proof for all sizes of its case at once.

What is shown for all sizes is held against the proof at the declared sizes too: where these disagree, one of them is
broken, and that is an error and not a result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from samebits.check.cross_checks import SizeProofs
from samebits.check.outcome import LeafOutcome
from samebits.check.prove_points import PointProver, argued
from samebits.errors import BrokenPromise, CheckerBroken, CouldNotRun, RequestError
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.problem import Question
from samebits.numerics.bits import Comparison
from samebits.programs.catalogue import Locator
from samebits.programs.other_sizes import sizes_text
from samebits.programs.plan import LoadedPair, Plan
from samebits.programs.replay import replay
from samebits.prove.partitioned_gather import needed_by_sums
from samebits.prove.problem import facts_not_kept
from samebits.prove.prover import Unproved
from samebits.schema.assumption import Assumption
from samebits.schema.case import Case
from samebits.schema.contract import DIFFERENTIATED
from samebits.schema.domain import RequiredFact, in_words
from samebits.schema.finding import Finding, where
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.size_symbols import symbols_in, value_of
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family_proof import PairProof, SizesProof, for_all
from samebits.sizes.proofs.pair_sizes import PairSizes

METHOD = "all sizes"

MOST_DEVICES = 256
"""The most devices of a CPU at which a refutation is to be run."""

SYMBOLS = Assumption(
    "symbols",
    "the code of both sides takes sizes as they come: it does not decide by type(n) or n is 16, which cannot be seen",
    "it does something else where a size is a Python integer",
    inherent=True,
)

REALS = Assumption(
    "numbers",
    "no denominator is 0, no number under a root is negative, and no number is infinite or NaN",
    "a size, a mask that selects nothing, or an input makes one so: there the sides may differ",
    inherent=True,
)


class SizePointProver(PointProver):
    """Proves points of one pair for all sizes; `locator` and `platform` are as for `prove_points`."""

    def __init__(self, pair: Pair, locator: Locator, platform: str | None = None) -> None:
        super().__init__(pair, locator, platform)
        self._sizes = PairSizes()
        self._beside = SizeProofs()  # all sizes are what is proved here

    def results(self, point: Point) -> list[Finding]:
        """Return what can be proved of each leaf of a point for all sizes.

        Raises:
            CheckerBroken: the proof at the declared sizes denies what is proved for all.
        """
        case, mesh = self.pair.case(point.case), MeshSpec.parse(point.mesh)
        if case.refusal(point.variant) is not None:
            return super().results(point)
        begin = time.perf_counter()
        searched = PairPoint(self.pair, point.variant, case, point.dtype, point.direction, point.mode, self.platform)
        proof = self._sizes.prove(searched, mesh)
        sums: tuple[RequiredFact, ...] = ()
        questions: list[Question] = []
        if any(leaf.verdict == "proved" for leaf in proof.leaves):
            sums, questions, proof = self._cross_examined(point, mesh, proof)
        rows = [_row(self.pair, point, proof, leaf, sums, questions) for leaf in proof.leaves]
        if self._returns_outputs(point) or any(
            row.ruling.verdict == "rounding" or _is_conditional(row) for row in rows
        ):
            declared = {row.place.leaf: row for row in super().results(point)}
            rows = [self._as_declared(point, row, declared) for row in _with_accuracy(rows, declared)]
            rows += [row for leaf, row in declared.items() if leaf.endswith(DIFFERENTIATED)]
        seconds = round((time.perf_counter() - begin) / len(rows), 4)
        again = replay(self.locator, point, "prove") + ("" if self.locator.rerun else " --all-sizes")
        rows = [replace(row, seconds=seconds, replay=again) for row in rows]
        return [shown_by_run(row, self.locator, case, point, proof) for row in rows]

    def _as_declared(self, point: Point, row: Finding, declared: Mapping[str, Finding]) -> Finding:
        """Accept the row where a contract for the declared sizes is reached, whose proof has fewer conditions."""
        contract, other = self.pair.contract(**where(point), leaf=row.place.leaf), declared.get(row.place.leaf)
        if contract.sizes == "all" or not _is_conditional(row) or other is None or not other.ruling.ok:
            return row
        return row.with_ruling(ok=True, reason=f"reached at the declared sizes; for all sizes it {row.ruling.reason}")

    def _returns_outputs(self, point: Point) -> bool:
        """Tell whether outputs under differentiation are compared, which is at the declared sizes."""
        try:
            return self.traced(point).on_mesh.primal
        except CouldNotRun:  # which the proof says
            return False

    def _cross_examined(
        self, point: Point, mesh: MeshSpec, proof: PairProof
    ) -> tuple[tuple[RequiredFact, ...], list[Question], PairProof]:
        """Return the facts that sums over devices need, the questions at the declared sizes, and what is proved.

        What is proved on one device is left for more of them where their sums need no other facts.
        """
        job = self.traced(point)
        questions = self.questions(job)
        for question in questions:
            movement = self._prover.movement(question)
            if isinstance(movement, Unproved):
                continue
            for leaf in proof.leaves:
                if leaf.verdict == "proved" and leaf.leaf in movement and not movement[leaf.leaf].equal:
                    raise CheckerBroken(
                        f"pair '{self.pair.name}': {point}, {leaf.leaf}: proved for all sizes, and at the declared "
                        f"ones it is different ({movement[leaf.leaf].witness}); please report it"
                    )
        needed = needed_by_sums(self.sides, point.direction, point.variant, job.on_mesh, more_devices=True)
        if mesh.devices > 1:
            return needed, questions, proof
        return (), questions, proof.with_sums(needed)


def _row(
    pair: Pair,
    point: Point,
    proof: PairProof,
    leaf: SizesProof,
    sums: tuple[RequiredFact, ...],
    questions: Sequence[Question],
) -> Finding:
    """Judge the proof of a leaf; a condition counts as kept where the inputs at the declared sizes keep it."""
    outcome = LeafOutcome(comparison=Comparison(path=leaf.leaf, elements=0), executed=False)
    promises = tuple(dict.fromkeys((*leaf.promises, *sums)))
    outcome = replace(outcome, family=proof.family(leaf), for_all=for_all(leaf))
    if leaf.verdict == "proved" and proof.shown.one_program:
        outcome = replace(outcome, same_program=True)
    elif leaf.verdict == "proved":
        outcome = replace(outcome, promises=promises, unkept=facts_not_kept(promises, questions))
    elif leaf.verdict == "rounding":
        outcome = replace(outcome, identity=FieldIdentity(equal=True, elements=0))
    elif leaf.verdict == "different":
        outcome = replace(outcome, apart=f"{proof.place_of(leaf)}: {leaf.reason}")
    else:
        outcome = replace(outcome, unproved=leaf.reason)
    taken = {"proved": (SYMBOLS,), "rounding": (SYMBOLS, REALS)}.get(leaf.verdict, ())
    words = promises if taken else ()
    return argued(pair, point, outcome).with_proof(
        method=METHOD if leaf.verdict != "error" else None,
        domain=in_words(words) or None,
        words=tuple(map(str, words)),
        unkept=tuple(map(str, outcome.unkept)),
        assumptions=taken,
    )


def _is_conditional(row: Finding) -> bool:
    """Tell whether bits are proved, and a contract is not reached for conditions that its domain does not state."""
    return row.ruling.verdict == "proved" and not row.ruling.ok and bool(row.proof.words)


def _with_accuracy(rows: list[Finding], declared: Mapping[str, Finding]) -> list[Finding]:
    """Hold rows of equal formulas against the proof at the declared sizes, which derives what rounding can do there."""
    changed = []
    for row in rows:
        other = declared.get(row.place.leaf)
        if row.ruling.verdict == "rounding" and other is not None:
            undefined = (other.proof.refutation or "").startswith(
                BrokenPromise.WORD
            )  # what is so for all sizes has conditions
            if other.ruling.verdict == "different" and not undefined:
                raise CheckerBroken(
                    f"pair '{row.place.pair}': {row.place.variant}, {row.place.leaf}: the same formulas for all sizes, "
                    f"and at the declared ones they are not ({other.proof.refutation}); please report it"
                )
            reason = row.ruling.reason if other.ruling.ok else other.ruling.reason or other.proof.refutation
            row = row.with_ruling(ok=row.ruling.ok and other.ruling.ok, reason=reason)
            row = replace(row, accuracy=other.accuracy)
        changed.append(row)
    return changed


def shown_by_run(row: Finding, locator: Locator, case: Case, point: Point, proof: PairProof) -> Finding:
    """Give a refutation the command that runs both sides at its sizes, where devices suffice."""
    if row.ruling.verdict != "different" or row.proof.family is None or locator.rerun is not None:
        return row
    numbers, proof = row.proof.family.counterexample, proof.elsewhere.get(row.place.leaf, proof)
    sizes = {**case.numbers, **{name: value_of(text, numbers) for name, text in proof.sizes.items()}}
    sizes = {name: sizes[name] for name in (*case.sizes, *(name for name in proof.sizes if name not in case.sizes))}
    mesh = MeshSpec.parse(proof.shown.mesh or point.mesh)
    if proof.shown.mesh is None:
        # Axes on which no size depends are left out: one device has the same program.
        known = {name: text for name, text in proof.shown.axes.items() if set(symbols_in(text)) <= set(numbers)}
        mesh = mesh.having(tuple((name, value_of(text, numbers)) for name, text in known.items()))
    if mesh.devices > MOST_DEVICES:
        return row.with_ruling(reason=f"it takes {mesh.devices} devices to run it: no run shows it")
    there = replace(locator, sizes=sizes_text(sizes))
    return replace(row, replay=replay(there, replace(point, mesh=mesh.id), "check"))


def prove_sizes(pair: Pair, locator: Locator, plan: Plan, platform: str | None = None) -> Iterator[Finding]:
    """Yield what can be proved of each leaf of the points of variants, for all sizes.

    Raises:
        CheckerBroken: the proof at the declared sizes denies what is proved for all.
        RequestError: no point is of a variant.
    """
    points = sized_points(pair, plan.points)
    if not points:
        raise RequestError(f"pair '{pair.name}': no point of a variant; all sizes are proved of variants alone")
    prover = SizePointProver(pair, locator, platform)
    try:
        for point in points:
            yield from prover.results(point)
    finally:
        prover.close()


def sized_points(pair: Pair, points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points of variants, proved for all sizes: in auto mode, or in explicit mode of cases without it.

    The reference on a mesh is the same program of whole arrays.
    """
    own = [point for point in points if point.variant != pair.reference_name]
    auto = {point.case for point in own if point.mode == "auto"}
    return tuple(point for point in own if point.mode == "auto" or point.case not in auto)


def of_all_sizes(loaded: Sequence[LoadedPair]) -> tuple[list[LoadedPair], list[str]]:
    """Return the pairs with points that are proved for all sizes, and a note on pairs that have none."""
    chosen, notes = [], []
    for pair in loaded:
        points = sized_points(pair.pair, pair.plan.points)
        if points:
            chosen.append(replace(pair, plan=replace(pair.plan, points=points)))
        else:
            notes.append(f"{pair.pair.name}: no point of a variant; all sizes are proved of variants alone")
    return chosen, notes
