"""Proofs for every size at once: two functions traced with symbols for sizes, compared place by place.

In: two functions and a family of shapes. Out: proved under printed conditions, refuted at concrete sizes that were
confirmed by evaluating both programs there, or undecided with the reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.all_sizes.equality import Doubt, compare
from samebits.interpret.all_sizes.evaluation import Evaluation
from samebits.interpret.all_sizes.facts import Fact
from samebits.interpret.all_sizes.loop_lengths import longest_scan
from samebits.interpret.all_sizes.models import candidates, sizes_near_constants, small_sizes
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.all_sizes.space import Space
from samebits.interpret.label_proof import movement
from samebits.interpret.problem import Input, Question
from samebits.prove.size_comparisons import SizeComparison
from samebits.prove.size_family import Family, TracedFamily, traced
from samebits.prove.size_values import formulas_differ_at
from samebits.schema.domain import RequiredFact

Function = Callable[..., Any]

MOST_ELEMENTS = 1 << 24
"""The most elements of an argument at which a counterexample is confirmed."""

MOST_ITERATIONS = 1 << 10
"""The most iterations of a loop with which a counterexample is confirmed."""

DEPTH = 3
"""How many comparisons of sizes in traced code are followed one inside the other."""


@dataclass(frozen=True, slots=True)
class SizesProof:
    """What is shown of one output of two functions, for a family of shapes.

    Args:
        leaf: the output; `*` where all are meant.
        verdict: `proved` (the same bits for all sizes under the conditions), `rounding` (the same operations on the
            same elements, for all sizes), `different` at `sizes`, or `error`: neither is shown.
        conditions: what the proof assumes of the sizes, and of integers that select elements.
        promises: the facts required of the inputs for the bits to be equal.
        sizes: of a counterexample, by symbol.
        reason: the place that differs, or why it is undecided.
        pieces: how many pairs of pieces were compared.
        moved: an element of an input is in it.
    """

    leaf: str
    verdict: Literal["proved", "rounding", "different", "error"]
    conditions: tuple[str, ...] = ()
    promises: tuple[RequiredFact, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    pieces: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class _Programs:
    """Both functions, and their programs for a family."""

    functions: tuple[Function, Function]
    family: Family
    direction: str
    sides: tuple[TracedFamily, TracedFamily]


def prove_all_sizes(
    reference: Function, variant: Function, family: Family, direction: str = "forward", *, depth: int = DEPTH
) -> list[SizesProof]:
    """Prove that two functions put the same into every place of their outputs, for every size of a family.

    Args:
        reference, variant: take the arguments of the family by position and its static ones by keyword.
        family: the shapes.
        direction: `forward`, or `gradient`.
        depth: how many comparisons of sizes in traced code are followed one inside the other.

    Returns:
        One proof for each output; a single one for `*` where the programs cannot be compared.
    """
    try:
        first, second = (traced(function, family, direction) for function in (reference, variant))
        different = _other_types(Space(family.free), (first, second))
    except NotCovered as error:
        return [SizesProof("*", "error", reason=str(error))]
    programs = _Programs((reference, variant), family, direction, (first, second))
    if different is not None:
        return [SizesProof("*", "error", reason=different)]
    proofs = [_of_leaf(programs, number, leaf) for number, leaf in enumerate(first.outputs)]
    if all(proof.verdict == "proved" and not proof.moved for proof in proofs):
        nothing = "no output holds an element of an input; there is nothing to prove"
        return [SizesProof("*", "error", reason=nothing)]
    return _with_equal_sizes(programs, proofs, depth)


def _of_leaf(programs: _Programs, number: int, leaf: str) -> SizesProof:
    space = Space(programs.family.free)
    first, second = (Evaluation(space, side.closed, side.inputs) for side in programs.sides)
    try:
        shape = tuple(space.size(size) for size in programs.sides[0].closed.out_avals[number].shape)
        result = compare(space, first, second, number, shape)
        limits = _limits(space, (*first.assumed, *second.assumed))
    except NotCovered as error:
        return SizesProof(leaf, "error", reason=str(error))
    if isinstance(result, Doubt):
        return _refuted(programs, leaf, space, result)
    lowest = tuple(f"{name} >= {low}" for name, low in programs.family.free.items())
    return SizesProof(
        leaf,
        "rounding" if result.computed else "proved",
        (*lowest, *limits, *result.assumed),
        tuple(dict.fromkeys((*first.promised, *second.promised))),
        pieces=result.pieces,
        moved=result.moved,
    )


def _limits(space: Space, facts: Iterable[Fact]) -> list[str]:
    """What has to fit into the integers of the programs, without what follows from the rest."""
    kept: list[Fact] = []
    for fact in dict.fromkeys(facts):
        if not any(space.proves((), fact.polynomial - other.polynomial) for other in kept):
            kept = [other for other in kept if not space.proves((), other.polynomial - fact.polynomial)] + [fact]
    return list(dict.fromkeys(map(_text, kept)))


def _text(fact: Fact) -> str:
    """A fact with its free term on the other side."""
    number = dict(fact.polynomial.terms).get((), 0)
    rest = fact.polynomial - number
    text = f"{-rest} <= {number}" if number > 0 else f"{rest} >= {-number}"
    # An index that is an element of an input: it holds for all of them.
    return re.sub(r"\[[^\]]+\]", "[...]", text)


def _other_types(space: Space, sides: Sequence[TracedFamily]) -> str | None:
    """How the outputs of two programs differ in names, number, shape or dtype."""
    first, second = (
        [
            (name, tuple(map(space.size, aval.shape)), aval.dtype, getattr(aval, "weak_type", False))
            for name, aval in zip(side.outputs, side.closed.out_avals, strict=True)
        ]
        for side in sides
    )
    if first == second:
        return None
    texts = []
    for side in (first, second):
        texts.append(
            "; ".join(
                f"{name} {dtype}[{', '.join(map(str, shape))}]{' of weak type' if weak else ''}"
                for name, shape, dtype, weak in side
            )
        )
    return f"the outputs are not of the same names, shapes and dtypes: {texts[0]} and {texts[1]}"


def _refuted(programs: _Programs, leaf: str, space: Space, doubt: Doubt) -> SizesProof:
    """Concrete sizes at which both programs, evaluated, differ."""
    tried: list[str] = []
    family = programs.family
    refuted: SizesProof | None = None
    for free in _sizes_to_try(programs, space, doubt):
        numbers = family.numbers(free)
        if family.elements(numbers) > MOST_ELEMENTS or (refuted is not None and not family.divides(numbers)):
            continue
        try:
            witness = differs_at(*programs.functions, family, programs.direction, numbers, leaf)
        except NothingCompared:
            continue  # nothing of an input is left at these sizes
        except NotCovered:
            witness = _other_formulas(programs, numbers, leaf)  # labels cannot tell what is computed
        if witness is not None:
            # Of sizes that differ, those that a mesh divides are preferred: they can be run.
            refuted = refuted or SizesProof(leaf, "different", sizes=numbers, reason=witness)
            if family.divides(numbers):
                return SizesProof(leaf, "different", sizes=numbers, reason=witness)
        tried.append(", ".join(f"{symbol}={number}" for symbol, number in numbers.items()))
    if refuted is not None:
        return refuted
    sizes = f" (equal at {'; '.join(tried)})" if tried else ""
    return SizesProof(leaf, "error", reason=f"not shown to be equal: {leaf}{doubt}{sizes}")


def _sizes_to_try(programs: _Programs, space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """What z3 says, then small sizes, then as many times larger as the most devices that a dimension is split over."""
    family = programs.family
    first = [*candidates(space, doubt), *small_sizes(family.free), *sizes_near_constants(space, doubt)]
    yield from first
    devices = {family.sizes(text).constant or 1 for _, text in family.divided} - {1}
    if devices:
        for free in first:
            yield {name: number * math.lcm(*devices) for name, number in free.items()}


def _other_formulas(programs: _Programs, numbers: Mapping[str, int], leaf: str) -> str | None:
    """Where the formulas of an output differ at concrete sizes; None where that is not shown."""
    try:
        return formulas_differ_at(programs.functions, programs.family, programs.direction, numbers, leaf)
    except NotCovered:
        return None  # a side raises at these sizes, or no rule knows what it does


def differs_at(
    reference: Function, variant: Function, family: Family, direction: str, numbers: Mapping[str, int], leaf: str
) -> str | None:
    """The first place at which an output of two functions differs at concrete sizes, by labels; None where none does.

    Args:
        reference, variant: the functions.
        family: of shapes.
        direction: `forward` or `gradient`.
        numbers: by symbol, its value.
        leaf: the output.

    Raises:
        NotCovered: the programs do more than move data.
    """
    sides = [traced(function, family.at(numbers), direction) for function in (reference, variant)]
    longest = max(longest_scan(side.closed.jaxpr) for side in sides)
    if longest > MOST_ITERATIONS:
        raise NotCovered(f"a loop of {longest} iterations; at most {MOST_ITERATIONS} are interpreted")
    inputs = [
        Input(name, np.zeros(aval.shape, aval.dtype))
        for name, aval in zip(sides[0].inputs, sides[0].closed.in_avals, strict=True)
    ]
    question = Question(sides[0].closed, sides[1].closed, inputs, sides[0].outputs)
    identity = movement(question)[leaf]
    return None if identity.equal else identity.witness


def _with_equal_sizes(programs: _Programs, proofs: list[SizesProof], depth: int) -> list[SizesProof]:
    """Proofs with the sizes besides that traced code took to be different."""
    seen = {
        comparison.difference or comparison.text: comparison for s in programs.sides for comparison in s.comparisons
    }
    for comparison in seen.values():
        step = _equal_sizes(comparison, programs.family)
        if step == "never":
            continue
        if step is None or depth == 0:
            why = f"{comparison.place} compares {comparison.text}: what it does where they are equal is not followed"
            proofs = [_weaker(proof, SizesProof(proof.leaf, "error", reason=why)) for proof in proofs]
            continue
        family = programs.family.where(*step)
        inner = prove_all_sizes(*programs.functions, family, programs.direction, depth=depth - 1)
        by_leaf = {proof.leaf: proof for proof in inner}
        proofs = [_weaker(proof, by_leaf.get(proof.leaf) or replace(inner[0], leaf=proof.leaf)) for proof in proofs]
    return proofs


_STRENGTH = ("different", "error", "rounding", "proved")


def _weaker(first: SizesProof, second: SizesProof) -> SizesProof:
    """What holds of both parts of a family: the weaker verdict, the conditions of both."""
    weaker = min(first, second, key=lambda proof: _STRENGTH.index(proof.verdict))
    if weaker.verdict in ("different", "error"):
        return weaker
    return replace(
        weaker,
        conditions=tuple(dict.fromkeys((*first.conditions, *second.conditions))),
        promises=tuple(dict.fromkeys((*first.promises, *second.promises))),
        pieces=first.pieces + second.pieces,
    )


def _equal_sizes(comparison: SizeComparison, family: Family) -> tuple[str, Polynomial] | Literal["never"] | None:
    """A symbol and its value where two sizes are equal; None where no symbol can be isolated."""
    if comparison.difference is None:
        return None
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
