"""The result of a proof over finite fields for one output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from samebits.errors import NotCovered, not_interpreted
from samebits.interpret.field.arithmetic import CONFIRMED
from samebits.interpret.given_integers import like_given
from samebits.interpret.probes import Stretched
from samebits.schema.assumption import Assumption, words_of

if TYPE_CHECKING:
    from samebits.interpret.field.domain import Field
    from samebits.interpret.float64_differences import OverflowReach
    from samebits.interpret.problem import Question


# The assumptions of a proof over finite fields, from what the proof took from the numbers of its case.
_NAMED = 3  # of what is listed by name; the rest is counted


def assumptions(
    question: Question,
    domain: Field,
    reach: OverflowReach | None,
    elsewhere: bool,
    counterexample: str | None = None,
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
        elements: how many there are.
        log2_error: the base-two logarithm of the probability that different formulas were taken for equal.
        repetitions: how many random points.
        degree: of the polynomials compared.
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
