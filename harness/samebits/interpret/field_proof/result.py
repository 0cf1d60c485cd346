"""The result of a proof over finite fields for one output."""

from __future__ import annotations

import dataclasses
import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.errors import NotCovered, not_interpreted
from samebits.interpret import literals
from samebits.interpret.equation import Array
from samebits.interpret.field.arithmetic import CONFIRMED
from samebits.interpret.field.domain import Field, FoldedField
from samebits.interpret.field.element import FieldElement
from samebits.interpret.field.residues import PRIMES
from samebits.interpret.field_proof.float64_noise import Excuses
from samebits.interpret.given_integers import like_given
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.probes import Stretched
from samebits.interpret.problem import first_place
from samebits.interpret.source_constants import RoundedConstant, SourceConstant, constants, roundings
from samebits.numerics import floats
from samebits.numerics.fills import fills
from samebits.schema.assumption import Assumption, words_of

if TYPE_CHECKING:
    from samebits.interpret.field.domain import Field
    from samebits.interpret.float64_differences import OverflowReach
    from samebits.interpret.problem import Question


# The assumptions of a proof over finite fields, from what the proof took from the numbers of its case.
_NAMED = 3  # of what is listed by name; the rest is counted


def assumptions(
    question: Question, domain: Field, reach: OverflowReach | None, elsewhere: bool, counterexample: str | None = None
) -> tuple[Assumption, ...]:
    """What a proof takes for granted.

    Args:
        reach: what the range of the dtypes does at these inputs; None where the programs cannot be evaluated.
        elsewhere: whether the proof was found to hold with the elements of the inputs permuted, too.
        counterexample: where comparisons come out otherwise, or roots have the other sign, and the formulas with them.
    """
    taken = tuple(_of(question, domain, reach, elsewhere))
    words = [word for word in ("comparisons", "roots", "functions") for each in taken if each.word == word]
    return tuple(replace(each, counterexample=counterexample) if each.word in words[:1] else each for each in taken)


