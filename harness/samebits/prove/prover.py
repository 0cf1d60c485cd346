"""Proofs about the sides of a pair: movement first, then the identity of formulas; proofs are cached.

Nothing is compiled here and no device is needed: programs are traced for abstract meshes of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from samebits.errors import BrokenPromise, MissingRule, NotCovered, NothingCompared, not_interpreted
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.float64_differences import one_way
from samebits.interpret.jumps import other_jumps
from samebits.interpret.label_proof import LabelIdentity, LabelProver
from samebits.interpret.other_values import Counterexample, counterexamples
from samebits.interpret.problem import Question
from samebits.programs.asked import record_outside
from samebits.programs.inputs import Array, Record
from samebits.programs.sides import Site, TracedSides
from samebits.prove.other_meshes import is_divided, is_first, on_other_meshes
from samebits.prove.problem import questions
from samebits.prove.second_derivatives import SecondDerivatives
from samebits.schema.assumption import Assumption


@dataclass(frozen=True, slots=True)
class Unproved:
    """Why a method could not decide.

    Args:
        why: in words.
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
        sides: the programs.
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
        """The question at one input."""
        return self.questions(direction, alone, variant, on_mesh, {"": (record, cotangents)})[""]

    def movement(self, question: Question) -> Mapping[str, LabelIdentity] | Unproved:
        """Whether both sides only move data, and to the same places, by leaf."""
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
        """Whether both sides compute the same formulas at the first inputs, by leaf.

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
        """Gives what is assumed of the second derivatives of a gradient; None of forward outputs."""
        return partial(self._second.assumption, variant, leaf) if direction == "gradient" else None

    def counterexample(self, questions: Mapping[str, Question], leaf: str) -> Counterexample | None:
        """Other values than those of the first inputs at which both sides differ in a leaf."""
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
        """The comparisons that came out one way only at all inputs at which both sides were evaluated."""
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
        """The same, where integers that the fields say nothing of at these inputs are seen to jump at others."""
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
    """A digest of what a proof by labels depends on: the values of index operands, and which inputs are ones."""
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
