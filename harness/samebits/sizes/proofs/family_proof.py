"""Proofs for every size at once: two functions traced with symbols for sizes, compared place by place.

In: two functions and a family of shapes. Out: proved under printed conditions, refuted at concrete sizes that were
confirmed by evaluating both programs there, or undecided with the reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.errors import NotCovered
from samebits.prove.mesh_queries import conditions_of
from samebits.schema.all_sizes import DevicesShown, SizesShown
from samebits.schema.domain import RequiredFact
from samebits.sizes.places.equality import Doubt, compare
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import Element, Fact
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.attempts import Attempt, PairPoint
from samebits.sizes.proofs.comparisons import SizeComparison, by_answer, where_otherwise
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.tracing import NotTraced, Sides, each_once, other_types, traced
from samebits.sizes.proofs.witnesses import (
    Function,
    candidates,
    denied,
    different_at,
    searched,
    sizes_near_constants,
    small_sizes,
)

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
        asked: how many questions z3 was asked.
    """

    leaf: str
    verdict: Literal["proved", "rounding", "different", "error"]
    conditions: tuple[str, ...] = ()
    promises: tuple[RequiredFact, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    pieces: int = 0
    moved: bool = False
    asked: int = 0


@dataclass(frozen=True, slots=True)
class _Programs:
    """Both functions, and their programs for a family."""

    functions: tuple[Function, Function]
    family: Family
    direction: str
    sides: Sides
    tried: dict[tuple[int, ...], dict[str, str]] = field(default_factory=dict)

    def different_at(self, numbers: Mapping[str, int]) -> dict[str, str]:
        """Return by output that differs at concrete sizes, the first place; asked once."""
        key = tuple(numbers.values())
        if key not in self.tried:
            self.tried[key] = different_at(self.functions, self.family, self.direction, numbers)
        return self.tried[key]


def prove_all_sizes(
    reference: Function,
    variant: Function,
    family: Family,
    direction: str = "forward",
    *,
    depth: int = DEPTH,
    sides: Sides | None = None,
    turn: int | None = None,
) -> list[SizesProof]:
    """Prove that two functions put the same into every place of their outputs, for every size of a family.

    Args:
        reference, variant: take the arguments of the family by position and its static ones by keyword.
        family, direction: the shapes; `forward`, or `gradient`.
        depth: how many comparisons of sizes in traced code are followed one inside the other.
        sides: their programs of this family, where they are traced already.
        turn: which of the concrete sizes what is shown is tried at; None for all of them (see `denied`).

    Returns:
        One proof for each output; a single one for `*` where the programs cannot be compared.
    """
    first, second = each_once((reference, variant))  # several steps below try the same sizes
    functions = first, second
    proofs = _proved(functions, family, direction, depth, sides)
    if any(proof.verdict == "error" for proof in proofs):
        sizes, differing = searched(functions, family, direction)
    elif any(map(_holds_without_values, proofs)):
        sizes, differing = denied(functions, family, direction, turn)
    else:
        differing = {}
    if not differing:
        return proofs
    if proofs[0].leaf == "*":
        outputs = traced(reference, family.at(sizes), direction).outputs
        proofs = [replace(proofs[0], leaf=leaf) for leaf in outputs]
    return [
        SizesProof(proof.leaf, "different", sizes=sizes, reason=differing[proof.leaf])
        if proof.leaf in differing and (proof.verdict == "error" or _holds_without_values(proof))
        else proof
        for proof in proofs
    ]


def _holds_without_values(proof: SizesProof) -> bool:
    """Tell whether something is shown of sizes alone: values that a program is tried with may break a condition."""
    return proof.verdict in ("proved", "rounding") and not any("[...]" in text for text in proof.conditions)


def _proved(
    functions: tuple[Function, Function], family: Family, direction: str, depth: int, sides: Sides | None = None
) -> list[SizesProof]:
    """Return what the programs of a family show of their outputs, and those of its parts where sizes are compared."""
    try:
        first, second = sides or (traced(function, family, direction) for function in functions)
    except NotTraced as error:
        parts = _in_parts(functions, family, direction, depth, error.comparisons)
        return parts or [SizesProof("*", "error", reason=str(error))]
    except NotCovered as error:
        return [SizesProof("*", "error", reason=str(error))]
    programs = _Programs(functions, family, direction, (first, second))
    seen = {str(compared.otherwise or compared.text): compared for s in programs.sides for compared in s.comparisons}
    try:
        different = other_types(Space(family.free), programs.sides)
    except NotCovered as error:  # as of a shape that depends on which size is larger
        different = str(error)
    if different is not None:
        parts = _in_parts(functions, family, direction, depth, tuple(seen.values()))
        return parts or [SizesProof("*", "error", reason=different)]
    proofs = [_of_leaf(programs, number, leaf) for number, leaf in enumerate(first.outputs)]
    if all(proof.verdict == "proved" and not proof.moved for proof in proofs):
        nothing = "no output holds an element of an input; there is nothing to prove"
        return [SizesProof("*", "error", reason=nothing)]
    if any(proof.verdict == "error" for proof in proofs):
        parts = _in_parts(functions, family, direction, depth, tuple(seen.values()))
        if parts and all(proof.verdict != "error" for proof in parts):
            return parts
    return _with_other_answers(programs, proofs, list(seen.values()), depth)


def _of_leaf(programs: _Programs, number: int, leaf: str) -> SizesProof:
    family = programs.family
    space = Space(family.free, family.below, family.equals)
    first, second = (Evaluation(space, side.closed, side.inputs, family.platform) for side in programs.sides)
    try:
        shape = tuple(space.size(size) for size in programs.sides[0].closed.out_avals[number].shape)
        result = compare(space, first, second, number, shape)
        limits = [_text(family, fact) for fact in _limits(space, (*first.assumed, *second.assumed))]
    except NotCovered as error:
        return SizesProof(leaf, "error", reason=str(error), asked=space.questions.asked)
    if isinstance(result, Doubt):
        return replace(_refuted(programs, leaf, space, result), asked=space.questions.asked)
    process = conditions_of((query for side in programs.sides for query in side.asked), family.platform)
    lowest = tuple(f"{name} >= {low}" for name, low in family.free.items())
    return SizesProof(
        leaf,
        "rounding" if result.computed else "proved",
        tuple(dict.fromkeys((*lowest, *space.bounded, *limits, *process, *result.assumed))),
        tuple(dict.fromkeys((*first.promised, *second.promised))),
        pieces=result.pieces,
        moved=result.moved,
        asked=space.questions.asked,
    )


def _limits(space: Space, facts: Iterable[Fact]) -> list[Fact]:
    """Return what has to fit into the integers of the programs, without what follows from the rest."""
    kept: list[Fact] = []
    for fact in dict.fromkeys(facts):
        if not any(space.proves((), fact.polynomial - other.polynomial) for other in kept):
            kept = [other for other in kept if not space.proves((), other.polynomial - fact.polynomial)] + [fact]
    return kept


def _text(family: Family, fact: Fact) -> str:
    """Write a fact in the declared symbols, with its free term on the other side."""
    polynomial = family.declared(fact.polynomial)
    number = dict(polynomial.terms).get((), 0)
    rest = polynomial - number
    text = f"{-rest} <= {number}" if number > 0 else f"{rest} >= {-number}"
    # An index that is an element of an input: it holds for all of them.
    return re.sub(r"\[[^\]]+\]", "[...]", text)


def _refuted(programs: _Programs, leaf: str, space: Space, doubt: Doubt) -> SizesProof:
    """Return concrete sizes at which both programs, evaluated, differ."""
    tried: dict[str, None] = {}
    family = programs.family
    refuted: SizesProof | None = None
    for free in _sizes_to_try(programs, space, doubt):
        numbers = family.numbers(free)
        text = ", ".join(f"{symbol}={number}" for symbol, number in numbers.items())
        if text in tried or (refuted is not None and not family.divides(numbers)):
            continue
        tried[text] = None
        witness = programs.different_at(numbers).get(leaf)
        if witness is not None:
            # Of sizes that differ, those that a mesh divides are preferred: they can be run.
            refuted = refuted or SizesProof(leaf, "different", sizes=numbers, reason=witness)
            if family.divides(numbers):
                return SizesProof(leaf, "different", sizes=numbers, reason=witness)
    if refuted is not None:
        return refuted
    sizes = f" (no difference was met at {'; '.join(tried)})" if tried else ""
    return SizesProof(
        leaf, "error", reason=f"not shown to be equal: {leaf}{doubt}{sizes}{_unbounded(family, space, doubt)}"
    )


def _unbounded(family: Family, space: Space, doubt: Doubt) -> str:
    """Return what to declare where a doubt is about integers of which no bound is known."""
    names = {name for fact in doubt.facts for name in fact.polynomial.variables}
    sources = [space.sources[name] for name in sorted(names & space.sources.keys())]
    for source in sources:
        arg = family.args.get(source.name) if isinstance(source, Element) else None
        if isinstance(source, Element) and arg is not None and arg.below is None and source.index:
            return (
                f"; integers of {source.name} may be any: where all are in [0, n), say so by Arg(below='n'), or to "
                f"samebits.prove by sizes={{'{source.name}': '{', '.join(map(str, arg.shape))}; below n'}}"
            )
    return ""


def _sizes_to_try(programs: _Programs, space: Space, doubt: Doubt) -> Iterator[dict[str, int]]:
    """Yield what z3 says, then small sizes, then these times the most devices that a dimension is split over.

    Where a side stays at 64 from a distance of 64 on, both agree at the first place that z3 names: one more of each
    size is tried too.
    """
    family = programs.family
    named = list(candidates(space, doubt))
    next_ones = [{name: number + 1 for name, number in free.items()} for free in named]
    first = [*named, *small_sizes(family.free), *sizes_near_constants(space, doubt), *next_ones]
    yield from first
    devices = {family.sizes(text).constant or 1 for _, text in family.divided} - {1}
    if devices:
        for free in first:
            yield {name: number * math.lcm(*devices) for name, number in free.items()}


def _in_parts(
    functions: tuple[Function, Function], family: Family, direction: str, depth: int, compared: Sequence[SizeComparison]
) -> list[SizesProof]:
    """Prove the parts of a family with one answer each; nothing where code compares no sizes, or not so deep."""
    for comparison in compared if depth else ():
        parts = by_answer(comparison, family)
        if parts:
            first, *others = [_proved(functions, part, direction, depth - 1) for part in parts]
            proofs = [_without_own(proof, parts[0]) for proof in first]
            for part, inner in zip(parts[1:], others, strict=True):
                proofs = _of_both(proofs, inner, part)
            return proofs
    return []


def _with_other_answers(
    programs: _Programs, proofs: list[SizesProof], compared: Sequence[SizeComparison], depth: int
) -> list[SizesProof]:
    """Weaken proofs by the sizes at which comparisons in traced code have another answer."""
    for comparison in compared:
        families = where_otherwise(comparison, programs.family) if depth else None
        if families is None:
            why = f"{comparison.place} compares {comparison.text}: what it does where that is otherwise is not followed"
            proofs = [_weaker(proof, SizesProof(proof.leaf, "error", reason=why)) for proof in proofs]
            continue
        for family in families:
            proofs = _of_both(proofs, _proved(programs.functions, family, programs.direction, depth - 1), family)
    return proofs


def _of_both(proofs: list[SizesProof], inner: list[SizesProof], part: Family) -> list[SizesProof]:
    """Combine what holds of a family and of a part of it, by output."""
    by_leaf = {proof.leaf: _without_own(proof, part) for proof in inner}
    if proofs[0].leaf == "*" and inner[0].leaf != "*":
        proofs = [replace(proofs[0], leaf=proof.leaf) for proof in inner]
    return [_weaker(proof, by_leaf.get(proof.leaf) or replace(inner[0], leaf=proof.leaf)) for proof in proofs]


def _without_own(proof: SizesProof, part: Family) -> SizesProof:
    """Drop the smallest values of symbols that the declaration does not have."""
    own = {f"{name} >= {part.symbols[name]}" for name in part.own}
    return replace(proof, conditions=tuple(condition for condition in proof.conditions if condition not in own))


_STRENGTH = ("different", "error", "rounding", "proved")


def _weaker(first: SizesProof, second: SizesProof) -> SizesProof:
    """Combine what holds of both parts of a family: the weaker verdict, the conditions of both."""
    weaker = min(first, second, key=lambda proof: _STRENGTH.index(proof.verdict))
    weaker = replace(weaker, asked=first.asked + second.asked)
    if weaker.verdict in ("different", "error"):
        return weaker
    return replace(
        weaker,
        conditions=tuple(dict.fromkeys((*first.conditions, *second.conditions))),
        promises=tuple(dict.fromkeys((*first.promises, *second.promises))),
        pieces=first.pieces + second.pieces,
    )


# What is shown of a point of a pair for all sizes.
@dataclass(frozen=True, slots=True)
class PairProof:
    """What is shown of a point of a pair.

    Args:
        leaves: of the whole family, one proof for each output.
        shown: the family, with all axes of the mesh that are symbols.
        sizes: by the name of a size of the case that is not as declared, its expression.
        devices: by leaf, on which other numbers of devices it holds.
        elsewhere: by leaf that is refuted on another mesh or at other values of fixed sizes alone, the proof there.
    """

    leaves: tuple[SizesProof, ...]
    shown: SizesShown = field(default_factory=SizesShown)
    sizes: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, tuple[DevicesShown, ...]] = field(default_factory=dict)
    elsewhere: Mapping[str, PairProof] = field(default_factory=dict)

    def showing(self, **changes: Any) -> PairProof:
        """Return the same with some of what is shown changed."""
        return replace(self, shown=replace(self.shown, **changes))

    def on_mesh(self, mesh: str | None, why_mesh: str | None) -> PairProof:
        """Name the mesh that the proof is for, also where it is refuted at other sizes."""
        there = {leaf: proof.showing(mesh=mesh, why_mesh=why_mesh) for leaf, proof in self.elsewhere.items()}
        return replace(self.showing(mesh=mesh, why_mesh=why_mesh), elsewhere=there)

    def on_mesh_of(self, leaf: SizesProof) -> PairProof:
        """Return the proof on the mesh that a leaf is about: where it is refuted, that may be another one."""
        return self.elsewhere.get(leaf.leaf, self)

    def place_of(self, leaf: SizesProof) -> str:
        """Say where a leaf is refuted: the sizes, and the mesh where it is not the one of the point."""
        sizes = [f"{name}={number}" for name, number in leaf.sizes.items()]
        there = self.on_mesh_of(leaf).shown.mesh
        return f"{f'on {there} ' if there not in (None, self.shown.mesh) else ''}at {', '.join(sizes)}"

    def with_sums(self, needed: Collection[RequiredFact]) -> PairProof:
        """Leave the proof for more devices only where it takes for granted what their sums need of inputs."""
        devices = dict(self.devices)
        for leaf in self.leaves:
            if leaf.verdict == "proved" and not set(needed) <= set(leaf.promises):
                devices[leaf.leaf] = tuple(shown.on_one for shown in devices.get(leaf.leaf, ()))
        return replace(self, devices=devices)

    def family(self, leaf: SizesProof) -> SizesShown:
        """Return the sizes that the proof of a leaf is about."""
        shown = self.on_mesh_of(leaf).shown
        return replace(
            shown,
            axes={name: text for name, text in shown.axes.items() if text != name},
            conditions=leaf.conditions,
            devices=self.devices.get(leaf.leaf, ()),
            one_program=self.shown.one_program and for_all(leaf) is not None,
            counterexample=dict(leaf.sizes),
        )


