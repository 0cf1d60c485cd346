"""Proofs for every size at once: two functions traced with symbols for sizes, compared place by place.

In: two functions and a family of shapes. Out: proved under printed conditions, refuted at concrete sizes that were
confirmed by evaluating both programs there, or undecided with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.all_sizes.equality import Agreement, Doubt, compare
from samebits.interpret.all_sizes.evaluation import Evaluation
from samebits.interpret.all_sizes.facts import Fact
from samebits.interpret.all_sizes.models import candidates
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.all_sizes.space import Space
from samebits.interpret.label_proof import movement
from samebits.interpret.problem import Input, Question
from samebits.prove.size_comparisons import Comparison
from samebits.prove.size_family import Family, TracedFamily, traced
from samebits.schema.domain import RequiredFact

Function = Callable[..., Any]

MOST_ELEMENTS = 1 << 24
"""The most elements of an argument at which a counterexample is confirmed."""

DEPTH = 3
"""How many comparisons of sizes in traced code are followed one inside the other."""


@dataclass(frozen=True, slots=True)
class SizesProof:
    """What is shown of two functions for a family of shapes.

    Args:
        verdict: `proved` for all sizes under the conditions, `refuted` at `sizes`, or `undecided`.
        conditions: what the proof assumes of the sizes.
        promises: the facts required of the inputs for the bits to be equal.
        sizes: of a counterexample, by symbol.
        reason: the place that differs, or why it is undecided.
        pieces: how many pairs of pieces were compared.
    """

    verdict: Literal["proved", "refuted", "undecided"]
    conditions: tuple[str, ...] = ()
    promises: tuple[RequiredFact, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    pieces: int = 0


def prove_all_sizes(
    reference: Function, variant: Function, family: Family, direction: str = "forward", *, depth: int = DEPTH
) -> SizesProof:
    """Prove that two functions only move data, and to the same places, for every size of a family.

    Args:
        reference, variant: take the arguments of the family by position and its static ones by keyword.
        family: the shapes.
        direction: `forward`, or `gradient`.
        depth: how many comparisons of sizes in traced code are followed one inside the other.
    """
    try:
        sides = [traced(function, family, direction) for function in (reference, variant)]
        proof = _compared(reference, variant, family, direction, sides)
        if proof.verdict != "proved":
            return proof
        return _with_equal_sizes((reference, variant), family, direction, sides, proof, depth)
    except (NotCovered, NothingCompared) as error:
        return SizesProof("undecided", reason=str(error))


def _compared(
    reference: Function, variant: Function, family: Family, direction: str, sides: list[TracedFamily]
) -> SizesProof:
    space = Space(family.free)
    first, second = (Evaluation(space, side.closed, side.inputs) for side in sides)
    different = _other_types(space, sides)
    if different is not None:
        return SizesProof("undecided", reason=different)
    pieces, moved = 0, False
    for number, name in enumerate(sides[0].outputs):
        shape = tuple(space.size(size) for size in sides[0].closed.out_avals[number].shape)
        result = compare(space, first, second, number, shape)
        if isinstance(result, Doubt):
            return _refuted(reference, variant, family, direction, (space, result, name))
        assert isinstance(result, Agreement)
        pieces, moved = pieces + result.pieces, moved or result.moved
    if not moved:
        raise NothingCompared("no output holds an element of an input; there is no movement to prove")
    lowest = tuple(f"{name} >= {low}" for name, low in family.free.items())
    return SizesProof(
        "proved",
        (*lowest, *_limits(space, (*first.assumed, *second.assumed))),
        tuple(dict.fromkeys((*first.promised, *second.promised))),
        pieces=pieces,
    )


def _limits(space: Space, facts: Iterable[Fact]) -> list[str]:
    """What has to fit into the integers of the programs, without what follows from the rest."""
    kept: list[Fact] = []
    for fact in dict.fromkeys(facts):
        if not any(space.proves((), fact.polynomial - other.polynomial) for other in kept):
            kept = [other for other in kept if not space.proves((), other.polynomial - fact.polynomial)] + [fact]
    return list(map(_text, kept))


def _text(fact: Fact) -> str:
    """A fact with its free term on the other side."""
    number = dict(fact.polynomial.terms).get((), 0)
    rest = fact.polynomial - number
    return f"{-rest} <= {number}" if number > 0 else f"{rest} >= {-number}"


def _other_types(space: Space, sides: list[TracedFamily]) -> str | None:
    """How the outputs of two programs differ in number, shape or dtype."""
    first, second = (
        [(tuple(map(space.size, aval.shape)), aval.dtype) for aval in side.closed.out_avals] for side in sides
    )
    if first == second:
        return None
    texts = ["; ".join(f"{dtype}[{', '.join(map(str, shape))}]" for shape, dtype in side) for side in (first, second)]
    return f"the outputs are {texts[0]} and {texts[1]}"


def _refuted(
    reference: Function, variant: Function, family: Family, direction: str, doubtful: tuple[Space, Doubt, str]
) -> SizesProof:
    """Concrete sizes at which both programs, evaluated, differ."""
    space, doubt, name = doubtful
    tried: list[str] = []
    for free in candidates(space, doubt):
        numbers = family.numbers(free)
        if family.elements(numbers) > MOST_ELEMENTS:
            continue
        try:
            witness = differs_at(reference, variant, family, direction, numbers)
        except (NotCovered, NothingCompared):
            continue  # computed from the values of inputs: labels cannot confirm it
        if witness is not None:
            return SizesProof("refuted", sizes=numbers, reason=witness)
        tried.append(", ".join(f"{symbol}={number}" for symbol, number in numbers.items()))
    sizes = f" (equal at {'; '.join(tried)})" if tried else ""
    return SizesProof("undecided", reason=f"{name}{doubt}{sizes}")


def differs_at(
    reference: Function, variant: Function, family: Family, direction: str, numbers: Mapping[str, int]
) -> str | None:
    """The first place at which two functions differ at concrete sizes, by labels; None where none does."""
    sides = [traced(function, family.at(numbers), direction) for function in (reference, variant)]
    inputs = [
        Input(name, np.zeros(aval.shape, aval.dtype))
        for name, aval in zip(sides[0].inputs, sides[0].closed.in_avals, strict=True)
    ]
    question = Question(sides[0].closed, sides[1].closed, inputs, sides[0].outputs)
    identities = movement(question).values()
    return next((identity.witness for identity in identities if not identity.equal), None)


def _with_equal_sizes(
    functions: tuple[Function, Function],
    family: Family,
    direction: str,
    sides: list[TracedFamily],
    proof: SizesProof,
    depth: int,
) -> SizesProof:
    """A proof with the sizes besides that traced code took to be different."""
    seen: dict[Polynomial, Comparison] = {c.difference: c for side in sides for c in side.comparisons}
    conditions, pieces = list(proof.conditions), proof.pieces
    for comparison in seen.values():
        step = _equal_sizes(comparison, family)
        if step == "never":
            continue
        if step is None or depth == 0:
            why = f"{comparison.place} compares sizes: what it does where {comparison.difference} = 0 is not followed"
            return SizesProof("undecided", reason=why)
        inner = prove_all_sizes(*functions, family.where(*step), direction, depth=depth - 1)
        if inner.verdict != "proved":
            return inner
        conditions += [condition for condition in inner.conditions if condition not in conditions]
        pieces += inner.pieces
    return SizesProof("proved", tuple(conditions), proof.promises, pieces=pieces)


def _equal_sizes(comparison: Comparison, family: Family) -> tuple[str, Polynomial] | Literal["never"] | None:
    """A symbol and its value where two sizes are equal; None where no symbol can be isolated."""
    difference, free = comparison.difference.primitive, family.free
    for name in sorted(difference.variables):
        parts = difference.by(name)
        if parts is None or parts[0].constant is None:
            continue
        factor, rest = parts[0].constant, parts[1]
        value = (-rest).quotient(Polynomial() + factor)
        if value is None:
            if rest.constant is not None:
                return "never"
            continue
        if value.constant is None:
            # The other symbol would have to be in the range of this one.
            others = value.terms
            if len(others) != 1 or others[0][1] != 1 or len(others[0][0]) != 1:
                continue
            if free[others[0][0][0]] < free[name]:
                continue
        elif value.constant < free[name]:
            return "never"
        return name, value
    return None
