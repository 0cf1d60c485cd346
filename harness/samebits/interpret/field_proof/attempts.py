"""Attempts at a proof over finite fields: for each output the plainest domain that shows it, at enough points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from samebits.errors import BrokenPromise, NotCovered
from samebits.interpret.field.domain import Field
from samebits.interpret.field.square_roots import CONFIRMED
from samebits.interpret.field_proof.comparison import ENOUGH, MOST_POINTS, compare_formulas, formulas_of
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.field_proof.parts import by_parts
from samebits.interpret.field_proof.result import FieldIdentity
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.problem import Question

FIRST_POINTS = 2
"""At how many random points an attempt starts."""

Make = Callable[[int, bool, bool], Field]
"""A domain with as many random points, with roots that keep their law, with underflow counting as zero."""


@dataclass(frozen=True, slots=True)
class ProofAttempt:
    """One attempt at a proof.

    Args:
        proofs: its results, by output; of those that it was tried on.
        domain: the fields.
        make: makes another domain like it.
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
    """By output, the attempt in a domain of its kind; of parts of the outputs where the whole is not covered.

    Raises:
        NotCovered: nothing of it is covered.
    """

    def ask(part: Question) -> dict[str, ProofAttempt]:
        return dict.fromkeys(part.outputs, attempt(part, domain(), make, part.outputs))

    def uncovered(error: NotCovered) -> ProofAttempt:
        return ProofAttempt(dict.fromkeys(outputs, FieldIdentity.uncovered(error)), domain(), make, 0)

    return by_parts(question.only(outputs), ask, uncovered)


def plainest(question: Question, make: Make, outputs: Sequence[str]) -> dict[str, ProofAttempt]:
    """By output, the attempt that shows it in the plainest domain, or the last one that did not.

    An output that one domain shows is not tried in those with more laws, which assume more and take longer.

    Args:
        question: the programs and their inputs.
        make: makes the domains.
        outputs: the names of the outputs to show.

    Raises:
        NotCovered: as of `attempt`; or too many random points would be needed.
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
