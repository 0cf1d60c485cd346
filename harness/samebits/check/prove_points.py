"""Points put to proof, without compiling anything and without devices.

Each proof becomes a `LeafOutcome` that was not executed, and is judged as in `samebits check`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.cross_checks import size_proofs
from samebits.check.error_groups import LeafSample
from samebits.check.execution import Execution, MovementProof, PendingPoint
from samebits.check.index_values import at_index_values
from samebits.check.judge import rule
from samebits.check.line_evidence import LineFinder
from samebits.check.magnitudes import at_magnitudes
from samebits.check.other_inputs import Search, Searches
from samebits.check.outcome import LeafOutcome, says_nothing
from samebits.check.point_proofs import PointProofs, at_fault
from samebits.check.rounding import gather_evidence, growing
from samebits.check.sites import TraceOrder, errors_raised, sites_of
from samebits.check.smaller_sizes import SmallerSizes, StandIn
from samebits.check.verdict import judge_refusal, named_lines, without_leaves
from samebits.errors import CouldNotRun, NoExplicitForm, NotCovered
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.host.isolation import note
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.field_proof.result import not_exercised, of_movement
from samebits.interpret.float64_differences import differences, simulate
from samebits.interpret.given_integers import like_given
from samebits.interpret.labels import LabelIdentity
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.estimate import ErrorEstimate, estimate_errors
from samebits.interpret.rounding_error.rules import PASSES
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, Leaf, compare_leaf
from samebits.programs.catalogue import Locator
from samebits.programs.inputs import Array
from samebits.programs.plan import Plan
from samebits.programs.program_cache import Programs
from samebits.programs.replay import replay
from samebits.programs.sides import TracedSides
from samebits.prove.mesh_queries import (
    Query,
    SideQueries,
    conditions_of,
    other_devices,
    place_of_devices,
    platform_of_process,
)
from samebits.prove.partitioned_gather import needed_by_sums
from samebits.prove.problem import cotangents_of, facts_not_kept, other_outputs, traced_program
from samebits.prove.prover import Prover, Unproved
from samebits.prove.selftest import check_proofs
from samebits.schema.assumption import Assumption, words_of
from samebits.schema.domain import RequiredFact, in_words
from samebits.schema.finding import Compared, Errors, Finding, Proof, at, where
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import CompiledPair, Pair
from samebits.schema.point import Effort, Point
from samebits.schema.result import Verdict


# What rounding does to equal formulas, derived without executing them: bounds of both sides, and both as written.
@dataclass(frozen=True, slots=True)
class EvaluatedProgram:
    """One program of a question at its inputs.

    Args:
        bounds: the ideal values, and how far rounding can take the computed ones from them.
        written: the outputs as the program is written, in its dtypes.
    """

    bounds: ErrorEstimate
    written: Mapping[str, Array]


Derived = tuple[EvaluatedProgram, EvaluatedProgram]
"""The reference and the variant."""


class BoundCache:
    """Interprets the sides of questions; a side that was interpreted at the same inputs is not interpreted again.

    Args:
        platform: the target, whose products of matrices are bounded; of an unknown one those of a CPU, which keep
            float32.
    """

    def __init__(self, platform: str) -> None:
        self._platform = platform if platform in PASSES else "cpu"
        self._cached: dict[tuple[object, ...], tuple[ErrorEstimate, Mapping[str, Array] | None]] = {}

    def ideal(self, question: Question) -> ErrorEstimate:
        """Return the reference of a question in float64, with its bounds.

        Raises:
            NotCovered: an equation has no rule.
        """
        return self._judged(question, question.reference)[0]

    def sides(self, question: Question) -> Derived:
        """Return both sides of a question.

        Raises:
            NotCovered: an equation has no rule.
        """
        return self._side(question, question.reference), self._side(question, question.variant)

    def _side(self, question: Question, program: Any) -> EvaluatedProgram:
        estimate, written = self._judged(question, program)
        if written is None:
            written = simulate(program, question)
            self._cached[_key(question, program)] = (estimate, written)
        return EvaluatedProgram(estimate, written)

    def _judged(self, question: Question, program: Any) -> tuple[ErrorEstimate, Mapping[str, Array] | None]:
        key = _key(question, program)
        if key not in self._cached:
            if len(self._cached) >= 16:
                self._cached.pop(next(iter(self._cached)))
            self._cached[key] = (estimate_errors(program, question, self._platform, usual=True), None)
        return self._cached[key]


def _key(question: Question, program: Any) -> tuple[object, ...]:
    """Return the program, the outputs that the question names, the branches taken, and all inputs by value."""
    names = (tuple(question.outputs), tuple(argument.name for argument in question.inputs))
    return ByIdentity(program), question.platform, digest_of([argument.values for argument in question.inputs], *names)


def doubt(derived: Mapping[str, Derived], leaf: str, limit: float | None) -> str | None:
    """Explain why proofs do not decide whether a variant is as accurate as its contract requires; None where they do.

    Args:
        derived: both evaluated programs, by label of the input.
        limit: how many times the reference's error the variant may have; None accepts all but a loss of kind.
    """
    samples = {}
    for label, both in derived.items():
        first, second = (side.written[leaf] for side in both)
        comparison = compare_leaf(leaf, Leaf(array=first), Leaf(array=second))
        if _no_rounding(comparison, first):
            return f"as written, on the {label} input: {comparison.kind} at {comparison.witness}"
        if any(leaf not in side.bounds.values for side in both):
            continue  # integers and booleans have no accuracy
        values, errors, sums = (
            [getattr(side.bounds, name)[leaf] for side in both] for name in ("values", "bounds", "narrow_sums")
        )
        sample = LeafSample(first, second, *values, *errors)._replace(narrow_sums=(sums[0], sums[1]))
        if limit is None:
            longer = growing(sample)
            if longer is not None:
                return longer
        elif (share := _share(both, leaf, first.dtype)) > limit:
            lost = both[1].bounds.loses_most.get(leaf)
            most = "" if lost is None else f"; most can be lost by {lost}"
            times = "cannot be bounded" if share == np.inf else f"is up to {share:.2g}x that of the reference's"
            return f"what the variant's operations can lose {times} (limit {limit:g}){most}"
        if not comparison.equal:
            samples[label] = sample
    if not samples:
        return None
    evidence = gather_evidence(samples, limit=limit, log2_error=0.0)
    decided = evidence.is_rounding and evidence.undecided is None
    return None if decided else f"as written it {evidence.sentence()}"


def _no_rounding(comparison: Comparison, array: Array) -> bool:
    """Return whether no rounding makes such a difference."""
    if not floats.is_float(array.dtype):
        return not comparison.equal
    return bool({"NaN vs number", "overflow to infinity", "shape", "dtype"} & set(comparison.kinds))


def _share(both: Derived, leaf: str, dtype: np.dtype[Any]) -> float:
    """Return the largest bound of the variant over the reference's, of at least half an ulp of its row's largest."""
    info, ideal = ml_dtypes.finfo(dtype), both[0].bounds.values[leaf]
    first, second = (side.bounds.bounds[leaf] for side in both)
    usable = np.isfinite(ideal)
    size = np.abs(np.where(usable, ideal, 0))
    largest = np.max(size, axis=-1, keepdims=True, initial=0.0) if size.ndim else size
    least = np.maximum(first, float(info.eps) / 2 * largest + float(info.smallest_normal))
    with np.errstate(invalid="ignore"):
        quotient = np.where(np.isfinite(second), second / least, np.inf)
    return float(np.max(quotient, where=usable, initial=0.0))


def prove_points(
    pair: Pair, locator: Locator, plan: Plan, platform: str | None = None, *, assuming: bool = True
) -> Iterator[Finding]:
    """Yield what can be proved of each leaf of each point, and whether expected errors are raised.

    Args:
        platform: the target: whose branches of `lax.platform_dependent` are taken, and whose products of matrices are
            bounded. None is the platform on which `samebits check` would run here.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding; otherwise it is not accepted.

    Raises:
        DeclarationError: the two sides cannot stand in for each other.
        CheckerBroken: the proofs do not see planted differences.
    """
    prover = PointProver(pair, locator, platform, assuming=assuming)
    try:
        for point in plan.points:
            yield from prover.results(point)
    finally:
        prover.close()


class _ProofsAtRecords(PointProofs):
    """Proofs of points at the records of a case, for a gradient with the cotangents of each."""

    def questions(self, job: PendingPoint) -> dict[str, Question]:
        """Return the question at each record of a point, by its label."""
        if self._questions[0] is not job:
            sides, direction, reference = self.execution.sides, job.point.direction, self.execution.pair.reference_name
            cotangents = cotangents_of(sides, reference, job.alone) if direction == "gradient" else {}
            records = self.execution.inputs(job.alone, reference, "forward")
            inputs = {label: (record, cotangents) for label, (record, _) in records.items()}
            questions = self.prover.questions(direction, job.alone, job.point.variant, job.on_mesh, inputs)
            self._questions = job, questions
        return self._questions[1]


class PointProver:
    """Proves points of one pair; what neighbouring points share is cached.

    Raises:
        DeclarationError: a domain of the declaration is wrong.
        CheckerBroken: the proofs do not see planted differences.
    """

    def __init__(self, pair: Pair, locator: Locator, platform: str | None = None, *, assuming: bool = True) -> None:
        import jax

        check_proofs()
        pair.check_argument_names()
        self.pair, self.locator = pair, locator
        self._queries = SideQueries(pair)
        self._programs = Programs(threads=1, watch=self._queries.watch)
        self.sides = TracedSides(pair, self._programs)
        self.platform = platform or jax.default_backend()
        self._order = TraceOrder(self.sides)
        self._prover = Prover(self.sides, self.platform, assuming=assuming)
        self._proofs = _ProofsAtRecords(Execution(self.sides), self._prover)
        self._searches = Searches(self._proofs, _searches_of(pair), executed=False)
        self._smaller = SmallerSizes(self._proofs.execution, self._proofs_of) if assuming else None
        self._derivations = BoundCache(self.platform)
        self._beside = size_proofs(pair, Effort(), self.platform)
        self.begin_chunk()

    def _proofs_of(self, sides: TracedSides) -> tuple[PointProofs, Searches]:
        """Return proofs and searches for the same pair at other sizes."""
        proofs = _ProofsAtRecords(Execution(sides), Prover(sides, self.platform))
        return proofs, Searches(proofs, _searches_of(self.pair), executed=False)

    def begin_chunk(self) -> None:
        """Search for lines from here on as if no point had been refuted before."""
        self._lines = LineFinder(self._proofs)

    def close(self) -> None:
        """Drop the programs."""
        self._programs.close()
        self._queries.close()

    def results(self, point: Point) -> list[Finding]:
        """Return what can be proved of each leaf of a point, and whether expected errors are raised.

        Raises:
            DeclarationError: the two sides cannot stand in for each other.
        """
        with self._queries.on() if self._is_elsewhere(point) else nullcontext():
            return self._results(point)

    def _results(self, point: Point) -> list[Finding]:
        import jax

        pair, sides = self.pair, self.sides
        case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
        target = self.platform if self.platform != jax.default_backend() else None
        again = replay(self.locator, point, "prove", assuming=self._prover.assuming, platform=target)
        begin = time.perf_counter()
        refusal = case.refusal(point.variant)
        if refusal is not None:
            raised = errors_raised(sides, point, refusal, mesh.abstract(point.mode))
            judged = judge_refusal(pair, point, refusal, raised, again)
            return [of_result(judged, round(time.perf_counter() - begin, 4))]
        try:
            job = self.traced(point)
        except CouldNotRun as error:
            verdict: Verdict = "skipped" if isinstance(error, NoExplicitForm) else "error"
            return [of_result(without_leaves(pair.name, point, verdict, str(error), again), 0.0)]
        queries = self._queried(job)
        other = platform_of_process(queries, self.platform)
        if other is not None:
            return [self._undecided(point, other, begin, again)]
        proofs = list(self._prove(job))
        counts = [text for text in conditions_of(queries, self.platform) if place_of_devices([text])]
        other = other_devices(place_of_devices(counts), mesh.devices)
        if other is not None:
            if not self._prover.assuming or any(proof.ruling.verdict == "different" for proof in proofs):
                return [self._undecided(point, other, begin, again)]
            proofs = [assuming_devices(proof, counts, mesh.id) for proof in proofs]
        if mesh.devices > 1 and any(proof.ruling.verdict == "proved" for proof in proofs):
            note(AS_WRITTEN)
        seconds = round((time.perf_counter() - begin) / max(len(proofs), 1), 4)
        return [replace(argument, seconds=seconds, replay=again) for argument in proofs]

    def traced(self, point: Point) -> PendingPoint:
        """Return where the reference alone and the variant are traced, of which neither is what the other made of it.

        Raises:
            CouldNotRun, NoExplicitForm: as `sites_of`.
            DeclarationError: the sides share state.
        """
        sites = dict.fromkeys((point.variant, self.pair.reference_name), self.sides.site_of(point))
        first = self._order.before(sites) if self.sides.state.is_shared else {}
        job = sites_of(self.sides, point)
        self._order.require_same(first, sites)
        return job

    def questions(self, job: PendingPoint) -> list[Question]:
        """Return the questions of a point, one for each of its inputs."""
        return [*self._proofs.questions(job).values()]

    def _queried(self, job: PendingPoint) -> list[Query]:
        """Return what the sides ask about this process, where their programs may run elsewhere."""
        if not self._is_elsewhere(job.point):
            return []
        ends = self._proofs.execution.ends(job)
        return [query for side in ends for query in self._queries.of(self.sides, job.point.direction, *side)]

    def _is_elsewhere(self, point: Point) -> bool:
        """Return whether the programs of a point are to run on other devices or another platform than these."""
        import jax

        return self.platform != jax.default_backend() or MeshSpec.parse(point.mesh).devices != jax.device_count()

    def _undecided(self, point: Point, why: str, begin: float, again: str) -> Finding:
        """Return the result of a point whose programs are not those that would run."""
        nothing = LeafOutcome(comparison=Comparison(path="*", elements=0), executed=False, unproved=why)
        seconds = round(time.perf_counter() - begin, 4)
        return replace(argued(self.pair, point, nothing), seconds=seconds, replay=again)

    def _prove(self, job: PendingPoint) -> Iterator[Finding]:
        """Yield the arguments of a point's leaves; for another routing in the special record they must hold too."""
        point = job.point
        try:
            ends = self._proofs.execution.ends(job)
            traced = {comparison.path: comparison for comparison in other_outputs(self.sides, point.direction, *ends)}
            wrong = next((each for each in traced.values() if "structure" in each.kinds or each.path == "*"), None)
            first, second = (traced_program(self.sides, point.direction, *end).traced.jaxpr for end in ends)
            undefined = at_fault(first, second, partial(self._proofs.questions, job), executed=False)
            if undefined is not None:
                yield argued(self.pair, point, undefined)
            elif wrong is None:
                yield from self._leaves(job, traced)
            else:
                lines = partial(self._lines.lines, job, wrong.path, None, typed=wrong.typed)
                yield argued(self.pair, point, LeafOutcome(comparison=wrong, executed=False, lines=lines))
        except CouldNotRun as error:
            nothing = Comparison(path="*", elements=0)
            yield argued(self.pair, point, LeafOutcome(comparison=nothing, executed=False, nothing=str(error)))

    def _leaves(self, job: PendingPoint, traced: Mapping[str, Comparison]) -> Iterator[Finding]:
        """Prove by labels where both sides only move data, else by fields."""
        pair, point, prover = self.pair, job.point, self._prover
        questions = self._proofs.questions(job)
        sums = needed_by_sums(self.sides, point.direction, point.variant, job.on_mesh)
        first = next(iter(questions.values()))
        empty = _nothing(self._derivations, questions, point.direction)
        smaller = None if self._smaller is None else self._smaller.of(job)
        still = None if smaller is None else smaller.no_movement()
        moved = [prover.movement(question) if still is None else still for question in questions.values()]
        why = next((movement.why for movement in moved if isinstance(movement, Unproved)), None)
        smaller = None if why is None or smaller is None else self._same_smaller(smaller, questions)
        identities = None if why is None else prover.identity(questions) if smaller is None else smaller.identities()
        derived = _derived(self._derivations, questions) if isinstance(identities, Mapping) else None
        for leaf in first.outputs:
            known = identities if identities is None or isinstance(identities, Unproved) else identities[leaf]
            outcome = LeafOutcome(
                comparison=traced[leaf],
                executed=False,
                nothing=empty.get(leaf),
                elsewhere=partial(self._elsewhere, job, leaf, smaller),
                derivatives=prover.derivatives(point.direction, point.variant, leaf),
                one_way=partial(prover.one_way, questions),
                lines=partial(self._lines.lines, job, leaf, None, typed=traced[leaf].typed),
            )
            (outcome,) = self._beside.attached(point, MovementProof(), [outcome])
            if known is None:
                kept = [movement[leaf] for movement in moved if not isinstance(movement, Unproved)]
                argument = by_labels(pair, point, outcome, kept, questions, sums)
                yield argument if prover.assuming else unassuming(argument)
            elif isinstance(known, Unproved):
                argument = argued(pair, point, replace(outcome, unproved=known.why, undefined=known.undefined))
                yield argument.with_proof(no_movement=why)
            else:
                assert derived is not None
                yield by_fields(pair, point, outcome, known, first, derived).with_proof(no_movement=why)

    def _same_smaller(self, smaller: StandIn, questions: Mapping[str, Question]) -> StandIn | None:
        """Return smaller sizes at which all leaves are the same formulas, where float64 agrees at these sizes."""
        known = smaller.identities()
        if not known or not all(each.equal for each in known.values()):
            return None
        apart = any(differences(question, question.outputs) for question in questions.values())
        return None if apart else smaller

    def _elsewhere(self, job: PendingPoint, leaf: str, smaller: StandIn | None) -> Counterexample | None:
        other = None if smaller is None else smaller.elsewhere(leaf)
        if smaller is not None and (other is None or not other.allowed):
            return other
        return self._searches.counterexample(job, leaf)


