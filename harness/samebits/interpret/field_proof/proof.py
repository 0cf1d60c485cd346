"""Proof over finite fields: both programs compute the same formulas, whatever the order of their sums and roundings.

A proof is confirmed by what the fields do not cover: stored results, other inputs, ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from samebits.errors import BrokenPromise, MissingRule, NotCovered
from samebits.interpret.dead_code import live
from samebits.interpret.field.arithmetic import CONFIRMED
from samebits.interpret.field.domain import Field, FoldedField
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.field_proof.result import (
    APART,
    ENOUGH,
    MOST_POINTS,
    FieldIdentity,
    assumptions,
    by_numbers,
    compare_formulas,
    formulas_of,
    match_constants,
)
from samebits.interpret.float64_differences import differences, reach_of
from samebits.interpret.inner_equations import equations, exponentials, longest_scan
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.probes import Stretched, inputs_of, other_jumps, permuted, stored, stretched
from samebits.interpret.problem import Question

# A question in parts: what is not covered in the computation of one output says nothing of the other outputs.
MOST_PARTS = 24
"""How many parts of a question are asked by themselves, at most."""

Answer = TypeVar("Answer")


def by_parts(
    question: Question, ask: Callable[[Question], Mapping[str, Answer]], uncovered: Callable[[NotCovered], Answer]
) -> dict[str, Answer]:
    """The answers to a question, by output; where it is not covered as a whole, those to smaller and smaller parts.

    Args:
        uncovered: the answer for an output whose computation is not covered.

    Raises:
        BrokenPromise: a program breaks a promise about its indices, the variant perhaps alone.
        NotCovered: nothing of it is covered; the error is that of the whole.
    """
    answers: dict[str, Answer] = {}
    lost: list[str] = []
    first, waiting, count = None, [question], 0
    while waiting:
        part = waiting.pop(0)
        try:
            answers |= ask(part)
        except BrokenPromise:
            raise
        except NotCovered as error:
            first = first or error
            smaller = smaller_parts(part, error)
            if count + len(smaller) > MOST_PARTS:
                smaller = []
            count += len(smaller)
            waiting += smaller
            left = [name for name in part.outputs if all(name not in each.outputs for each in smaller)]
            answers |= dict.fromkeys(left, uncovered(error))
            lost += left
    if first is not None and len(lost) == len(question.outputs):
        raise first
    return {name: answers[name] for name in question.outputs}


def smaller_parts(question: Question, why: NotCovered) -> list[Question]:
    """What to ask instead: the halves; or without a rule for a primitive, the outputs that are computed without it."""
    outputs = list(question.outputs)
    if len(outputs) < 2:
        return []
    if isinstance(why, MissingRule):
        without = [name for name in outputs if not _contains(question.only([name]), why.primitive)]
        return [question.only(without)] if without else []
    middle = len(outputs) // 2
    return [question.only(half) for half in (outputs[:middle], outputs[middle:])]


def _contains(question: Question, primitive: str) -> bool:
    programs = question.sides
    return any(each.primitive.name == primitive for program in programs for each in equations(live(program).jaxpr))


# Attempts at a proof over finite fields: for each output the plainest domain that shows it, at enough points.
FIRST_POINTS = 2
"""At how many random points an attempt starts."""

LAYERS = 16
"""The length of a scan from which a deep domain is tried first."""

DEEP_POINTS = 3
"""At how many random points: so many that 2^-60 is reached with up to 10^10 factors."""

Make = Callable[[int, bool, bool], Field]
"""A domain with as many random points, with roots that keep their law, with underflow counting as zero."""


@dataclass(frozen=True, slots=True)
class ProofAttempt:
    """One attempt at a proof.

    Args:
        proofs: its results, by output; of those that it was tried on.
        points: how many random points the outputs that are equal need.
    """

    proofs: Mapping[str, FieldIdentity]
    domain: Field
    make: Make
    points: int

    @property
    def equal(self) -> list[str]:
        """The outputs that it shows."""
        return [name for name, proof in self.proofs.items() if proof.equal]

    @property
    def open(self) -> list[str]:
        """The outputs that a domain with more laws may show.

        Not those that float64 distinguishes: laws of roots do not move these numbers.
        """
        return [name for name, proof in self.proofs.items() if not proof.equal and not proof.clear]


def attempt(question: Question, domain: Field, make: Make, outputs: Sequence[str]) -> ProofAttempt:
    """Interpret both programs in one domain and compare some of their outputs.

    Raises:
        BrokenPromise: a program breaks a promise about its indices, the variant perhaps alone.
        NotCovered: the fields have no rule for an equation, or a comparison is too close to call. What concerns one
            output alone, such as a NaN in it, is in the result for this output.
    """
    args = [
        argument.values if fixed else domain.input(argument.name, argument.values, argument.kind(aval))
        for argument, aval, fixed in zip(question.inputs, question.reference.in_avals, question.is_fixed, strict=True)
    ]
    interpreter = Interpreter(domain, question.platform)
    domain.side = 0
    first = interpreter(question.reference, *args)
    domain.side = 1
    try:
        second = interpreter(question.variant, *args)
    except BrokenPromise as error:
        error.by_variant = True
        raise
    proofs, points, excuses = {}, domain.ring.repetitions, Excuses(question)
    for number, name in enumerate(question.outputs):
        if name not in outputs:
            continue
        different = question.mismatch(number)
        if different is not None:
            proofs[name] = FieldIdentity(False, 0, witness=different, gap=math.inf, clear=True)
            continue
        kind = question.types(question.reference)[number]
        try:
            sides = formulas_of(first[number], second[number])
            proofs[name], enough = compare_formulas(domain, name, *sides, kind, excuses, in_range=question.in_range)
        except NotCovered as error:  # the other outputs may have numbers that say something
            proofs[name], enough = replace(FieldIdentity.uncovered(error), unknown=dict.fromkeys(domain.calls, 1)), 0
        points = max(points, enough if proofs[name].equal else 0)
    return ProofAttempt(proofs, domain, make, points)


def attempt_by_parts(
    question: Question, domain: Callable[[], Field], make: Make, outputs: Sequence[str]
) -> dict[str, ProofAttempt]:
    """By output, the attempt in a domain of its kind; of parts of the outputs where the whole is not covered."""

    def ask(part: Question) -> dict[str, ProofAttempt]:
        return dict.fromkeys(part.outputs, attempt(part, domain(), make, part.outputs))

    def uncovered(error: NotCovered) -> ProofAttempt:
        return ProofAttempt(dict.fromkeys(outputs, FieldIdentity.uncovered(error)), domain(), make, 0)

    return by_parts(question.only(outputs), ask, uncovered)


def plainest(question: Question, make: Make, outputs: Sequence[str]) -> dict[str, ProofAttempt]:
    """By output, the attempt that shows it in the plainest domain, or the last one that did not.

    An output that one domain shows is not tried in those with more laws, which assume more and take longer.
    """
    shown: dict[str, ProofAttempt] = {}
    extended, vanishing, unshown = False, False, list(outputs)
    while unshown:
        domain = make(FIRST_POINTS, extended, vanishing)
        try:
            latest = attempt(question, domain, make, unshown)
        except NotCovered:
            if vanishing or domain.underflows == -math.inf:
                raise
            vanishing = True  # a sum may be zero where all its exponentials are
            continue
        unshown = latest.open
        if unshown and not vanishing and domain.underflows > -math.inf:
            vanishing = True  # a mask of -1e9 may only need to be one of -inf
        elif unshown and not extended and any("sqrt" in latest.proofs[name].unknown for name in unshown):
            extended = True  # the roots may only need their law
        else:
            latest, unshown = _with_all_values(question, latest), []
        shown.update(dict.fromkeys(latest.proofs, latest))
        shown.update(_at_enough_points(question, latest))
    proofs = [attempt.proofs[name] for name, attempt in shown.items()]
    if all(proof.equal or proof.not_covered is not None for proof in proofs):
        needed = max((each.points for each in shown.values() if each.points > each.domain.ring.repetitions), default=0)
        if needed:
            raise NotCovered(f"{needed} random points would be needed for a probability below 2^{ENOUGH}")
    return shown


def _with_all_values(question: Question, latest: ProofAttempt) -> ProofAttempt:
    """The attempt again, where signs of roots were not known: the value whose root it is may be computed later."""
    if not (latest.open and latest.domain.unsigned):
        return latest
    return attempt(question, latest.domain, latest.make, list(latest.proofs))


def _at_enough_points(question: Question, latest: ProofAttempt) -> dict[str, ProofAttempt]:
    """By output that an attempt shows, the attempt at enough random points, or at the most that are tried."""
    shown: dict[str, ProofAttempt] = {}
    while latest.equal:
        domain = latest.domain
        if domain.rooted and domain.ring.repetitions < CONFIRMED:
            points = CONFIRMED
        elif domain.ring.repetitions < latest.points <= MOST_POINTS:
            points = latest.points
        else:
            break
        again = latest.make(points, domain.ring.extended, domain.vanishing)
        latest = _with_all_values(question, attempt(question, again, latest.make, latest.equal))
        shown.update(dict.fromkeys(latest.proofs, latest))
    return shown


__all__ = ("FieldIdentity", "identity")

_MOST_HALVED = 3  # inputs that no proof covers are tried apart, or nudged, so often


def identity(question: Question, seed: str = "") -> dict[str, FieldIdentity]:
    """Interpret both programs over finite fields and compare their outputs.

    Raises:
        BrokenPromise: a program breaks a promise about its indices, the variant perhaps alone.
        NotCovered: the fields say nothing of any output: they have no rule for an equation, a comparison is too close
            to call, or the outputs are NaN. Where that is so of some outputs, their results say so.
    """
    proofs = by_parts(question, lambda part: _each(part, seed), FieldIdentity.uncovered)
    uncovered = [proof.not_covered for proof in proofs.values() if proof.not_covered is not None]
    if uncovered and len(uncovered) == len(proofs):
        raise NotCovered(uncovered[0])
    return proofs


def _each(question: Question, seed: str) -> dict[str, FieldIdentity]:
    """Prove all outputs; what is not covered beside others by itself: their infinities say nothing of it."""
    proofs = _together(question, seed)
    lost = [name for name, proof in proofs.items() if proof.not_covered is not None and not proof.others_equal]
    for name in lost[:MOST_PARTS] if len(proofs) > 1 else ():
        try:
            proofs |= _together(question.only([name]), seed)
        except BrokenPromise:
            raise
        except NotCovered:  # noqa: S112  which is so beside the others, too
            continue
    return proofs


def _together(question: Question, seed: str) -> dict[str, FieldIdentity]:
    """The proofs of all outputs in one interpretation."""
    levels = 1 + min(2, max(exponentials(program) for program in question.sides))
    folded_shown: dict[str, ProofAttempt] = {}

    def plain(repetitions: int, extended: bool, vanishing: bool) -> Field:
        return Field(repetitions, levels, extended, seed, vanishing=vanishing)

    def attempt(stands: Mapping[float, SurdLiteral]) -> tuple[dict[str, FieldIdentity], list[FoldedField]]:
        domains: list[FoldedField] = []

        def folded(repetitions: int, extended: bool, vanishing: bool) -> FoldedField:
            domains.append(FoldedField(repetitions, levels, extended, seed, vanishing=vanishing, stands=stands))
            return domains[-1]

        # What is equal with the constants as they are is not asked again: that may take many random points.
        again = plainest(question, folded, [name for name, proof in covered.items() if not proof.equal])
        for name, shown in again.items():
            if shown.proofs[name].is_open:
                folded_shown.setdefault(name, shown)
        return {name: shown.proofs[name] for name, shown in again.items()}, domains

    deep_shown = by_deep_domain(question, seed)
    left = [name for name in question.outputs if name not in deep_shown]
    plain_shown = deep_shown | (plainest(question, plain, left) if left else {})
    proofs = {name: plain_shown[name].proofs[name] for name in question.outputs}
    covered = _covered(proofs)
    if not all(proof.equal for proof in covered.values()):
        proofs |= match_constants(question, covered, attempt)
        covered = _covered(proofs)
    by = {
        name: folded_shown.get(name, shown) if proofs[name].is_open and not shown.proofs[name].is_open else shown
        for name, shown in plain_shown.items()
        if name in covered or proofs[name].others_equal
    }
    return proofs | confirmed(question, {name: proofs[name] for name in by}, by)


def by_deep_domain(question: Question, seed: str) -> dict[str, ProofAttempt]:
    """By output, the attempt in a deep domain where that shows it, of programs with many layers.

    Degrees grow with each product of two results, so that no number of random points would be enough for others.
    """
    programs = question.sides
    if max(longest_scan(live(program).jaxpr) for program in programs) < LAYERS:
        return {}

    def deep(repetitions: int, extended: bool, vanishing: bool) -> Field:
        return Field(repetitions, 1, seed=seed, vanishing=vanishing, deep=True)

    try:
        shown = attempt(question, deep(DEEP_POINTS, False, False), deep, question.outputs)
    except BrokenPromise:
        raise
    except NotCovered:
        return {}
    return {name: shown for name in shown.equal if shown.proofs[name].log2_error <= ENOUGH}


def _covered(proofs: Mapping[str, FieldIdentity]) -> dict[str, FieldIdentity]:
    return {name: proof for name, proof in proofs.items() if proof.not_covered is None}


def confirmed(
    question: Question, proofs: Mapping[str, FieldIdentity], by: Mapping[str, ProofAttempt]
) -> dict[str, FieldIdentity]:
    """The proofs that further attempts confirm, each with its assumptions.

    Args:
        proofs: the combined results, by output; of those with NaN, the ones whose other elements are equal.
        by: by output, the attempt that shows it, or the last one with the constants as they are.
    """
    result = _without_stored(question, [shown.domain for shown in by.values()], dict(proofs))
    elsewhere: dict[str, bool] = {}
    beyond: dict[str, str] = {}
    for shown in {id(shown): shown for shown in by.values()}.values():
        own = [name for name, other in by.items() if other is shown]
        tried, decided = _elsewhere(question, shown, {name: result[name] for name in own})
        result.update(tried)
        elsewhere.update({name: name in decided for name in own})
        result.update(_at_other_magnitudes(question, shown, {name: result[name] for name in own}, beyond))
    for name, proof in result.items():
        if proof.undecided and proof.unsure and not elsewhere[name]:
            # Numbers that were stored for these inputs are constants too, and off by no more than their rounding.
            result[name] = replace(proof, undecided=False)
    if not any(proof.equal or proof.undecided for proof in result.values()):
        return result
    try:
        reach = reach_of(question)
    except NotCovered:
        reach = None
    for name, words in (reach.different if reach is not None else {}).items():
        if result[name].equal or (result[name].undecided and result[name].not_covered is None):
            result[name] = result[name].refuted(words, math.inf)
    result.update(_of_decisions(question, by, result))
    for name, proof in result.items():
        if proof.equal or (proof.undecided and proof.not_covered is None):
            taken = assumptions(question, by[name].domain, reach, elsewhere[name], beyond.get(name))
            taken = taken if proof.equal else by_numbers(taken)
            result[name] = replace(proof, assumptions=taken, decided=tuple(by[name].domain.decisions))
    return result


def _without_stored(
    question: Question, domains: Sequence[Field], proofs: dict[str, FieldIdentity]
) -> dict[str, FieldIdentity]:
    """The same, where an output that depends on no input is not the same as one that does.

    Only where the numbers of the case decided something, integers are given or constants may have been rounded: else
    the formulas say it.
    """
    suspect = {name for name, proof in proofs.items() if proof.undecided or (proof.equal and proof.constant)}
    rounded = any(proof.unsure for proof in proofs.values())
    by_numbers = any(domain.decisions or domain.whole for domain in domains)
    if not suspect or not (by_numbers or question.fixed or rounded):
        return proofs
    result = dict(proofs)
    for name, words in stored(question).items():
        if name in suspect:
            result[name] = proofs[name].refuted(words, math.inf)
    return result


def _elsewhere(
    question: Question, shown: ProofAttempt, proofs: Mapping[str, FieldIdentity]
) -> tuple[dict[str, FieldIdentity], list[str]]:
    """The outputs that one attempt showed, where it does not hold with the elements of the inputs permuted.

    Returns:
        What is known then, and the outputs that it holds for; none of these where it was not tried.
    """
    domain = shown.domain
    open_ = [name for name, proof in proofs.items() if proof.undecided or (proof.equal and domain.decisions)]
    other = permuted(question, domain.seed) if open_ else None
    if other is None:
        return {}, []
    try:
        attempts = attempt_by_parts(other, partial(_again, shown), shown.make, open_)
    except NotCovered:  # the other order decides nothing then, and the first result stands
        return {}, []
    result, decided = dict(proofs), [name for name in proofs if name not in open_]
    for name in open_:
        proof = attempts[name].proofs[name]
        if proof.not_covered is not None:
            continue
        decided.append(name)
        is_root = attempts[name].domain.rooted and proof.gap <= APART  # a root has any sign here
        if not proof.equal and not proof.undecided and not is_root:
            words = f"{proof.witness}, with the elements of the inputs permuted"
            result[name] = proofs[name].refuted(words, proof.gap)
    return result, decided


def _again(shown: ProofAttempt) -> Field:
    """A domain like that of an attempt, with one random point."""
    return shown.make(1, shown.domain.ring.extended, shown.domain.vanishing)


def _at_other_magnitudes(
    question: Question, shown: ProofAttempt, proofs: Mapping[str, FieldIdentity], beyond: dict[str, str]
) -> dict[str, FieldIdentity]:
    """The outputs that one attempt showed, where it does not hold at larger or smaller inputs.

    What rounding hides there is as good as equal, such as `log(1 + exp(x))` and `x` where `x` is above 20.

    Args:
        beyond: gets what differs only beyond the magnitudes of a given array, which refutes nothing.
    """
    domain, result = shown.domain, dict(proofs)
    undecided = {name for name, proof in proofs.items() if proof.undecided and not proof.is_open}
    if not (domain.decisions or domain.rooted or undecided):
        return result
    for other in stretched(question, negated=domain.rooted):
        left = [name for name, proof in result.items() if proof.is_open or proof.undecided]
        for name, seen in _refuted_at(other, shown, left, undecided).items():
            if seen.beyond_given:
                beyond.setdefault(name, seen.witness)
            else:
                words = f"{seen.witness} (their values are not stated)"
                result[name] = result[name].refuted(words, seen.gap, seen.at)
    return result


def _of_decisions(
    question: Question, by: Mapping[str, ProofAttempt], proofs: Mapping[str, FieldIdentity]
) -> dict[str, FieldIdentity]:
    """The outputs that are equal and made by decisions on floats alone, and whether both sides decide alike."""
    floats = [not fixed for fixed in question.is_fixed]
    decided = {}
    for number, name in enumerate(question.outputs):
        suspect = name in proofs and proofs[name].equal and proofs[name].constant and by[name].domain.decisions
        if suspect and np.any(np.logical_and(inputs_of(question.reference, number), floats)):
            decided[name] = replace(proofs[name], tried=True)
    seed = next(iter(by.values())).domain.seed if decided else ""
    for name, words in other_jumps(question, list(decided), seed).items():
        decided[name] = proofs[name].refuted(words, math.inf)
    return decided


class _Seen(NamedTuple):
    """How an output differs at other inputs, by how much, and which these are."""

    witness: str
    gap: float
    at: Stretched

    @property
    def beyond_given(self) -> bool:
        """Whether such inputs perhaps do not occur."""
        return self.at.beyond_given


def _refuted_at(
    other: Stretched, shown: ProofAttempt, outputs: Sequence[str], undecided: Collection[str], halved: int = 0
) -> dict[str, _Seen]:
    """The outputs that are other formulas at other inputs; of these, the fewest that show it or can be evaluated.

    Args:
        undecided: those of which the fields say nothing at the inputs of the case, so that float64 alone decides.
        halved: how often the inputs were halved, or moved off what they tie with.
    """
    apart = differences(other.question, outputs, certain=undecided) if outputs else {}
    witnesses = {name: (f"{words}, in float64", math.inf) for name, words in apart.items() if name in undecided}
    open_, is_covered = [name for name in apart if name not in undecided], True
    try:
        others = attempt_by_parts(other.question, partial(_again, shown), shown.make, open_) if open_ else {}
    except NotCovered:  # such as an overflow: these magnitudes decide nothing
        others, is_covered = {}, halved >= _MOST_HALVED
    for name, attempted in others.items():
        proof = attempted.proofs[name]
        root = APART if attempted.domain.rooted else 0.0  # a root has any sign there
        if not proof.equal and not proof.undecided and proof.gap > root:
            witnesses[name] = str(proof.witness), proof.gap
    result = {name: _Seen(f"{words}, {other.words}", gap, other) for name, (words, gap) in witnesses.items()}
    parts = other.halves if witnesses or not is_covered else []
    for part in parts or ([] if is_covered else [other.nudged]):
        for name, seen in _refuted_at(part, shown, list(apart), undecided, halved + 1).items():
            if name not in result or not seen.beyond_given or result[name].beyond_given:
                result[name] = seen
    return result
