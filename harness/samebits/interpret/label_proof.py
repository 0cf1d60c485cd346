"""Proof by labels: both programs only move data, and put the same element into the same place.

In: a question (two programs and their inputs). Out: a `LabelIdentity` for each output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import FINITE, FLAGS, TOUCHED, ZERO_ADDED, Codes, LabelDomain
from samebits.interpret.problem import Question, first_place
from samebits.schema.domain import Fact, RequiredFact

_NEEDS: tuple[tuple[int, tuple[Fact, ...]], ...] = (
    (FINITE, ("finite",)),
    (ZERO_ADDED, ("no_negative_zero", "no_subnormal", "no_signalling_nan")),
    (TOUCHED, ("no_nan", "no_subnormal")),
)
"""By flag of a code (see `label_table`), the facts required of an element for its bits to be preserved."""


@dataclass(frozen=True, slots=True)
class LabelIdentity:
    """What labels prove of one output.

    Args:
        equal: the same element in every place.
        elements: how many there are.
        promises: the facts required of the inputs for the bits to be equal; if empty, they are equal for all inputs.
        witness: the first place that differs, with the elements of both sides there.
        products: whether a side moves elements by products with one-hot matrices, which must keep their floats.
        only_moved: neither side does more to an element than to move it and to add an exact zero.
    """

    equal: bool
    elements: int
    promises: tuple[RequiredFact, ...] = ()
    witness: str | None = None
    products: bool = False
    only_moved: bool = False


class LabelProver:
    """A reference interpreted with labels, to compare variants with.

    Args:
        question: the reference and its inputs; each variant's question must have the same.

    Raises:
        NotCovered: the reference does more than move data; the text names the equation.
    """

    def __init__(self, question: Question) -> None:
        self._domain = LabelDomain(question.platform)
        self._args = [
            argument.values if argument.is_index_operand else self._domain.input(argument.name, argument.kind(aval))
            for argument, aval in zip(question.inputs, question.reference.in_avals, strict=True)
        ]
        self._reference = self._interpret(question.reference, question)
        self._products = self._domain.products

    def movement(self, question: Question) -> dict[str, LabelIdentity]:
        """Interpret a variant with labels and compare these, output by output.

        Raises:
            NotCovered: the variant does more than move data; the text names the equation.
            NothingCompared: no output holds an element of an input.
        """
        before = self._domain.products
        variant = self._interpret(question.variant, question)
        products = self._products + self._domain.products - before > 0
        table, identities, moved = self._domain.table, {}, False
        for number, name in enumerate(question.outputs):
            different = question.mismatch(number)
            if different is not None:
                identities[name] = LabelIdentity(False, 0, witness=f"{name}: {different}")
                continue
            kind = question.types(question.reference)[number]
            first, second = (table.codes(side[number], kind) for side in (self._reference, variant))
            labels, others = table.labels(first), table.labels(second)
            moved = moved or bool(np.any(labels >= 0) or np.any(table.is_term(labels)))
            differs = labels != others
            if np.any(table.is_term(labels[differs]) | table.is_term(others[differs])):
                raise NotCovered(f"'{name}' is computed by different operations; labels cannot show whether they agree")
            if differs.any():
                at = first_place(differs)
                expected, actual = (table.words(int(codes[at])) for codes in (first, second))
                place = f"{name}[{', '.join(map(str, at))}]"
                identities[name] = LabelIdentity(
                    False, first.size, witness=f"{place} is {expected} in the reference and {actual} in the variant"
                )
            else:
                more_than_moved = table.is_term(labels).any() or ((first | second) & (FINITE | TOUCHED)).any()
                identities[name] = LabelIdentity(
                    True,
                    first.size,
                    promises=self._promises(first, second),
                    products=products,
                    only_moved=not more_than_moved,
                )
        if not moved:
            raise NothingCompared("no output holds an element of an input; there is no movement to prove")
        return identities

    def _interpret(self, program: Any, question: Question) -> Sequence[Any]:
        outputs = Interpreter(self._domain, question.platform)(program, *self._args)
        for name, output in zip(question.outputs, outputs, strict=True):
            if self._domain.is_computed(output):
                raise NotCovered(
                    f"'{name}' has constants that several operations round: their compiler decides the bits"
                )
        return outputs

    def _promises(self, first: Codes, second: Codes) -> tuple[RequiredFact, ...]:
        """The facts required where either side did more to an element than to move it.

        They are required even where both sides did the same, because the compiler may remove the operation from one of
        them: XLA removes the addition of a literal zero.
        """
        table, flags = self._domain.table, (first | second) % FLAGS
        required: list[RequiredFact] = []
        for flag, facts in _NEEDS:
            codes = first[(flags & flag) != 0]
            subjects = list(dict.fromkeys(table.sources(codes)))
            for term in table.terms(codes):  # a label does not distinguish the operands from the result
                sources = table.sources(np.array(term[2:], np.int64))
                subjects.append(f"{term[0]} of {' and '.join(dict.fromkeys(sources))}")
            for fact in facts:
                for subject in dict.fromkeys(subjects):
                    candidate = RequiredFact(fact, subject)
                    if candidate not in required and not _follows(candidate, required):
                        required.append(candidate)
        return tuple(required)


def _follows(candidate: RequiredFact, required: Sequence[RequiredFact]) -> bool:
    """Whether a fact follows from those that are required already."""
    return any(fact.subject == candidate.subject and fact.implies(candidate.fact) for fact in required)


def movement(question: Question) -> dict[str, LabelIdentity]:
    """Compare one variant with its reference by labels.

    Raises:
        NotCovered: a side does more than move data; the text names the equation.
        NothingCompared: no output holds an element of an input.
    """
    return LabelProver(question).movement(question)