AS_WRITTEN = (
    "on a mesh, what is proved is the program as written; what the partitioner makes of it is executed by `samebits "
    "check`, at the ends of the axes that are indexed and at the borders of their shards"
)
"""The note with proofs on a mesh that splits something."""


def _searches_of(pair: Pair) -> tuple[Search, ...]:
    """Return what looks for other inputs: of a compiled program, at the boundary values of indices too."""
    return (at_index_values, at_magnitudes) if isinstance(pair, CompiledPair) else (at_magnitudes,)


def _nothing(derivations: BoundCache, questions: Mapping[str, Question], direction: str) -> dict[str, str]:
    """Explain by leaf why nothing would be compared: no elements, constants, zero gradients."""
    try:
        values = [derivations.ideal(question).values for question in questions.values()]
    except NotCovered:
        return {}
    reasons = {leaf: says_nothing([outputs[leaf] for outputs in values], leaf, direction) for leaf in values[0]}
    return {leaf: why for leaf, why in reasons.items() if why is not None}


def _derived(derivations: BoundCache, questions: Mapping[str, Question]) -> Mapping[str, Derived] | Unproved:
    try:
        return {label: derivations.sides(question) for label, question in questions.items()}
    except NotCovered as error:
        return Unproved(str(error))


def by_labels(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identities: list[LabelIdentity],
    questions: Mapping[str, Question],
    sums: tuple[RequiredFact, ...],
) -> Finding:
    """Return the result of a leaf where labels decide whether both sides move the same elements."""
    first = next(iter(questions.values()))
    wrong = next((identity for identity in identities if not identity.equal), None)
    promises = tuple(dict.fromkeys((*(promise for identity in identities for promise in identity.promises), *sums)))
    products = any(identity.products for identity in identities)
    outcome = replace(
        outcome,
        apart=None if wrong is None else wrong.witness,
        promises=promises if wrong is None else None,
        unkept=facts_not_kept(promises, questions.values()),
        routing=first.routing,
    )
    argument = argued(pair, point, outcome)
    routing = like_given(first, first.routing)
    taken = () if wrong else of_movement(in_words(promises) or None, routing, products)
    return argument.with_proof(
        method="labels",
        words=tuple(str(promise) for promise in promises),
        unkept=tuple(str(promise) for promise in outcome.unkept),
        domain=in_words(promises) or None,
        routing=first.routing,
        products=products,
        assumptions=(*taken, *argument.proof.assumptions),
    )


