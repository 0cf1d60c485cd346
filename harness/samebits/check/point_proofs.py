"""Proofs of one point of a sweep: data movement, the same compiled program, formulas, machine independence.

In: a point with its programs traced. Out: what is proved of the point or of one of its leaves. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from samebits.check.execution import Execution, MovementProof, PendingPoint
from samebits.check.outcome import LeafOutcome
from samebits.errors import BrokenPromise, CouldNotRun, NotCovered
from samebits.host.isolation import note
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.field_proof.result import of_movement
from samebits.interpret.float64_differences import outputs_of
from samebits.interpret.given_integers import like_given
from samebits.interpret.inner_equations import equations
from samebits.interpret.kernel_memory import program_memory
from samebits.interpret.kernels import copies
from samebits.interpret.machine_independence import Independence, independence_at_all_inputs
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question
from samebits.numerics.bits import Comparison
from samebits.programs.program_cache import Program
from samebits.prove.prover import Prover, Unproved
from samebits.schema.assumption import words_of
from samebits.schema.domain import RequiredFact

if TYPE_CHECKING:
    pass


class PointProofs:
    """Proofs of the points of one pair; the proofs of the latest point are cached."""

    def __init__(self, execution: Execution, prover: Prover) -> None:
        self.execution = execution
        self.prover = prover
        self._independence: tuple[PendingPoint | None, dict[str, Independence] | str] = (None, {})
        self._questions: tuple[PendingPoint | None, dict[str, Question]] = (None, {})
        self._digests: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def questions(self, job: PendingPoint) -> dict[str, Question]:
        """Return the question at each input of a point, by its label."""
        if self._questions[0] is job:
            return self._questions[1]
        reference = self.execution.pair.reference_name
        inputs = self.execution.inputs(job.alone, reference, job.point.direction)
        questions = self.prover.questions(job.point.direction, job.alone, job.point.variant, job.on_mesh, inputs)
        self._questions = job, questions
        return questions

    def movement(self, job: PendingPoint) -> MovementProof:
        """Return whether labels prove every leaf of a point, for the routing of each of its records."""
        if job.movement is None:
            job.movement = self._movement(job)
        return job.movement

    def _movement(self, job: PendingPoint) -> MovementProof:
        promises: dict[str, tuple[RequiredFact, ...]] = {}
        question, products, only_moved = None, False, True
        for question in self.questions(job).values():
            leaves = self.prover.movement(question)
            if isinstance(leaves, Unproved):
                return MovementProof()
            if not all(proof.equal for proof in leaves.values()):
                return MovementProof(denied=tuple(leaf for leaf, proof in leaves.items() if not proof.equal))
            for leaf, proof in leaves.items():
                promises[leaf] = tuple(dict.fromkeys((*promises.get(leaf, ()), *proof.promises)))
                products = products or proof.products
                only_moved = only_moved and proof.only_moved
        routing = like_given(question, question.routing) if question is not None else ()
        assumed = words_of(of_movement(None, routing, products))
        return MovementProof(question is not None, promises, routing, assumed, only_moved and not products)

    def same_program(self, job: PendingPoint) -> bool:
        """Return whether the reference alone and the variant on its mesh are compiled to the same program.

        This reason for equal bits is independent of the processor: the programs are equal after XLA's passes and before
        code generation, and the passes that make two programs equal (inlining, common subexpression elimination, dead
        code elimination) do not depend on the instruction set. It holds for this backend and this version of XLA.

        The programs can only be equal on a mesh of one device, because partitioned programs have other shapes. The
        result is False, and the verdict falls to the next rung, where the backend does not expose its programs, or
        exposes them in an unknown format, or where a program calls back into Python: then only the addresses of the
        callbacks could be compared. Kernels must be the same: compiled is how a CPU interprets them, and a device that
        runs them sums in another order.
        """
        sides = [job.programs[name] for name in ("alone", "variant")]
        if job.on_mesh.mesh.devices > 1 or any(side.calls_python for side in sides):
            return False
        if sides[0].captured != sides[1].captured or len({_kernels(side.traced.jaxpr) for side in sides}) > 1:
            return False
        try:
            digests = {self._digest(side) for side in sides}
        except (CouldNotRun, RuntimeError, ValueError):  # a backend without HLO: the bits are compared
            return False
        return len(digests) == 1

    def _digest(self, program: Program) -> str:
        """Return the digest of a compiled program, which many points share."""
        compiled = program.result()
        if compiled not in self._digests:
            from samebits.hlo.canonical import ordered_identity
            from samebits.hlo.module import HloModule

            (module,) = compiled.runtime_executable().hlo_modules()
            read = HloModule(module.as_serialized_hlo_module_proto())
            self._digests[compiled] = ordered_identity(read, one_device=True, cuda=self._cuda())
        return self._digests[compiled]

    def _cuda(self) -> bool:
        """Return whether programs run on a GPU of NVIDIA."""
        import jax

        return bool(jax.devices()[0].client.platform_version.startswith("cuda"))

    def field_identity(self, job: PendingPoint, path: str) -> FieldIdentity | Unproved:
        """Return whether a leaf is the same formula on both sides, at the routing of the first record."""
        leaves = self.prover.identity(self.questions(job))
        if isinstance(leaves, Unproved):
            return leaves
        # A variant with another tree structure is compared as a whole; the proof has the leaves of the reference.
        return leaves.get(path, Unproved("the outputs have different tree structures"))

    def counterexample(self, job: PendingPoint, path: str) -> Counterexample | None:
        """Find other values at which a leaf differs, as the programs are written."""
        return self.prover.counterexample(self.questions(job), path)

    def one_way(self, job: PendingPoint) -> list[str]:
        """Return the comparisons that came out one way only at everything tried."""
        return self.prover.one_way(self.questions(job))

    def independence(self, job: PendingPoint, path: str) -> Independence:
        """Return whether a leaf has the same bits on every machine, on both sides and at every input of a point."""
        if self._independence[0] is not job:
            try:
                self._independence = job, independence_at_all_inputs(list(self.questions(job).values()))
            except NotCovered as error:
                self._independence = job, str(error)
        leaves = self._independence[1]
        if isinstance(leaves, str):
            return Independence(False, leaves)
        return leaves.get(path, Independence(False, "the outputs have different tree structures"))


def _kernels(program: Any) -> tuple[str, ...]:
    """Return the Pallas kernels of a program as text."""
    return tuple(str(eqn) for eqn in equations(program) if eqn.primitive.name == "pallas_call")


# What the kernels of a point do wrong with their memory: then no comparison says what a device would compute.
Ask = Callable[[], Mapping[str, Question]]

SHOWN = 3
"""How many faults of a side are said."""


def at_fault(reference: Any, variant: Any, questions: Ask, *, executed: bool) -> LeafOutcome | None:
    """Return the outcome of a point with a kernel that uses its memory wrongly; None where none does.

    Args:
        questions: gives those of the point by input, for what prefetched scalars decide.
        executed: whether the point is one that runs.
    """
    wrong = {"reference": _faults(reference, questions, "reference"), "variant": _faults(variant, questions, "variant")}
    if not any(wrong.values()):
        return None
    said = {side: "; ".join(faults[:SHOWN]) for side, faults in wrong.items() if faults}
    nothing = LeafOutcome(comparison=Comparison(path="*", elements=0), executed=executed)
    if "reference" in said:  # nothing can be held against it
        return replace(nothing, nothing="; ".join(f"a kernel of the {side}: {text}" for side, text in said.items()))
    return replace(nothing, undefined=f"{BrokenPromise.WORD}{said['variant']}")


def _faults(program: Any, questions: Ask, side: str) -> list[str]:
    """Return what is wrong whatever the values are, and at the inputs of the case where scalars or copies decide."""
    memory = program_memory(program)
    for text in memory.unseen:
        note(f"memory of kernels: {text}")
    copied = any(eqn.primitive.name == "pallas_call" and copies(eqn) for eqn in equations(program.jaxpr))
    if memory.faults or not (memory.unknown or copied):
        return [str(fault) for fault in memory.faults]
    try:
        for question in questions().values():
            outputs_of(question, getattr(question, side))
    except BrokenPromise as error:
        return [error.undefined.removeprefix(BrokenPromise.WORD)]
    except NotCovered:
        for text in memory.unknown:
            note(f"memory of kernels: {text}")
    return []
