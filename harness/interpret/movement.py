"""Proof by labels: both programs only move data, and put the same element into the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.errors import NotCovered, NothingCompared
from harness.interpret.labels import FINITE, TOUCHED, ZERO_ADDED, Codes, Labels
from harness.interpret.question import Question, first_place
from harness.interpret.walk import Walk


class Promise(NamedTuple):
    """What must hold of the inputs for equal labels to be equal bits.

    Args:
        word: what a contract's domain must mention.
        text: the promise in full.
    """

    word: str
    text: str


_PROMISES = (
    (FINITE, "finite", "{} finite"),
    (
        ZERO_ADDED,
        "-0.0",
        "no -0.0 in {} (nor subnormal numbers and signalling NaN: a zero is added, and may change them)",
    ),
    (TOUCHED, "NaN", "no NaN and no subnormal numbers in {} (a cast or a product by one may change their bits)"),
)


@dataclass(frozen=True, slots=True)
class Movement:
    """What the labels say of one output.

    Args:
        equal: the same element in every place.
        elements: how many there are.
        promises: for which inputs the bits are equal; none: for all.
        witness: the first place that differs, with what stands there on both sides.
        products: whether a side moves elements by products with one-hot matrices, which must keep their floats.
    """

    equal: bool
    elements: int
    promises: tuple[Promise, ...] = ()
    witness: str | None = None
    products: bool = False


class Mover:
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

    def movement(self, question: Question) -> dict[str, Movement]:
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
                found[name] = Movement(False, 0, witness=f"{name}: {different}")
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
                found[name] = Movement(
                    False, one.size, witness=f"{place} is {here} in the reference and {there} in the variant"
                )
            else:
                found[name] = Movement(True, one.size, promises=self._promises(one, two), products=products)
        if not moved:
            raise NothingCompared("no output holds an element of an input; there is no movement to prove")
        return found

    def _walked(self, program: Any, question: Question) -> Sequence[Any]:
        return Walk(self._domain, question.platform)(program, *self._args)

    def _promises(self, one: Codes, two: Codes) -> tuple[Promise, ...]:
        """What must hold where either side did more to an element than to move it.

        Where both did the same, a compiler may still leave out one of them: XLA drops the addition of a literal zero.
        """
        flags = (one | two) % 8
        found: list[Promise] = []
        settled: set[str] = set()
        for flag, word, text in _PROMISES:
            names = self._domain.sources(one[(flags & flag) != 0])
            operations = sorted({term[0] for term in self._domain.terms(one[(flags & flag) != 0])})
            if flag == FINITE:
                settled = set(names)
            elif flag == TOUCHED:
                names = [name for name in names if name not in settled]
            made = f" and in what {' and '.join(operations)} makes of it" if operations else ""
            if names:
                found.append(Promise(word, text.format(" and ".join(names) + made)))
        return tuple(found)


def movement(question: Question) -> dict[str, Movement]:
    """Hold one variant against its reference by labels.

    Raises:
        NotCovered: a side does more than move data; the text names the equation.
        NothingCompared: no output holds an element of an input.
    """
    return Mover(question).movement(question)