def unassuming(argument: Finding) -> Finding:
    """Return the same, without a verdict where it rests on assumptions."""
    words = words_of(argument.proof.assumptions)
    if argument.ruling.verdict != "proved" or not words:
        return argument
    why = f"the proof rests on assumptions ({words}), and none are accepted"
    return argument.with_ruling(verdict="error", ok=False, reason=why).with_proof(sizes=None)


def assuming_devices(argument: Finding, counts: Sequence[str], mesh: str) -> Finding:
    """Return the same, taking for granted what code was told of the devices of this process."""
    if argument.ruling.verdict not in ("proved", "rounding"):
        return argument
    otherwise = f"the process has other devices, as one that has those of {mesh}"
    devices = (Assumption("devices", text, otherwise) for text in counts)
    return argument.with_proof(assumptions=(*argument.proof.assumptions, *devices))


def by_fields(
    pair: Pair,
    point: Point,
    outcome: LeafOutcome,
    identity: FieldIdentity,
    question: Question,
    derived: Mapping[str, Derived] | Unproved,
) -> Finding:
    """Return the result of a leaf where the fields decide whether both sides compute the same formula."""
    leaf = outcome.comparison.path
    limit = pair.accuracy_of(pair.contract(**where(point), leaf=leaf))
    unsure = None
    if identity.equal and outcome.comparison.equal:
        unsure = derived.why if isinstance(derived, Unproved) else doubt(derived, leaf, limit)
    argument = argued(pair, point, replace(outcome, identity=identity, doubt=unsure))
    argument = argument.with_proof(
        method="fields",
        routing=question.fixed,
        log2_error=None if identity.tried else identity.log2_error,
        points=identity.repetitions,
        degree=identity.degree,
        unknown=identity.unknown,
        constants=identity.constants,
        assumptions=(*not_exercised(identity, outcome.one_way), *argument.proof.assumptions),
    )
    if not identity.equal or isinstance(derived, Unproved):
        return argument
    first, second = (side.bounds for side in next(iter(derived.values())))
    accuracy = Errors(
        bound_reference=_relative(first, first.bounds, leaf),
        bound_optimized=_relative(second, second.bounds, leaf),
        likely=_relative(second, second.likely, leaf),
        loses_most=second.loses_most.get(leaf),
    )
    return replace(argument, accuracy=accuracy)


