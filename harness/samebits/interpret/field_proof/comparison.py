"""What the fields say of one output that both programs gave: the same formula or another, and how surely."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.field.domain import Field
from samebits.interpret.field.element import FieldElement
from samebits.interpret.field.residues import PRIMES
from samebits.interpret.field.square_roots import CONFIRMED
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.field_proof.result import APART, BLIND, FieldIdentity
from samebits.interpret.problem import first_place
from samebits.numerics import floats
from samebits.numerics.fills import fills

ENOUGH = -60
"""The error probability must be at most two to this power; programs are evaluated at more points until it is."""

MOST_POINTS = 12
"""How many random points are tried for that."""

NOISE = 1e-11
"""Beside roots: the relative difference of an element, to the numbers that it was added up from, that may be noise."""

KNOWN = frozenset({"exp with its law", "log 2"})
"""Uninterpreted functions whose laws are kept all the same.

A root keeps sqrt(x)^2 = x only where there is one, and an exponential its law only while there are primes left;
sqrt(x y) = sqrt(x) sqrt(y) is not known, nor is any law of log.
"""


def compare_formulas(
    domain: Field,
    name: str,
    first: Any,
    second: Any,
    kind: Any,
    excuses: Excuses | None = None,
    *,
    in_range: bool = True,
) -> tuple[FieldIdentity, int]:
    """What the fields say of an output that both sides gave, and how many random points that needs.

    Args:
        domain: the fields.
        name: of the output.
        first, second: what each side gave.
        kind: the type of the output.
        excuses: what else formulas may differ by than by being others; none without it.
        in_range: as of a question. If not, values that differ count only where the formulas differ too, or where
            roots, whose signs the fields do not know, are among them; and numbers below the dtype of the output, such
            as an exponential beside one that has left the range of float64, are all zero.

    Elements that are NaN say nothing. The others may show that formulas differ; if they are equal, nothing is proved.

    Raises:
        NotCovered: infinities at these inputs, or roots without a sign, say nothing of the formulas.
    """
    unknown = None
    symbolic = isinstance(first, FieldElement) or isinstance(second, FieldElement)
    if not symbolic and not (domain.keeps_constants and kind.is_float):
        differs = np.asarray(first) != np.asarray(second)
        values: tuple[Array, Array] = np.asarray(first, np.float64), np.asarray(second, np.float64)
        points, degree = 0, 0
        log2_error = -math.inf
        constant, clear = True, bool(differs.any())
    else:
        left, right = domain.element(first, kind), domain.element(second, kind)
        unknown = np.isnan(left.shadow) | np.isnan(right.shadow)
        if unknown.any():
            left, right = (replace(side, shadow=np.where(unknown, 0, side.shadow)) for side in (left, right))
        values = left.shadow, right.shadow
        zero = np.asarray(domain.ring.vanishes(left.parts[0]).all(0))
        other, apart = np.any(left.parts[0] != right.parts[0], 0), _apart(left, right) & ~zero
        if not in_range and not domain.rooted:
            apart &= other
        if not in_range and kind.is_float:
            seen = ~_below(floats.smallest(kind.dtype), *values)
            other, apart = other & seen, apart & seen
        differs, clear = (other | apart) & ~unknown, bool(apart.any())
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
        if values[0][at] == values[1][at]:
            witness += " (equal at these inputs; as formulas they differ)"
    undecided, unsure = _excused(domain, excuses, name, values, differs)
    if unknown is not None and unknown.any() and (undecided or not differs.any()):
        nan = NotCovered(f"'{name}' holds a NaN at these inputs, which no formula describes")
        return FieldIdentity.uncovered(nan, others_equal=not undecided), 0
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
    enough = next(
        (n for n in range(max(points, 1), MOST_POINTS + 1) if error_bound(domain, degree, n) <= ENOUGH), MOST_POINTS + 1
    )
    return proof, enough if points else 0


def formulas_of(first: Any, second: Any) -> tuple[Any, Any]:
    """Two values; of integers that are one rounded formula of floats, this formula."""
    left, right = getattr(first, "element", None), getattr(second, "element", None)
    if left is None or right is None or not np.array_equal(left.parts[0], right.parts[0]):
        return first, second
    return left, right


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
        NotCovered: float64 says that a root has the other sign on one side, or cannot decide it.
    """
    with np.errstate(invalid="ignore"):
        far = np.abs(left.shadow - right.shadow) > NOISE * np.maximum(left.size, right.size)
    if np.any(far & ~settled & np.isfinite(left.shadow) & np.isfinite(right.shadow)):
        raise NotCovered(f"'{name}' holds roots whose signs cannot be determined at these inputs")


def error_bound(domain: Field, degree: int, repetitions: int) -> float:
    """The base-two logarithm of the probability that different formulas agree at all random points.

    Per point a polynomial of this degree vanishes with probability degree / p. An unknown function is asked for equal
    things by accident if all points agree on two of its arguments; an exponential, which every point has for itself,
    if one does. (The exponential counts as a random function with its law, as in Mirage, section on equivalence.)
    """
    smallest = PRIMES[len(domain.primes) - 1]
    count, largest = domain.calls.get("exp with its law", (0, 0))
    total = _chance(degree + count * count * largest, smallest) ** repetitions
    for function, (calls, deep) in domain.calls.items():
        if function != "exp with its law":
            total += calls * calls / 2 * _chance(2 * deep, PRIMES[0]) ** repetitions
    return math.log2(total) if 0 < total < 1 else (-math.inf if total == 0 else 0.0)


def _chance(degree: int, prime: int) -> float:
    """The probability that a polynomial vanishes at a random point; its degree may be beyond every float."""
    return degree / prime if degree < prime else 1.0


def _below(smallest: float, first: Array, second: Array) -> Array:
    """Where both sides are finite and smaller than any number of the output's dtype."""
    return np.asarray((np.abs(first) < smallest) & (np.abs(second) < smallest), bool)


def _apart(left: FieldElement, right: FieldElement) -> Array:
    """Where numbers differ that a formula calls the same: the roots of the fields have no known signs.

    Where all of an output cancels out, as at inputs of ones, its largest number is noise: what it was added up from
    says how much.
    """
    first, second = left.shadow, right.shadow
    finite = np.isfinite(first)
    far = APART * np.max(np.abs(first), where=finite & ~fills(first, second, finite), initial=0.0)
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
    if excuses is None:
        return lawless and _gap(*values) <= BLIND, None
    # The largest number of an output, such as what masks it, says nothing of how small a difference elsewhere is.
    is_blind = lawless and _gap(*values) <= BLIND and excuses.small(name, *values, differs)
    if is_blind or (lawless and excuses.laws(name, *values, differs)):
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
    largest = float(np.max(np.abs(first), where=finite & ~fills(first, second, finite), initial=0.0))
    with np.errstate(invalid="ignore"):
        apart = float(np.max(np.abs(first - second), where=finite, initial=0.0))
    return apart / largest if largest else (0.0 if apart == 0 else math.inf)
