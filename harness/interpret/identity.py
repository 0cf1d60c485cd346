"""Proof over finite fields: both programs compute the same formulas, whatever the order of their sums and roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from harness.errors import NotCovered
from harness.interpret.element import Element
from harness.interpret.field import Field
from harness.interpret.folded import Folded
from harness.interpret.literals import Number
from harness.interpret.question import Question, first_place
from harness.interpret.reconciled import reconciled
from harness.interpret.residues import PRIMES
from harness.interpret.step import Array
from harness.interpret.unused import live
from harness.interpret.walk import CALLS, Walk

ENOUGH = -60
"""An error probability of at most two to this power is asked for; the walk is repeated with more points until then."""

BLIND = 1e-12
"""Relative differences below this are not seen in float64.

Noise below it: sums of up to 1e4 float64 terms, about 1e-14. Nearest fault above: an epsilon changed by 1e-9.
"""

APART = 1e-6
"""Relative differences above this are no noise of float64, whatever the residues say."""

KNOWN = frozenset({"exp with its law", "log 2"})
"""Uninterpreted functions whose laws are kept all the same.

A root keeps sqrt(x)^2 = x only where there is one, and an exponential its law only while there are primes left;
sqrt(x y) = sqrt(x) sqrt(y) is not known, nor is any law of log.
"""

_MOST = 12  # repetitions


@dataclass(frozen=True, slots=True)
class Identity:
    """What the fields say of one output.

    Args:
        equal: the same formula in every place, with the probability of an error beside it.
        elements: how many there are.
        log2_error: the base-two logarithm of the probability that different formulas were taken for equal.
        repetitions: how many random points.
        degree: of the polynomials compared.
        unknown: uninterpreted functions that were called, with their number of calls.
        undecided: different formulas, as far as the fields know; but they hold functions whose laws these do not
            know, and in float64 nothing tells them apart.
        witness: the first place that differs, with both values in float64.
        gap: the largest difference of the float64 shadows, relative to the largest value.
        constants: the formulas are equal once constants that are roundings of others stand for these, one line each.
    """

    equal: bool
    elements: int
    log2_error: float = 0.0
    repetitions: int = 0
    degree: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    witness: str | None = None
    gap: float = 0.0
    undecided: bool = False
    constants: tuple[str, ...] = ()

    @property
    def probability(self) -> str:
        """The error probability in words; constants are compared as they are, or named."""
        bound = f"error probability 2^{self.log2_error:.0f}" if self.log2_error > -math.inf else "constants"
        return "; ".join((bound, *self.constants))


def identity(question: Question, seed: str = "") -> dict[str, Identity]:
    """Walk both programs over finite fields and compare what comes out, output by output.

    Raises:
        NotCovered: an equation has no meaning in the fields, or a comparison is too close to call.
    """
    levels = 1 + min(2, max(_exponentials(program) for program in (question.reference, question.variant)))

    def plain(repetitions: int, extended: bool) -> Field:
        return Field(repetitions, levels, extended, seed)

    found, _ = _repeated(question, plain)
    if all(one.equal for one in found.values()):
        return found

    def attempt(stands: Mapping[float, Number]) -> tuple[dict[str, Identity], Folded]:
        return _repeated(question, lambda n, extended: Folded(n, levels, extended, seed, stands=stands))

    return reconciled(question, found, attempt)


Domain = TypeVar("Domain", bound=Field)


def _repeated(question: Question, make: Callable[[int, bool], Domain]) -> tuple[dict[str, Identity], Domain]:
    """What the fields say with as many random points, and as many roots, as it takes; and the domain that said it."""
    repetitions, extended = 2, False
    while True:
        domain = make(repetitions, extended)
        found, needed = _attempt(question, domain)
        equal = all(one.equal for one in found.values())
        if not equal and not extended and any("sqrt" in one.unknown for one in found.values()):
            extended = True  # the roots may only need their law
            continue
        if needed <= repetitions:
            return found, domain
        if needed > _MOST:
            if not equal:  # what is refuted stays so
                return found, domain
            raise NotCovered(f"{needed} random points would be needed for a probability below 2^{ENOUGH}")
        repetitions = needed


def _attempt(question: Question, domain: Field) -> tuple[dict[str, Identity], int]:
    args = [
        one.values if fixed else domain.input(one.name, one.values, one.kind(aval))
        for one, aval, fixed in zip(question.inputs, question.reference.in_avals, question.is_fixed, strict=True)
    ]
    walk = Walk(domain, question.platform)
    first = walk(question.reference, *args)
    domain.side = 1
    second = walk(question.variant, *args)
    found, needed = {}, domain.ring.repetitions
    for number, name in enumerate(question.outputs):
        different = question.mismatch(number)
        if different is not None:
            found[name] = Identity(False, 0, witness=different, gap=math.inf)
            continue
        kind = question.types(question.reference)[number]
        found[name], enough = compared(domain, name, first[number], second[number], kind)
        needed = max(needed, enough if found[name].equal else 0)
    return found, needed


def compared(domain: Field, name: str, first: Any, second: Any, kind: Any) -> tuple[Identity, int]:
    """What the fields say of an output that both sides gave, and how many random points that needs.

    Raises:
        NotCovered: NaN or infinities at these inputs say nothing of the formulas.
    """
    symbolic = isinstance(first, Element) or isinstance(second, Element)
    if not symbolic and not (domain.keeps_constants and kind.is_float):
        differs = np.asarray(first) != np.asarray(second)
        values: tuple[Array, Array] = np.asarray(first, np.float64), np.asarray(second, np.float64)
        points, degree = 0, 0
        log2_error = -math.inf
    else:
        one, two = domain.element(first, kind), domain.element(second, kind)
        if np.isnan(one.shadow).any() or np.isnan(two.shadow).any():
            raise NotCovered(f"'{name}' holds a NaN at these inputs, which no formula describes")
        values = one.shadow, two.shadow
        zero = np.asarray(domain.ring.vanishes(one.parts[0]).all(0))
        differs = np.any(one.parts[0] != two.parts[0], 0) | _apart(*values, zero)
        _refuse_infinities(domain, name, one, two, differs)
        points = domain.ring.repetitions
        degree = max(one.degree.top + two.degree.bottom, two.degree.top + one.degree.bottom)
        log2_error = error_bound(domain, degree, points)
    witness = None
    if differs.any():
        at = _worst(differs, *values)
        witness = (
            f"{name}[{', '.join(map(str, at))}] is {float(values[0][at])!r} in the reference, "
            f"{float(values[1][at])!r} here, in float64"
        )
    gap = _gap(*values)
    found = Identity(
        undecided=bool(differs.any()) and gap <= BLIND and not KNOWN.issuperset(domain.calls),
        equal=not differs.any(),
        elements=int(differs.size),
        log2_error=log2_error,
        repetitions=points,
        degree=degree,
        unknown={function: count for function, (count, _) in domain.calls.items()},
        witness=witness,
        gap=gap,
    )
    enough = next((n for n in range(max(points, 1), _MOST + 1) if error_bound(domain, degree, n) <= ENOUGH), _MOST + 1)
    return found, enough if points else 0


def _refuse_infinities(domain: Field, name: str, one: Element, two: Element, differs: Array) -> None:
    """Refuse to call formulas equal, or different, that nothing but an infinity at these inputs says so of.

    Raises:
        NotCovered: an output is infinite on both sides, and neither a constant nor an element of an input; or the
            formulas differ, and infinities at these inputs hide by how much.
    """
    infinite = np.isinf(one.shadow) & (one.shadow == two.shadow)
    moved = domain.infinities.is_moved(one) & domain.infinities.is_moved(two) & ~differs
    if np.any(differs & ~infinite):
        if domain.infinities.doubtful and _gap(one.shadow, two.shadow) <= BLIND:
            raise NotCovered(f"'{name}' hangs on numbers that are infinite at these inputs, which hide other formulas")
    elif np.any(infinite & ~moved):
        raise NotCovered(f"'{name}' is infinite at these inputs by arithmetic, which says nothing of its formulas")


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


def _apart(first: Array, second: Array, zero: Array) -> Array:
    """Where numbers differ that a formula calls the same: the roots of the fields do not know their signs."""
    far = APART * np.max(np.abs(first), where=np.isfinite(first), initial=0.0)
    with np.errstate(invalid="ignore"):
        infinite = (np.isinf(first) | np.isinf(second)) & (first != second)
        return np.asarray(~zero & ((np.abs(first - second) > far) | infinite))


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


def _exponentials(program: Any) -> int:
    """How many equations of a program are exponentials, those of its inner programs included; counted to two."""
    found = 0
    for equation in _equations(live(program).jaxpr):
        if equation.primitive.name in ("exp", "exp2", "expm1", "logistic", "tanh"):
            found += 1
    return min(found, 2)


def _equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in dict.fromkeys(("jaxpr", "body_jaxpr", "cond_jaxpr", *CALLS.values())):  # each once
            if inner in equation.params:
                yield from _equations(getattr(equation.params[inner], "jaxpr", equation.params[inner]))
        for branch in equation.params.get("branches", ()):
            yield from _equations(getattr(branch, "jaxpr", branch))
