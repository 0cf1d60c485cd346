"""Proof by labels: both programs only move data, and put the same element into the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import FINITE, TOUCHED, ZERO_ADDED, Codes, Labels
from samebits.interpret.problem import Question, first_place
from samebits.schema.domain import Fact, RequiredFact

_NEEDS: tuple[tuple[int, tuple[Fact, ...]], ...] = (
    (FINITE, ("finite",)),
    (ZERO_ADDED, ("no_negative_zero", "no_subnormal", "no_signalling_nan")),
    (TOUCHED, ("no_nan", "no_subnormal")),
)
"""What must hold of an element for its bits to survive what its label went through: see the flags in `labels`."""


@dataclass(frozen=True, slots=True)
class LabelIdentity:
    """What the labels say of one output.

    Args:
        equal: the same element in every place.
        elements: how many there are.
        promises: what must hold of the inputs for the bits to be equal; none: they are for all inputs.
        witness: the first place that differs, with what stands there on both sides.
        products: whether a side moves elements by products with one-hot matrices, which must keep their floats.
    """

    equal: bool
    elements: int
    promises: tuple[RequiredFact, ...] = ()
    witness: str | None = None
    products: bool = False


class LabelProver:
    """A reference walked with labels, to hold variants against.

    Args:
        question: the reference and its inputs; each variant's question must have the same.

    Raises:
        NotCovered: the reference does more than move data; the text names the equation.
    """

    def __init__(self, question: Question) -> None:
        self._domain = Labels(question.platform)
        self._args = [
            one.values if one.steers else self._domain.input(one.name, one.kind(aval))
            for one, aval in zip(question.inputs, question.reference.in_avals, strict=True)
        ]
        self._reference = self._walked(question.reference, question)
        self._products = self._domain.products

    def movement(self, question: Question) -> dict[str, LabelIdentity]:
        """Walk a variant with labels and compare these, output by output.

        Raises:
            NotCovered: the variant does more than move data; the text names the equation.
            NothingCompared: no output holds an element of an input.
        """
        before = self._domain.products
        variant = self._walked(question.variant, question)
        products = self._products + self._domain.products - before > 0
        found, moved = {}, False
        for number, name in enumerate(question.outputs):
            different = question.mismatch(number)
            if different is not None:
                found[name] = LabelIdentity(False, 0, witness=f"{name}: {different}")
                continue
            kind = question.types(question.reference)[number]
            one, two = (self._domain.codes(side[number], kind) for side in (self._reference, variant))
            names = self._domain.names(one)
            moved = moved or bool(np.any(names >= 0) or np.any(self._domain.is_term(names)))
            others = self._domain.names(two)
            differs = names != others
            if np.any(self._domain.is_term(names[differs]) | self._domain.is_term(others[differs])):
                raise NotCovered(f"'{name}' is computed by different operations; labels cannot tell whether they agree")
            if differs.any():
                at = first_place(differs)
                here, there = (self._domain.words(int(side[at])) for side in (one, two))
                place = f"{name}[{', '.join(map(str, at))}]"
                found[name] = LabelIdentity(
                    False, one.size, witness=f"{place} is {here} in the reference and {there} in the variant"
                )
            else:
                found[name] = LabelIdentity(True, one.size, promises=self._promises(one, two), products=products)
        if not moved:
            raise NothingCompared("no output holds an element of an input; there is no movement to prove")
        return found

    def _walked(self, program: Any, question: Question) -> Sequence[Any]:
        return Interpreter(self._domain, question.platform)(program, *self._args)

    def _promises(self, one: Codes, two: Codes) -> tuple[RequiredFact, ...]:
        """What must hold where either side did more to an element than to move it.

        Where both did the same, a compiler may still leave out one of them: XLA drops the addition of a literal zero.
        """
        flags = (one | two) % 8
        found: list[RequiredFact] = []
        for flag, facts in _NEEDS:
            codes = one[(flags & flag) != 0]
            subjects = list(dict.fromkeys(self._domain.sources(codes)))
            for term in self._domain.terms(codes):  # of the operands or of the result: a label does not say which
                made = self._domain.sources(np.array(term[2:], np.int64))
                subjects.append(f"{term[0]} of {' and '.join(dict.fromkeys(made))}")
            for fact in facts:
                for subject in dict.fromkeys(subjects):
                    needed = RequiredFact(fact, subject)
                    if needed not in found and not _follows(needed, found):
                        found.append(needed)
        return tuple(found)


def _follows(needed: RequiredFact, found: Sequence[RequiredFact]) -> bool:
    """Whether a fact follows from those that are needed already."""
    return any(one.subject == needed.subject and one.implies(needed.fact) for one in found)


def movement(question: Question) -> dict[str, LabelIdentity]:
    """Hold one variant against its reference by labels.

    Raises:
        NotCovered: a side does more than move data; the text names the equation.
        NothingCompared: no output holds an element of an input.
    """
    return LabelProver(question).movement(question)