def _relative(judged: ErrorEstimate, errors: Mapping[str, Array], leaf: str) -> float | None:
    """Return the largest error relative to the largest value; None where it is not bounded."""
    values, error = judged.values.get(leaf), errors.get(leaf)
    if values is None or error is None or not np.all(np.isfinite(error)):
        return None
    largest = float(np.max(np.abs(values), initial=0.0))
    return float(np.max(error, initial=0.0)) / largest if largest else None


def argued(pair: Pair, point: Point, outcome: LeafOutcome) -> Finding:
    """Return the argument of a leaf, judged."""
    ruled, same = rule(pair, point, outcome), outcome.identity
    seen = None if outcome.comparison.typed else outcome.apart or (None if same is None else same.witness)
    wrong = seen or ruled.ruling.evidence
    return Finding(
        tool="prove",
        place=at(pair.name, point, outcome.comparison.path),
        ruling=ruled.ruling,
        comparison=Compared(elements=outcome.comparison.elements),
        proof=Proof(
            refutation=wrong if ruled.ruling.verdict == "different" else None,
            assumptions=ruled.noted,
            sizes=ruled.sizes,
            family=outcome.family,
        ),
        named=named_lines(ruled, outcome),
    )


def of_result(result: Finding, seconds: float) -> Finding:
    """Return a result of what was only traced, as the argument that it is."""
    proof = Proof(method="trace", refutation=result.ruling.reason if result.ruling.verdict == "different" else None)
    return replace(result, tool="prove", proof=proof, seconds=seconds)
