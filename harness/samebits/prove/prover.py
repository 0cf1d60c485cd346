"""Proofs about the sides of a pair: movement first, then the identity of formulas; proofs are cached.

Nothing is compiled here and no device is needed: programs are traced for abstract meshes of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from samebits.errors import (
    BrokenPromise,
    CouldNotRun,
    DeclarationError,
    MissingRule,
    NotCovered,
    NothingCompared,
    SamebitsError,
    not_interpreted,
)
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.complex_pairs import real_program
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.float64_differences import differences, one_way, values_of
from samebits.interpret.labels import LabelIdentity, LabelProver
from samebits.interpret.other_values import Counterexample, counterexamples
from samebits.interpret.probes import other_jumps
from samebits.interpret.problem import Question
from samebits.programs.asked import Asked, record_all, record_outside, recorded
from samebits.programs.captured_values import equations, own_rules, own_stops
from samebits.programs.inputs import Array, Record, records
from samebits.programs.program_cache import Program
from samebits.programs.shared_state import standing_for
from samebits.programs.sides import SECOND, Site, TracedSides, baseline, on_mesh_of
from samebits.prove.problem import cotangents_of, questions, traced_program
from samebits.schema.assumption import Assumption
from samebits.schema.meshes import MeshSpec

# A variant on meshes with other numbers of devices, where a missing collective or a number written out shows.
SIZES = (1, 2, 3, 4)
"""The numbers of devices that are tried on each axis."""

_APART = 1e-6
"""How far apart values in float64 are, in units of the largest of a leaf, that no order of sums explains."""


def on_other_meshes(
    sides: TracedSides, direction: str, alone: Site, variant: tuple[str, Site], question: Question
) -> dict[str, Counterexample]:
    """Find, by leaf, another number of devices at which a variant differs from the reference on one device."""
    name, site = variant
    if not is_divided(question.variant):
        return {}
    shown: dict[str, Counterexample] = {}
    declared = _declared(sides)
    for mesh in _others(site.mesh, declared):
        there = replace(site, mesh=mesh, built=mesh.abstract(site.mode))
        ends = (sides.pair.reference_name, replace(alone, mesh=mesh)), (name, there)
        try:
            with standing_for(sides.functions[name], site.built, there.built):  # where it has a mesh of its own
                first, second = (real_program(traced_program(sides, direction, *end).traced.jaxpr) for end in ends)
        except (CouldNotRun, DeclarationError):  # noqa: S112  these shapes, or this code, are not for that mesh
            continue
        moved = replace(question, reference=first, variant=second)
        if moved.uneven is None and [aval.shape for aval in first.in_avals] == [
            argument.values.shape for argument in question.inputs
        ]:
            rest = [leaf for leaf in question.outputs if leaf not in shown]
            for leaf, words in differences(moved, rest, _APART).items():
                text = f"{words}, in float64, on mesh '{mesh.id}'"
                shown[leaf] = Counterexample(text, mesh in declared, f"mesh '{mesh.id}'")
    return shown


def is_divided(program: Any) -> bool:
    """Return whether a program is divided by `shard_map`, so that other meshes are tried."""
    return any(equation.primitive.name == "shard_map" for equation in equations(program))


def _declared(sides: TracedSides) -> list[MeshSpec]:
    return [*map(MeshSpec.parse, (*sides.pair.meshes, *sides.pair.wide_meshes))]


def _others(mesh: MeshSpec, declared: Sequence[MeshSpec]) -> Iterator[MeshSpec]:
    """Yield the mesh with other sizes of each axis, except of axes that the pair declares in several sizes."""
    for axis, size in mesh.axes:
        if len({each.size(axis) for each in declared if axis in each.names} - {1}) < 2:
            yield from (mesh.with_devices(axis, number) for number in SIZES if number != size)


def is_first(sides: TracedSides, site: Site) -> bool:
    """Tell whether a point tries other meshes: it is of the first case and dtype, on the first mesh of its axes."""
    several = (mesh for mesh in _declared(sides) if mesh.names == site.mesh.names and mesh.devices > 1)
    pair = sides.pair
    return site.case is pair.cases[0] and site.dtype == pair.dtypes[0] and site.mesh == next(several, None)


# Second derivatives, tried by themselves where a rule or a `stop_gradient` stands on one side alone.
class SecondDerivatives:
    """Compares the second derivatives of a pair's variants with the reference's, each once."""

    def __init__(self, sides: TracedSides, platform: str | None) -> None:
        self._sides = sides
        self._platform = platform
        self._by_variant: dict[str, dict[str, str] | str] = {}
        self._asked: dict[str, Asked] = {}

    def assumption(self, variant: str, argument: str) -> Assumption | None:
        """Return the assumption that second derivatives are not used, where they differ or cannot be compared."""
        if variant not in self._by_variant:
            with recorded(self._asked.setdefault(variant, Asked())):
                try:
                    self._by_variant[variant] = self._tried(variant)
                except SamebitsError as error:
                    self._by_variant[variant] = f"the gradient is differentiated again, which fails: {error}"
        record_all(self._asked[variant])
        known = self._by_variant[variant]
        why, shown = (known, None) if isinstance(known, str) else ("the gradient is differentiated again", known)
        if shown is not None and argument not in shown:
            return None
        text = "first derivatives alone are used"
        return Assumption("derivatives", text, why, counterexample=None if shown is None else shown[argument])

    def _tried(self, variant: str) -> dict[str, str] | str:
        """Say by argument how second derivatives differ, or why they cannot be compared."""
        sides, pair = self._sides, self._sides.pair
        reference, case = pair.reference_name, next((case for case in pair.cases if not case.refuses), pair.cases[0])
        if variant == reference or "second_derivative" in pair.transforms or case.transform is not None:
            return {}
        dtype = "float32" if "float32" in pair.dtypes else pair.dtypes[0]
        mesh, mode = MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0]), pair.modes[0]
        site = Site(case=case, dtype=dtype, mesh=mesh, mode=mode, built=mesh.abstract(mode))
        on_mesh = on_mesh_of(sides, variant, site)
        alone = baseline(sides, on_mesh, runs=False)[0]
        first, second = (sides.forward(*end) for end in ((reference, alone), (variant, on_mesh)))
        if any(program.error is not None for program in (first, second)) or _rules(first) == _rules(second):
            return {}
        alone, on_mesh = (replace(at, case=case.under(SECOND)) for at in (alone, on_mesh))
        if sides.gradient(reference, alone).error is not None:  # then there is none to be kept
            return {}
        inputs = next(iter(records(pair, case, dtype, mesh).values())), cotangents_of(sides, reference, alone)
        question = questions(
            sides,
            direction="gradient",
            reference=(reference, alone),
            variant=(variant, on_mesh),
            inputs={SECOND: inputs},
            platform=self._platform,
        )[SECOND]
        if any(values_of(question, name) is None for name in question.outputs):
            return "the gradient is differentiated again, which cannot be interpreted"
        return differences(question, question.outputs)


def _rules(program: Program) -> frozenset[str]:
    """List what may change a second derivative and leave the first one as it is."""
    return frozenset((*own_rules(program.traced.jaxpr), *own_stops(program.traced.jaxpr)))


@dataclass(frozen=True, slots=True)
class Unproved:
    """Why a method could not decide.

    Args:
        not_interpreted: what could not be interpreted, where that is why.
        undefined: why what the variant alone computes is undefined at these inputs, where that is why.
        at_inputs: it is for these inputs, such as ties or NaN, so that others may decide.
    """

    why: str
    not_interpreted: str | None = None
    undefined: str | None = None
    at_inputs: bool = False


Identities = Mapping[str, FieldIdentity | Unproved]
"""What the fields say, by leaf."""


class Prover:
    """Proves the points of one pair.

    Args:
        platform: whose branches of `lax.platform_dependent` are evaluated; None for the default branches.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding; else it is undecided.
    """

    def __init__(self, sides: TracedSides, platform: str | None, *, assuming: bool = True) -> None:
        self.sides = sides
        self.assuming = assuming
        self.platform = platform
        self._movers: dict[tuple[object, ...], LabelProver | Unproved] = {}
        self._movements: dict[tuple[object, ...], Mapping[str, LabelIdentity] | Unproved] = {}
        self._elsewhere: dict[tuple[object, ...], Mapping[str, Counterexample]] = {}
        self._places: dict[object, tuple[str, Site, tuple[str, Site]]] = {}
        self._identities: dict[tuple[object, ...], Identities | Unproved] = {}
        self._second = SecondDerivatives(sides, platform)

    def questions(
        self,
        direction: str,
        alone: Site,
        variant: str,
        on_mesh: Site,
        inputs: Mapping[str, tuple[Record, Mapping[str, Array]]],
    ) -> dict[str, Question]:
        """The question whether a variant on a mesh is the reference on one device, at each input by its label."""
        by_label = questions(
            self.sides,
            direction=direction,
            reference=(self.sides.pair.reference_name, alone),
            variant=(variant, on_mesh),
            inputs=inputs,
            platform=self.platform,
        )
        if is_first(self.sides, on_mesh):
            self._places[ByIdentity(next(iter(by_label.values())).variant)] = direction, alone, (variant, on_mesh)
        return by_label

    def question(
        self, direction: str, alone: Site, variant: str, on_mesh: Site, record: Record, cotangents: Mapping[str, Array]
    ) -> Question:
        """Return the question at one input."""
        return self.questions(direction, alone, variant, on_mesh, {"": (record, cotangents)})[""]

    def movement(self, question: Question) -> Mapping[str, LabelIdentity] | Unproved:
        """Return whether both sides only move data, and to the same places, by leaf."""
        key = (ByIdentity(question.reference), ByIdentity(question.variant), _digest_of_index_operands(question))
        if key not in self._movements:
            self._movements[key] = self._moved(question, (key[0], key[2]))
        return self._movements[key]

    def _moved(self, question: Question, reference: tuple[object, ...]) -> Mapping[str, LabelIdentity] | Unproved:
        if len(self._movers) > 64:
            self._movers.clear()
        uneven = question.uneven
        if uneven is not None:
            return Unproved(uneven)
        try:
            if reference not in self._movers:
                self._movers[reference] = LabelProver(question)
            mover = self._movers[reference]
            return mover if isinstance(mover, Unproved) else mover.movement(question)
        except NotCovered as error:
            if reference not in self._movers:
                self._movers[reference] = Unproved(str(error))
            return Unproved(str(error))
        except NothingCompared as error:
            return Unproved(str(error))

    def identity(self, questions: Mapping[str, Question]) -> Identities | Unproved:
        """Return whether both sides compute the same formulas at the first inputs, by leaf.

        Given arrays are often all ones or zeros. Where these separate formulas that other inputs might not, and where
        they separate nothing, their variation decides. Where nothing can be said at them, as at a tie, it may show
        other formulas; equal ones there prove nothing of the given arrays.
        """
        first, varied = next(iter(questions.values())), questions.get("varied")
        proofs = self._at(first)
        if varied is None:
            return proofs
        known = [proofs] if isinstance(proofs, Unproved) else proofs.values()
        others = self._at(varied) if any(map(_depends_on_inputs, known)) else proofs
        if isinstance(others, Unproved):
            return proofs
        decided: dict[str, FieldIdentity | Unproved] = {}
        decided |= dict.fromkeys(others, proofs) if isinstance(proofs, Unproved) else proofs
        for leaf, proof in decided.items():
            other = others[leaf]
            if isinstance(other, Unproved) or not _depends_on_inputs(proof):
                continue
            as_good = other.equal or other.undecided
            if not as_good if isinstance(proof, Unproved) else proof.undecided or as_good:
                decided[leaf] = other
        return decided

    def derivatives(self, direction: str, variant: str, leaf: str) -> Callable[[], Assumption | None] | None:
        """Say what is assumed of the second derivatives of a gradient; None of forward outputs."""
        return partial(self._second.assumption, variant, leaf) if direction == "gradient" else None

    def counterexample(self, questions: Mapping[str, Question], leaf: str) -> Counterexample | None:
        """Find other values than those of the first inputs at which both sides differ in a leaf."""
        question = next(iter(questions.values()))
        key = (ByIdentity(question.reference), ByIdentity(question.variant), _digest(question))
        if ByIdentity(question.variant) in self._places and is_divided(question.variant):
            record_outside("it is traced on other meshes")
        if key not in self._elsewhere:
            self._elsewhere[key] = {} if question.uneven is not None else self._counterexamples(question)
        return self._elsewhere[key].get(leaf)

    def _counterexamples(self, question: Question) -> Mapping[str, Counterexample]:
        """By leaf, other inputs or another number of devices; those that may be given come first."""
        others, place = counterexamples(question), self._places.get(ByIdentity(question.variant))
        meshes = {} if place is None else on_other_meshes(self.sides, *place, question)
        return {**meshes, **others, **{leaf: other for leaf, other in meshes.items() if other.allowed}}

    def one_way(self, questions: Mapping[str, Question]) -> list[str]:
        """Return the comparisons that came out one way only at all inputs at which both sides were evaluated."""
        return one_way(next(iter(questions.values())))

    def _at(self, question: Question) -> Identities | Unproved:
        key = (ByIdentity(question.reference), ByIdentity(question.variant), _digest(question))
        uneven = question.uneven
        if uneven is not None:
            return Unproved(uneven)
        if key not in self._identities:
            try:
                proofs = identity(question, seed=self.sides.pair.name)
                self._identities[key] = self._with_jumps(question, {name: self._of(proofs[name]) for name in proofs})
            except BrokenPromise as error:
                undefined = error.undefined if error.by_variant else None
                self._identities[key] = Unproved(str(error), None if undefined else str(error), undefined)
            except NotCovered as error:
                lasting = isinstance(error, MissingRule)
                unproved = Unproved(str(error), not_interpreted(error), at_inputs=not lasting)
                proved = self._with_jumps(question, dict.fromkeys(question.outputs, unproved))
                self._identities[key] = proved if any(proof is not unproved for proof in proved.values()) else unproved
        return self._identities[key]

    def _with_jumps(
        self, question: Question, proofs: Mapping[str, FieldIdentity | Unproved]
    ) -> dict[str, FieldIdentity | Unproved]:
        """Return the same, where integers that the fields say nothing of at these inputs are seen to jump at others."""
        kinds = dict(zip(question.outputs, question.types(question.reference), strict=True))
        lost = [name for name, proof in proofs.items() if isinstance(proof, Unproved) and not kinds[name].is_float]
        lost = [name for name in lost if question.mismatch(question.outputs.index(name)) is None]
        jumps = other_jumps(question, lost, self.sides.pair.name, covered=False)
        refuted = {name: FieldIdentity(False, 0, witness=words, gap=math.inf) for name, words in jumps.items()}
        return {**proofs, **refuted}

    def _of(self, proof: FieldIdentity) -> FieldIdentity | Unproved:
        if proof.not_covered is not None:
            of_inputs = proof.not_interpreted == proof.not_covered  # a rule that is missing is missing everywhere
            return Unproved(proof.not_covered, proof.not_interpreted, at_inputs=of_inputs)
        return proof if self.assuming else proof.unassuming


def _digest_of_index_operands(question: Question) -> str:
    """Return a digest of what a proof by labels depends on: the values of index operands, and which inputs are ones."""
    return digest_of(
        [argument.values for argument in question.inputs if argument.is_index_operand],
        *((argument.name, argument.is_index_operand) for argument in question.inputs),
        *question.outputs,
    )


def _digest(question: Question) -> str:
    """A digest of what a proof over fields depends on: every input, since comparisons and infinities use its values.

    A witness shows these values too, and they distinguish formulas whose residues are equal.
    """
    words = [(argument.name, argument.is_index_operand) for argument in question.inputs]
    return digest_of([argument.values for argument in question.inputs], *words, *question.outputs)


def _depends_on_inputs(proof: FieldIdentity | Unproved) -> bool:
    """Whether formulas are separated for want of elements that may change places, or are not for want of numbers."""
    if isinstance(proof, Unproved):
        return proof.at_inputs
    return proof.undecided != bool(proof.unsure)