def for_all(leaf: SizesProof) -> Literal["proved", "rounding"] | None:
    """Return what is shown of a leaf for all sizes."""
    return leaf.verdict if leaf.verdict in ("proved", "rounding") else None


def proof_of(attempt: Attempt, leaves: Sequence[SizesProof]) -> PairProof:
    """Return the proof of a family of a point, from those of its leaves."""
    shapes = {name: f"{arg.dtype}[{', '.join(map(str, arg.shape))}]" for name, arg in attempt.family.args.items()}
    shown = SizesShown(shapes=shapes, statics=attempt.statics, axes=attempt.axes, fixed=attempt.fixed)
    return PairProof(tuple(leaves), shown, attempt.sizes)


def undecided(why: str) -> PairProof:
    """Say that nothing is shown of any leaf."""
    return PairProof((SizesProof("*", "error", reason=why),))


# Points whose code needs some sizes as numbers: both sides are tried at other values of these sizes too.
def with_kept(proof: PairProof, general: Attempt | None, why: str) -> PairProof:
    """Add the sizes that stay as declared because the code of a side needs them as numbers, and why.

    The family `general` has symbols for them, and cannot be traced; None where there is none.
    """
    if general is None:
        return proof
    kept = {name: number for name, number in proof.shown.fixed.items() if name not in general.fixed}
    return proof.showing(kept=kept, why_kept=why if kept else None)


