"""Proof over finite fields: both programs compute the same formulas, whatever the order of their sums and roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.field.domain import Field
from samebits.interpret.field.element import FieldElement
from samebits.interpret.field.folded_constants import FoldedField
from samebits.interpret.field.residues import PRIMES
from samebits.interpret.field.square_roots import CONFIRMED
from samebits.interpret.field_proof.confirm import ProofAttempt, confirmed
from samebits.interpret.field_proof.constants import match_constants
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.field_proof.result import APART, BLIND, FieldIdentity
from samebits.interpret.inner_equations import exponentials
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.problem import Question, first_place

ENOUGH = -60
"""The error probability must be at most two to this power; programs are evaluated at more points until it is."""

NOISE = 1e-11
"""Beside roots: the relative difference of an element, to the numbers that it was added up from, that may be noise."""

KNOWN = frozenset({"exp with its law", "log 2"})
"""Uninterpreted functions whose laws are kept all the same.

A root keeps sqrt(x)^2 = x only where there is one, and an exponential its law only while there are primes left;
sqrt(x y) = sqrt(x) sqrt(y) is not known, nor is any law of log.
"""

_MOST = 12  # repetitions

__all__ = ("APART", "BLIND", "ENOUGH", "KNOWN", "FieldIdentity", "compare_formulas", "error_bound", "identity")


def identity(question: Question, seed: str = "") -> dict[str, FieldIdentity]:
    """Interpret both programs over finite fields and compare their outputs.

    Raises:
        NotCovered: the fields have no rule for an equation, or a comparison is too close to call.
    """
    levels = 1 + min(2, max(exponentials(program) for program in (question.reference, question.variant)))
    tries: list[ProofAttempt] = []

    def plain(repetitions: int, extended: bool, vanishing: bool) -> Field:
        return Field(repetitions, levels, extended, seed, vanishing=vanishing)

    def attempt(stands: Mapping[float, SurdLiteral]) -> tuple[dict[str, FieldIdentity], FoldedField]:
        def folded(repetitions: int, extended: bool, vanishing: bool) -> FoldedField:
            return FoldedField(repetitions, levels, extended, seed, vanishing=vanishing, stands=stands)

        # What is equal with the constants as they are is not asked again: that may take many random points.
        again, domain = _repeated(question, folded, [name for name, proof in proofs.items() if not proof.equal])
        tries.append(ProofAttempt({**proofs, **again}, domain, folded))
        return again, domain

    proofs, domain = _repeated(question, plain, question.outputs)
    tries.append(ProofAttempt(proofs, domain, plain))
    if not all(proof.equal for proof in proofs.values()):
        proofs = match_constants(question, proofs, attempt)
    return confirmed(question, proofs, tries, _attempt)


Domain = TypeVar("Domain", bound=Field)


def _repeated(
    question: Question, make: Callable[[int, bool, bool], Domain], outputs: Sequence[str]
) -> tuple[dict[str, FieldIdentity], Domain]:
    """What the fields say, from the plainest of them that shows it, and the domain that did.

    Formulas that float64 tells apart are asked of the plainest alone: laws of roots do not move these numbers.

    Args:
        question: what is asked.
        make: a domain with as many random points, with roots that keep their law, with underflow counting as zero.
        outputs: the names of those that it is asked of.
    """
    repetitions, extended, vanishing = 2, False, False
    while True:
        domain = make(repetitions, extended, vanishing)
        try:
            proofs, needed = _attempt(question, domain, outputs)
        except NotCovered:
            if vanishing or domain.underflows == -math.inf:
                raise
            vanishing = True  # a sum may be zero where all its exponentials are
            continue
        is_open = any(not proof.equal and not proof.clear for proof in proofs.values())
        if is_open and not vanishing and domain.underflows > -math.inf:
            vanishing = True  # a mask of -1e9 may only need to be one of -inf
            continue
        if is_open and not extended and any("sqrt" in proof.unknown for proof in proofs.values()):
            extended = True  # the roots may only need their law
            continue
        if is_open and domain.unsigned:
            proofs, needed = _attempt(question, domain, outputs)  # whose root it is may have been computed later
        if domain.rooted and repetitions < CONFIRMED and any(proof.equal for proof in proofs.values()):
            repetitions = CONFIRMED
            continue
        if needed <= repetitions:
            return proofs, domain
        if needed > _MOST:
            if not all(proof.equal for proof in proofs.values()):  # what is refuted stays so
                return proofs, domain
            raise NotCovered(f"{needed} random points would be needed for a probability below 2^{ENOUGH}")
        repetitions = needed


def _attempt(
    question: Question, domain: Field, outputs: Sequence[str] | None = None
) -> tuple[dict[str, FieldIdentity], int]:
    args = [
        argument.values if fixed else domain.input(argument.name, argument.values, argument.kind(aval))
        for argument, aval, fixed in zip(question.inputs, question.reference.in_avals, question.is_fixed, strict=True)
    ]
    interpreter = Interpreter(domain, question.platform)
    first = interpreter(question.reference, *args)
    domain.side = 1
    second = interpreter(question.variant, *args)
    proofs, needed, excuses = {}, domain.ring.repetitions, Excuses(question)
    for number, name in enumerate(question.outputs):
        if outputs is not None and name not in outputs:
            continue
        different = question.mismatch(number)
        if different is not None:
            proofs[name] = FieldIdentity(False, 0, witness=different, gap=math.inf, clear=True)
            continue
        kind = question.types(question.reference)[number]
        proofs[name], enough = compare_formulas(domain, name, first[number], second[number], kind, excuses)
        needed = max(needed, enough if proofs[name].equal else 0)
    return proofs, needed


def compare_formulas(
    domain: Field, name: str, first: Any, second: Any, kind: Any, excuses: Excuses | None = None
) -> tuple[FieldIdentity, int]:
    """What the fields say of an output that both sides gave, and how many random points that needs.

    Args:
        domain: the fields.
        name: of the output.
        first, second: what each side gave.
        kind: the type of the output.
        excuses: what else formulas may differ by than by being others; none without it.

    Raises:
        NotCovered: NaN or infinities at these inputs say nothing of the formulas.
    """
    symbolic = isinstance(first, FieldElement) or isinstance(second, FieldElement)
    if not symbolic and not (domain.keeps_constants and kind.is_float):
        differs = np.asarray(first) != np.asarray(second)
        values: tuple[Array, Array] = np.asarray(first, np.float64), np.asarray(second, np.float64)
        points, degree = 0, 0
        log2_error = -math.inf
        constant, clear = True, bool(differs.any())
    else:
        left, right = domain.element(first, kind), domain.element(second, kind)
        if np.isnan(left.shadow).any() or np.isnan(right.shadow).any():
            raise NotCovered(f"'{name}' holds a NaN at these inputs, which no formula describes")
        values = left.shadow, right.shadow
        zero = np.asarray(domain.ring.vanishes(left.parts[0]).all(0))
        apart = _apart(left, right) & ~zero
        differs, clear = np.any(left.parts[0] != right.parts[0], 0) | apart, bool(apart.any())
        _refuse_infinities(domain, name, left, right, differs)
        if domain.rooted and domain.ring.repetitions >= CONFIRMED:
            _refuse_signs(name, left, right, differs | zero)
        constant = left.degree.largest == right.degree.largest == 0 and bool(np.any(left.shadow))
        points = domain.ring.repetitions
        degree = max(left.degree.top + right.degree.bottom, right.degree.top + left.degree.bottom)
        log2_error = error_bound(domain, degree, points)
    witness = None
    if differs.any():
        at = _worst(differs, *values)
        witness = (
            f"{name}[{', '.join(map(str, at))}] is {float(values[0][at])!r} in the reference, "
            f"{float(values[1][at])!r} here, in float64"
        )
    undecided, unsure = _excused(domain, excuses, name, values, differs)
    proof = FieldIdentity(
        undecided=undecided,
        unsure=unsure,
        clear=clear and not undecided,
        equal=not differs.any(),
        elements=int(differs.size),
        log2_error=log2_error,
        repetitions=points,
        degree=degree,
        unknown={function: count for function, (count, _) in domain.calls.items()},
        witness=witness,
        gap=_gap(*values),
        constant=constant,
    )
    enough = next((n for n in range(max(points, 1), _MOST + 1) if error_bound(domain, degree, n) <= ENOUGH), _MOST + 1)
    return proof, enough if points else 0


def _refuse_infinities(domain: Field, name: str, left: FieldElement, right: FieldElement, differs: Array) -> None:
    """Raise where only an infinity at these inputs decides whether formulas are equal.

    Raises:
        NotCovered: an output is infinite on both sides, and neither a constant nor an element of an input; or the
            formulas differ, and infinities at these inputs hide by how much.
    """
    infinite = np.isinf(left.shadow) & (left.shadow == right.shadow)
    moved = domain.infinities.is_moved(left) & domain.infinities.is_moved(right) & ~differs
    if np.any(differs & ~infinite):
        if domain.infinities.doubtful and _gap(left.shadow, right.shadow) <= BLIND:
            raise NotCovered(f"'{name}' hangs on numbers that are infinite at these inputs, which hide other formulas")
    elif np.any(infinite & ~moved):
        raise NotCovered(f"'{name}' is infinite at these inputs by arithmetic, which says nothing of its formulas")


def _refuse_signs(name: str, left: FieldElement, right: FieldElement, settled: Array) -> None:
    """Raise where formulas with roots are equal but their float64 values differ by more than noise.

    Raises:
        NotCovered: float64 says that a root has the other sign on one side, or that it cannot tell.
    """
    with np.errstate(invalid="ignore"):
        far = np.abs(left.shadow - right.shadow) > NOISE * np.maximum(left.size, right.size)
    if np.any(far & ~settled & np.isfinite(left.shadow) & np.isfinite(right.shadow)):
        raise NotCovered(f"'{name}' holds roots whose signs cannot be told at these inputs")


def error_bound(domain: Field, degree: int, repetitions: int) -> float:
    """The base-two logarithm of the probability that different formulas agree at all random points.

    Per point a polynomial of this degree vanishes with probability degree / p. An unknown function is asked for equal
    things by accident if all points agree on two of its arguments; an exponential, which every point has for itself,
    if one does. (The exponential counts as a random function with its law, as in Mirage, section on equivalence.)
    """
    smallest = PRIMES[len(domain.primes) - 1]
    count, largest = domain.calls.get("exp with its law", (0, 0))
    each = (degree + count * count / 2 * 2 * largest) / smallest
    total = each**repetitions if each < 1 else 1.0
    for function, (calls, deep) in domain.calls.items():
        if function != "exp with its law":
            total += calls * calls / 2 * (2 * deep / PRIMES[0]) ** repetitions
    return math.log2(total) if 0 < total < 1 else (-math.inf if total == 0 else 0.0)


def _apart(left: FieldElement, right: FieldElement) -> Array:
    """Where numbers differ that a formula calls the same: the roots of the fields do not know their signs.

    Where all of an output cancels out, as at inputs of ones, its largest number is noise: what it was added up from
    says how much.
    """
    first, second = left.shadow, right.shadow
    far = APART * np.max(np.abs(first), where=np.isfinite(first), initial=0.0)
    with np.errstate(invalid="ignore"):
        infinite = (np.isinf(first) | np.isinf(second)) & (first != second)
        noise = NOISE * np.maximum(left.size, right.size)
        return np.asarray((np.abs(first - second) > np.maximum(far, noise)) | infinite)


def _excused(
    domain: Field, excuses: Excuses | None, name: str, values: tuple[Array, Array], differs: Array
) -> tuple[bool, str | None]:
    """Whether what differs may be one formula all the same, and why, where that is not for the laws of functions.

    The fields do not know every law of functions, and no formula of a constant that was computed before the trace.
    """
    if not differs.any():
        return False, None
    lawless = not KNOWN.issuperset(domain.calls)
    if lawless and _gap(*values) <= BLIND:
        return True, None
    if excuses is None:
        return False, None
    if lawless and excuses.laws(name, *values, differs):
        return True, None
    unsure = excuses.constants(name, *values, differs)
    return unsure is not None, unsure


def _worst(differs: Array, first: Array, second: Array) -> tuple[int, ...]:
    """The place that differs most in float64; not one that is infinite on both sides, if another differs."""
    with np.errstate(invalid="ignore"):
        apart = np.where(first == second, 0, np.abs(first - second))
    apart = np.where(np.isnan(apart), np.inf, apart)
    differs = differs & ~(np.isinf(first) & (first == second)) if np.any(differs & (apart > 0)) else differs
    return first_place(differs & (apart == np.max(apart, where=differs, initial=0)))


def _gap(first: Array, second: Array) -> float:
    finite = np.isfinite(first) & np.isfinite(second)
    if np.any(~finite & (first != second)):
        return math.inf
    largest = float(np.max(np.abs(first), where=finite, initial=0.0))
    with np.errstate(invalid="ignore"):
        apart = float(np.max(np.abs(first - second), where=finite, initial=0.0))
    return apart / largest if largest else (0.0 if apart == 0 else math.inf)
