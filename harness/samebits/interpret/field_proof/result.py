"""The result of a proof over finite fields for one output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from samebits.errors import NotCovered, not_interpreted
from samebits.schema.assumption import Assumption, words_of

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

    def refuted(self, witness: str, gap: float) -> FieldIdentity:
        """The same output, shown to be another formula by a witness."""
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