def tried_at_others(proof: PairProof, point: PairPoint, general: Attempt | None, why: str) -> PairProof:
    """Refute a proof with sizes as numbers at other sizes, where the sides differ there."""
    if general is None:
        return proof
    proof = with_kept(proof, general, why)
    sizes, differing = denied(general.functions, general.family, point.direction)
    if not differing:
        return proof
    refuted = {leaf: SizesProof(leaf, "different", sizes=sizes, reason=place) for leaf, place in differing.items()}
    mesh, why_mesh = proof.shown.mesh, proof.shown.why_mesh
    there = proof_of(general, tuple(refuted.values())).showing(mesh=mesh, why_mesh=why_mesh)
    names = [leaf.leaf for leaf in proof.leaves]
    if names == ["*"]:
        names = list(traced(general.functions[0], general.family.at(sizes), point.direction).outputs)
    shown = {leaf.leaf: leaf for leaf in proof.leaves}
    new = [leaf for leaf in names if leaf in refuted and not _is_refuted(shown.get(leaf))]
    leaves = [refuted[leaf] if leaf in new else shown.get(leaf, proof.leaves[0]) for leaf in names]
    return replace(proof, leaves=tuple(leaves), elsewhere={**proof.elsewhere, **dict.fromkeys(new, there)})


def _is_refuted(leaf: SizesProof | None) -> bool:
    return leaf is not None and leaf.verdict == "different"
