"""Points of pairs proved for all sizes on one mesh; programs that meshes have in common are proved once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from samebits.errors import NotCovered, SamebitsError
from samebits.interpret.inner_equations import equations
from samebits.programs.other_sizes import no_sizes
from samebits.prove.mesh_queries import conditions_of, place_of_devices
from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.attempts import Attempt, PairPoint, attempts, numbers_on
from samebits.sizes.proofs.family_proof import SizesProof, prove_all_sizes
from samebits.sizes.proofs.fixed_sizes import tried_at_others
from samebits.sizes.proofs.pair_proof import PairProof, for_all, proof_of, undecided
from samebits.sizes.proofs.part_of_family import as_part, known_by
from samebits.sizes.proofs.tracing import Sides, traced
from samebits.sizes.proofs.witnesses import denied, searched


@dataclass(frozen=True, slots=True)
class MeshProof:
    """What is shown of a point on a mesh.

    Args:
        proof: of the point.
        attempt: the family that it is for; None where no program could be traced.
        asked: how many questions z3 was asked; 0 where the proof of another mesh holds on this one too.
        operations: of the program of the variant, in order.
        devices_at: the line that asks for the devices of this process, which are then those of no other mesh.
    """

    proof: PairProof
    attempt: Attempt | None = None
    asked: int = 0
    operations: tuple[str, ...] = ()
    devices_at: str | None = None

    @property
    def is_shown(self) -> bool:
        """Whether every leaf is shown for all sizes."""
        return all(for_all(leaf) is not None for leaf in self.proof.leaves)


class MeshProofs:
    """Proves points of pairs on meshes.

    Args:
        most_fixed: how many sizes of a case may be numbers.
    """

    def __init__(self, most_fixed: int) -> None:
        self._most_fixed = most_fixed
        self._by_program: dict[Hashable, tuple[SizesProof, ...]] = {}
        self._by_point: dict[Hashable, MeshProof] = {}

    def first(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> MeshProof:
        """Prove a point for the devices of its mesh, with as few sizes as numbers as its code allows.

        Args:
            point: as declared.
            mesh: of the point.
            why_mesh: why it is for one mesh alone.
        """
        why, general = "", None
        if numbers_on(point, mesh) is None:
            return MeshProof(undecided(f"no value of the symbols gives the sizes of the case and of mesh {mesh.id}"))
        for attempt in attempts(point, mesh, self._most_fixed):
            try:
                sides = _traced(attempt, point)
            except NotCovered as error:
                why, general = why or str(error), general or attempt
                continue
            key = _name_of(point, mesh, attempt)
            if key not in self._by_point:
                shown = self.of_programs(attempt, sides, point)
                self._by_point[key] = replace(shown, proof=tried_at_others(shown.proof, point, general, why))
            return _named(self._by_point[key], mesh, why_mesh)
        nothing = undecided(why or no_sizes(point.pair, point.case, mesh))
        tried = tried_at_others(nothing, point, general, why)
        return _named(MeshProof(tried), mesh, why_mesh) if tried.elsewhere else MeshProof(nothing)

    def of_programs(self, attempt: Attempt, sides: Sides, point: PairPoint) -> MeshProof:
        """Prove two programs; of the same ones, in this or in another dtype that they only move, it is shown once.

        Args:
            attempt: their family.
            sides: the programs.
            point: that they are of.
        """
        program = known_by(attempt.family, sides, point.direction)
        known = self._known(attempt, sides, program)
        # Code may do otherwise in this dtype in ways that tracing does not see, so this one is tried too.
        if known is not None and not denied(attempt.functions, attempt.family, point.direction)[0]:
            return known
        return self._proved(attempt, sides, point, program)

    def on(
        self, point: PairPoint, mesh: MeshSpec, like: MeshProof, others: Sequence[MeshProof], *, asking: bool, turn: int
    ) -> MeshProof | None:
        """Prove a point on another mesh than its own; None where that needs a proof of its own and none is asked for.

        Args:
            point: with its sizes on that mesh.
            mesh: that mesh.
            like: what is shown on the mesh of the point: the same sizes are numbers there.
            others: what is shown on meshes whose programs may be these, for more sizes.
            asking: whether it is proved by itself where no other proof holds for it.
            turn: which concrete size what is proved is tried at (see `denied`).
        """
        fixed = _sizes_of(like.proof.fixed)
        try:
            attempt = next(a for a in attempts(point, mesh, self._most_fixed) if _sizes_of(a.fixed) == fixed)
            key = _name_of(point, mesh, attempt)
            if key not in self._by_point:
                sides = _traced(attempt, point)
                program = known_by(attempt.family, sides, point.direction)
                proof = self._known(attempt, sides, program) or _by_others(attempt, sides, point, others)
                if proof is None and not asking:
                    return None
                self._by_point[key] = proof or self._proved(attempt, sides, point, program, turn)
        except StopIteration:
            return MeshProof(undecided("other sizes are numbers there"))
        except SamebitsError as error:  # of tracing, or of a declaration that does not have this mesh
            return MeshProof(undecided(str(error)))
        return _named(self._by_point[key], mesh, like.proof.why_mesh)

    def fault(self, point: PairPoint, mesh: MeshSpec, like: MeshProof) -> MeshProof:
        """Look for a fault on another mesh, at concrete sizes alone; what is not refuted there is undecided.

        Args:
            point: with its sizes on that mesh.
            mesh: that mesh.
            like: what is left undecided on the mesh of the point: the same sizes are numbers there.
        """
        nothing = MeshProof(undecided("nothing is shown on the mesh of the point, and no fault was met here"))
        fixed = _sizes_of(like.proof.fixed)
        try:
            attempt = next((a for a in attempts(point, mesh, self._most_fixed) if _sizes_of(a.fixed) == fixed), None)
            if attempt is None:
                return nothing
            key = "fault", _name_of(point, mesh, attempt)
            if key not in self._by_point:
                self._by_point[key] = _refuted(attempt, point) or nothing
        except SamebitsError:  # of a declaration that does not have this mesh
            return nothing
        return _named(self._by_point[key], mesh, like.proof.why_mesh)

    def _known(self, attempt: Attempt, sides: Sides, program: Hashable | None) -> MeshProof | None:
        """The proof of another point or mesh that has the same programs of the same shapes (`known_by`)."""
        leaves = None if program is None else self._by_program.get(program)
        return None if leaves is None else MeshProof(proof_of(attempt, leaves), attempt, 0, _operations(sides))

    def _proved(
        self, attempt: Attempt, sides: Sides, point: PairPoint, program: Hashable | None, turn: int | None = None
    ) -> MeshProof:
        leaves = tuple(prove_all_sizes(*attempt.functions, attempt.family, point.direction, sides=sides, turn=turn))
        if program is not None and all(leaf.verdict != "different" for leaf in leaves):
            self._by_program[program] = leaves
        known = [*conditions_of((query for side in sides for query in side.asked), attempt.family.platform)]
        place = place_of_devices([*known, *(text for leaf in leaves for text in leaf.conditions)])
        spent = sum(leaf.asked for leaf in leaves)
        return MeshProof(proof_of(attempt, leaves), attempt, spent, _operations(sides), place)


def _operations(sides: Sides) -> tuple[str, ...]:
    """The operations of the variant: programs of which these are not the same need no closer look."""
    return tuple(equation.primitive.name for equation in equations(sides[1].closed.jaxpr))


def _sizes_of(symbols: Iterable[str]) -> set[str]:
    """The sizes that symbols stand for: of a dimension that is split, in explicit mode, the symbol is of one part."""
    return {symbol.removesuffix("_shard") for symbol in symbols}


def _traced(attempt: Attempt, point: PairPoint) -> Sides:
    first, second = (traced(function, attempt.family, point.direction) for function in attempt.functions)
    return first, second


def _refuted(attempt: Attempt, point: PairPoint) -> MeshProof | None:
    """The refutation of a point at concrete sizes; None where the sides differ at none of those that are tried."""
    sizes, differing = searched(attempt.functions, attempt.family, point.direction)
    if not differing:
        return None
    outputs = traced(attempt.functions[0], attempt.family.at(sizes), point.direction).outputs
    leaves = [
        SizesProof(leaf, "different", sizes=sizes, reason=differing[leaf])
        if leaf in differing
        else SizesProof(leaf, "error", reason="no fault was met here")
        for leaf in outputs
    ]
    return MeshProof(proof_of(attempt, leaves), attempt)


def _by_others(attempt: Attempt, sides: Sides, point: PairPoint, others: Sequence[MeshProof]) -> MeshProof | None:
    """The proof of another mesh that has the same programs, for more sizes than these."""
    operations = _operations(sides)
    for other in others:
        if other.attempt is not None and other.is_shown and other.operations == operations:
            leaves = as_part(other.attempt, other.proof.leaves, attempt, sides, point.direction)
            if leaves is not None:
                return MeshProof(proof_of(attempt, leaves), attempt, 0, operations)
    return None


def _named(shown: MeshProof, mesh: MeshSpec, why_mesh: str | None) -> MeshProof:
    """What is shown, with the mesh for which it is."""
    return replace(shown, proof=shown.proof.on_mesh(mesh.id if mesh.axes or why_mesh else None, why_mesh))


def _name_of(point: PairPoint, mesh: MeshSpec, attempt: Attempt) -> Hashable:
    """A point with its sizes and its mesh."""
    at = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction, point.mode, point.platform)
    return (*at, mesh.id, tuple(point.case.numbers.items()), tuple(attempt.fixed.items()))