def by_numbers(taken: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Of the assumptions of a proof, those that what is only not refuted rests on: what the numbers tried decided."""
    words = ("values", "comparisons", "roots")
    return tuple(each for each in taken if each.word in words or each.counterexample is not None)


def not_exercised(same: FieldIdentity, one_way: Callable[[], list[str]] | None) -> tuple[Assumption, ...]:
    """The assumptions of a proof, with the comparisons that came out one way only at everything that was tried.

    Args:
        one_way: names such comparisons of both programs; those that only constants or integers decide are left out.
    """
    names = set(one_way()) if one_way is not None and same.decided else ()
    never = [name for name in same.decided if name in names]
    if not never:
        return same.assumptions
    more = f"; one way only at everything tried: {_named(never, 2 * _NAMED)}"
    return tuple(replace(a, text=a.text + more) if a.word == "comparisons" else a for a in same.assumptions)


def of_movement(domain: str | None, routing: Sequence[str], products: bool) -> tuple[Assumption, ...]:
    """What a proof by labels takes for granted.

    Args:
        domain: what must hold of the inputs, in words.
        routing: the inputs for whose values alone it holds.
    """
    assumptions = [_SHAPES]
    if domain is not None:
        assumptions.append(Assumption("domain", domain, "an input does not keep it", inherent=True))
    if routing:
        assumptions.append(of_values(routing))
    if products:
        kept = "products of matrices keep float32, as on a CPU"
        assumptions.append(
            Assumption("products", kept, "the target rounds the operands of its products, as a TPU does")
        )
    moved = "the compiler moves data as the program says"
    assumptions.append(
        Assumption("compiler", moved, "it does not, which `samebits check` sees on its inputs", inherent=True)
    )
    return tuple(assumptions)


_SHAPES = Assumption(
    "shapes", "these shapes", "a program branches on its shapes: other shapes are other programs", inherent=True
)


def of_values(names: Sequence[str]) -> Assumption:
    """That a result is for the values that these integers and booleans have."""
    return Assumption(
        "values",
        f"these values of {' and '.join(names)}",
        "other integers or booleans are given: they are taken as they are",
    )


def of_inputs_tried(counterexample: str) -> Assumption:
    """That a result is for inputs like those tried."""
    return Assumption(
        "values",
        "inputs like those tried",
        "others are given: other integers or magnitudes, a mask that is the same everywhere, a row of zeros, a NaN",
        counterexample=counterexample,
    )


def _of(question: Question, domain: Field, reach: OverflowReach | None, elsewhere: bool) -> Iterator[Assumption]:
    yield _SHAPES
    yield Assumption(
        "casts",
        "rounding and casts between floats count as nothing",
        "rounding is larger than the contract allows, which `samebits check` measures",
        inherent=True,
    )
    if question.fixed:
        yield of_values(like_given(question, question.fixed))
    if domain.decisions:
        also = ", and as with their elements permuted" if elsewhere else ""
        yield Assumption(
            "comparisons",
            f"comparisons come out as at the inputs of the case{also} ({_named(domain.decisions)})",
            "other inputs are ordered, routed, clipped or truncated otherwise, pass a threshold, or tie",
        )
    functions = [name for name in domain.calls if name != "exp with its law"]
    if functions:
        yield Assumption(
            "functions",
            f"taken as random functions: {', '.join(functions)}",
            "two arguments of one of them agree by accident, which the error probability counts",
            inherent=True,
        )
    if domain.rooted:
        yield Assumption(
            "roots",
            "the root of a square is positive, by the sign that the squared value has at the inputs of the case",
            f"that value has the other sign; or by accident (2^-{CONFIRMED}) and below what float64 resolves",
        )
    if domain.vanishing and domain.underflows > -float("inf"):
        yield Assumption(
            "underflow",
            "exponentials that underflow at the inputs of the case are zero: "
            f"those of {domain.underflows:.4g} and below",
            "their arguments are larger, or nothing larger is added to them, as in a row that is masked everywhere",
        )
    yield _range(question, reach)


def _range(question: Question, reach: OverflowReach | None) -> Assumption:
    grown = "a number on the way becomes too large or too small for it"
    if reach is None:
        return Assumption("range", "no number leaves the range of its dtype", grown)
    dtypes = " and ".join(sorted(reach.largest)) or "its dtype"
    if reach.growing:
        grown += f", most easily by {_named(reach.growing)}"
    left = dict.fromkeys(primitive for side in reach.left.values() for primitive in side)
    if left:
        return Assumption(
            "range",
            f"what leaves the range of {dtypes} at the inputs of the case changes no output ({_named(left)})",
            f"nothing larger is beside it, or {grown}",
        )
    top = max(reach.largest.values(), default=0.0)
    stays = f"no number leaves the range of {dtypes} (at the inputs of the case the largest is {top:.0e} of its end)"
    return Assumption("range", stays, grown)


def _named(names: Iterable[str], count: int = _NAMED) -> str:
    """A few names, and how many there are more."""
    listed = list(names)
    more = f" and {len(listed) - count} more" if len(listed) > count else ""
    return ", ".join(listed[:count]) + more


BLIND = 1e-12
"""Relative differences below this are not seen in float64.

Noise below it: sums of up to 1e4 float64 terms, about 1e-14. Nearest fault above: an epsilon changed by 1e-9.
"""

APART = 1e-6
"""Relative differences above this are not noise of float64, whatever the residues say."""


@dataclass(frozen=True, slots=True)
class FieldIdentity:
    """What the fields say of one output.

    Args:
        equal: the same formula in every place, with the probability of an error beside it.
        log2_error: the base-two logarithm of the probability that different formulas were taken for equal.
        repetitions: how many random points.
        unknown: uninterpreted functions that were called, with their number of calls.
        undecided: different formulas, as far as the fields decide; but they hold functions for which these have no
            laws, and float64 does not distinguish them.
        witness: the first place that differs, with both values in float64.
        gap: the largest difference of the float64 shadows, relative to the largest value.
        constants: the formulas are equal once constants that are roundings of others stand for these, one line each.
        constant: as formulas both sides are numbers; a zero is one in any case.
        assumptions: what the proof takes for granted, where the formulas are equal.
        decided: what the proof took from the numbers of the case, each with its source line.
        unsure: why it is undecided, where that is not for the laws of functions; of formulas that differ, why
            they might be undecided at inputs whose elements may change places.
        clear: float64 distinguishes the formulas too, by more than its noise: no law of roots makes them equal.
        not_covered: why the fields say nothing of this output, in words; it is undecided then.
        not_interpreted: what of the programs could not be interpreted, where that is why.
        tried: what is equal are numbers that only decisions make, such as integers, at the inputs tried: no formulas.
        others_equal: of an output that is not covered because some elements are NaN, the other elements are equal.
        at: the inputs that show the difference, where these are others than those of the case.
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
    constant: bool = False
    assumptions: tuple[Assumption, ...] = ()
    decided: tuple[str, ...] = ()
    unsure: str | None = None
    clear: bool = False
    not_covered: str | None = None
    not_interpreted: str | None = None
    tried: bool = False
    others_equal: bool = False
    at: Stretched | None = field(default=None, repr=False, compare=False)

    @classmethod
    def uncovered(cls, error: NotCovered, *, others_equal: bool = False) -> FieldIdentity:
        """What is known of an output of which the fields say nothing."""
        return cls(
            False,
            0,
            undecided=True,
            not_covered=str(error),
            not_interpreted=not_interpreted(error),
            others_equal=others_equal,
        )

    @property
    def is_open(self) -> bool:
        """Whether further attempts may refute it: all of it is equal, or what says something is."""
        return self.equal or self.others_equal

    def refuted(self, witness: str, gap: float, at: Stretched | None = None) -> FieldIdentity:
        """The same output, shown to be another formula by a witness, perhaps at other inputs."""
        return replace(
            self,
            equal=False,
            undecided=False,
            unsure=None,
            not_covered=None,
            not_interpreted=None,
            others_equal=False,
            witness=witness,
            gap=gap,
            at=at,
        )

    @property
    def same(self) -> str:
        """That both sides are equal, and how surely, in words."""
        assumes = f"; assumes {self.assumed})" if self.assumed else ")"
        if self.tried:
            return f"the same numbers at the inputs tried, which only decisions make (not by formulas{assumes}"
        return f"the same formulas ({self.probability}{assumes}"

    @property
    def probability(self) -> str:
        """The error probability in words; constants are compared as they are, or named."""
        bound = f"error probability 2^{self.log2_error:.0f}" if self.log2_error > -math.inf else "constants"
        return "; ".join((bound, *self.constants))

    @property
    def assumed(self) -> str:
        """The kinds of what is assumed beyond shapes and rounding, in words."""
        return words_of(self.assumptions)

    @property
    def unassuming(self) -> FieldIdentity:
        """The same, undecided where it rests on assumptions."""
        if not self.equal or not self.assumed:
            return self
        why = f"the proof rests on assumptions ({self.assumed}), and none are accepted"
        return replace(self, equal=False, undecided=True, unsure=why)


# What the fields say of one output that both programs gave: the same formula or another, and how surely.
# Formulas that differ in their constants: whether by their rounding alone, and if not, by which literals.
Attempt = Callable[[Mapping[float, SurdLiteral]], "tuple[dict[str, FieldIdentity], Sequence[FoldedField]]"]
"""From what constants stand for to what the fields say, and the domains that were asked."""

_TRIED, _SHOWN = 4, 3


def match_constants(question: Question, proofs: dict[str, FieldIdentity], attempt: Attempt) -> dict[str, FieldIdentity]:
    """The proofs once constants that are roundings of others are replaced by these.

    Args:
        proofs: the results with the constants as they are; some output differs.

    Returns:
        Outputs that differ by the rounding of constants alone are equal, and name these; those of which nothing is said
        then are not covered; for all others the witness names the literals that only one of the programs has.
    """
    sides = constants(question.reference), constants(question.variant)
    noted: tuple[str, ...]
    written = known = roundings(*sides)
    try:
        again, domains = attempt(_numbers(known))
        if not _settled(proofs, again):
            computed = {
                **roundings(*_together([domain.inner for domain in domains])),
                **roundings(*_together([domain.met for domain in domains])),
            }
            if computed:
                known = {**known, **computed}
                again, domains = attempt(_numbers(known))
    except NotCovered:
        again, noted = {}, ()
    else:
        used = set[float]().union(*(domain.used for domain in domains))
        noted = _texts([rounded for value, rounded in known.items() if value in used])
    merged = {
        name: dataclasses.replace(again[name], constants=noted) if _is_proved(proof, again.get(name)) else proof
        for name, proof in proofs.items()
    }
    # Where an output is NaN in places, what differs in others may be such a rounding: then the rest says nothing.
    merged |= {name: proof for name, proof in again.items() if proof.not_covered is not None}
    if not any(map(_is_open, merged.values())):
        return merged
    named = _blamed(sides, written, merged, attempt)
    return {
        name: dataclasses.replace(proof, witness=f"{proof.witness}; {named}") if named and _is_open(proof) else proof
        for name, proof in merged.items()
    }


def rounded_literals(question: Question) -> tuple[dict[float, float], tuple[str, ...]]:
    """The literals of either program that are roundings of the other's: the numbers that they stand for, and in words.

    For what fields cannot decide: with these numbers in their place, equal formulas are equal in float64.
    """
    known = roundings(constants(question.reference), constants(question.variant))
    return {value: float(rounded.number) for value, rounded in known.items()}, _texts(list(known.values()))


def _together(
    known: Sequence[tuple[dict[float, SourceConstant], dict[float, SourceConstant]]],
) -> tuple[dict[float, SourceConstant], dict[float, SourceConstant]]:
    """The constants of each side that any of the domains met."""
    first, second = zip(*known, strict=True)
    return dict(ChainMap(*first)), dict(ChainMap(*second))


def _is_proved(before: FieldIdentity, again: FieldIdentity | None) -> bool:
    return not before.equal and again is not None and again.equal


def _settled(proofs: Mapping[str, FieldIdentity], again: Mapping[str, FieldIdentity]) -> bool:
    return all(not _is_open(proof) or again[name].equal for name, proof in proofs.items())


def _is_open(proof: FieldIdentity) -> bool:
    return not proof.equal and proof.not_covered is None


def _numbers(known: Mapping[float, RoundedConstant]) -> dict[float, SurdLiteral]:
    return {value: rounded.number for value, rounded in known.items()}


def _texts(known: Sequence[RoundedConstant]) -> tuple[str, ...]:
    noise = 1e-12  # of float64, in which constants are computed
    texts = [
        rounded.text
        for rounded in known
        if abs(float(rounded.number) - rounded.constant.value) > noise * abs(rounded.constant.value)
    ]
    more = (f"{len(texts) - _SHOWN} more constants are such roundings",) if len(texts) > _SHOWN else ()
    return (*texts[:_SHOWN], *more) if texts else ("constants that are computed in another order",)


def _blamed(
    sides: tuple[Mapping[float, SourceConstant], Mapping[float, SourceConstant]],
    known: Mapping[float, RoundedConstant],
    proofs: Mapping[str, FieldIdentity],
    attempt: Attempt,
) -> str | None:
    """The literals that make formulas differ: those that make them equal where one is put for the other."""
    first, second = (
        [
            constant
            for value, constant in own.items()
            if not constant.table and value not in others and value not in known
        ]
        for own, others in (sides, sides[::-1])
    )
    pairs = sorted(((constant, other) for constant in first for other in second), key=_distance)
    for constant, other in pairs[:_TRIED]:
        number = literals.number(constant.value, constant.dtype)
        try:
            again, _ = attempt({**_numbers(known), other.value: number})
        except NotCovered:  # noqa: S112  with the other literal: this exchange explains nothing
            continue
        if _settled(proofs, again):
            return f"the reference has the literal {constant} where this has {other}"
    parts = [
        f"only the {side} has the literal{'s' if len(own) > 1 else ''} {', '.join(map(str, own))}"
        for side, own in (("reference", first), ("variant", second))
        if 0 < len(own) <= _SHOWN
    ]
    return " and ".join(parts) or None


def _distance(pair: tuple[SourceConstant, SourceConstant]) -> float:
    value, other = (each.value for each in pair)
    return abs(math.log(value / other)) if value * other > 0 else math.inf


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
    """Raise where formulas with roots are equal but their float64 values differ by more than noise."""
    with np.errstate(invalid="ignore"):
        far = np.abs(left.shadow - right.shadow) > NOISE * np.maximum(left.size, right.size)
    if np.any(far & ~settled & np.isfinite(left.shadow) & np.isfinite(right.shadow)):
        raise NotCovered(f"'{name}' holds roots whose signs cannot be determined at these inputs")


def error_bound(domain: Field, degree: int, repetitions: int) -> float:
    """The base-two logarithm of the probability that different formulas agree at all random points.

    Per point a polynomial of this degree vanishes with probability degree / p. An unknown function is asked for equal
    things by accident if all points agree on two of its arguments; an exponential, which every point has for itself,
    if one does. (The exponential counts as a random function with its law, as in Mirage, section on equivalence; of
    arguments that are quotients the degrees of single elements count, `DegreeBounds.of_few`.)

    The smaller of two bounds holds. In the first, a point tells nothing if any two exponentials are equal by accident.
    In the second, which needs exponentials that are not nested, a monomial keeps its coefficient unless one of its own
    exponentials, at most as many as its degree, equals another one.
    """
    prime = PRIMES[len(domain.primes) - 1]
    count, of_few = domain.calls.get("exp with its law", (0, 0))
    pairs = [(calls * calls / 2, 2 * deep) for name, (calls, deep) in domain.calls.items() if name not in KNOWN]
    total = _chance(degree + count * count * of_few, prime) ** repetitions
    for points in range(1, repetitions + 1 if pairs else 1):  # that tell something
        ways = math.comb(repetitions, points) * _chance(count * count * of_few, prime) ** (repetitions - points)
        total += ways * sum(min(many * _chance(deep, prime) ** points, 1) for many, deep in pairs)

    def vanishes(degree: int) -> float:
        return _chance(degree + min(count, degree) * count * of_few, prime)

    if not domain.nested:
        total = min(total, sum(many * vanishes(deep) ** repetitions for many, deep in ((1, degree), *pairs)))
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
