"""A point of a pair for all sizes: its declared arguments with symbols for the sizes of the case and of mesh axes.

The reference runs on one device, as in proofs of one shape. A variant whose code never looks at the mesh is one program
for every number of devices, in auto mode; any other is traced for the mesh of the point, with the number of devices as
it is there. Every other size is a symbol, but for those that a side's code needs as numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from samebits.errors import NotCovered
from samebits.interpret.inner_equations import equations
from samebits.prove.mesh_queries import Query, conditions_of, mesh_queries, other_devices
from samebits.schema.meshes import MeshSpec
from samebits.sizes.proofs.attempts import Attempt, PairPoint, attempts, axis_sizes, covers, numbers_on, symbols_of
from samebits.sizes.proofs.device_numbers import MOST_DEVICES, on_other_numbers
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.family_proof import SizesProof, prove_all_sizes
from samebits.sizes.proofs.fixed_sizes import tried_at_others, with_kept
from samebits.sizes.proofs.mesh_proofs import MeshProofs
from samebits.sizes.proofs.of_case import SymbolicMesh
from samebits.sizes.proofs.pair_proof import PairProof, proof_of, undecided
from samebits.sizes.proofs.symbolic_slices import same_on_one_device
from samebits.sizes.proofs.tracing import traced

ASKS = (" asks for the mesh", " asks for the devices of the process")
"""How the reasons end why a point is proved on one mesh."""


class PairSizes:
    """Proves points of pairs for all sizes; what holds for every number of devices is shown once.

    Args:
        most_fixed: how many sizes of a case may be numbers, where code needs them.
        most_devices: up to which number of devices on each axis of a mesh a proof is asked for, where code asks for it.
    """

    def __init__(self, most_fixed: int = 3, most_devices: int = MOST_DEVICES) -> None:
        self._most_fixed, self._most_devices = most_fixed, most_devices
        self._on_meshes = MeshProofs(most_fixed)
        self._programs: dict[Hashable, Any] = {}
        self._everywhere: dict[tuple[str | None, ...], tuple[PairProof, Family] | str] = {}
        self._one_program: dict[tuple[str | None, ...], PairProof | None] = {}

    def prove(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        """Prove a point on a mesh, in auto mode for every number of devices if its code does not ask for it.

        Where it asks, other numbers of devices on each axis are proved one by one. On one device, what is one program
        has the same bits, whatever it computes.

        Args:
            point: the point.
            mesh: of the point.
        """
        point = replace(point, programs=self._programs)
        proof = self._shown(point, mesh)
        if not any(leaf.verdict in ("rounding", "error") for leaf in proof.leaves) or point.case.transform is not None:
            return proof
        key = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction, point.mode, point.platform)
        if key not in self._one_program:
            self._one_program[key] = one_program(point, mesh.single, self._most_fixed)
        alone = self._one_program[key]
        if alone is not None and mesh.devices == 1 and not any(leaf.verdict == "different" for leaf in proof.leaves):
            return alone
        return proof if alone is None else replace(proof, one_program=True)

    def _shown(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        if point.case.transform is not None:
            return undecided(f"both sides are under {point.case.transform}")
        if point.variant in point.pair.adapt and set(symbols_of(point).expressions) & set(point.case.statics):
            return undecided("its arguments are adapted, which may compute with static arguments that are sizes")
        if point.mode == "explicit":
            return self._on_mesh(point, mesh, "shardings are part of types in explicit mode")
        key = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction, point.platform)
        if key not in self._everywhere:
            # The gradient is that of the program of the other direction, whose code asked already.
            forward = self._everywhere.get((*key[:4], "forward", key[5]))
            does_ask = isinstance(forward, str) and forward.endswith(ASKS)
            self._everywhere[key] = forward if does_ask and forward else self._on_every_mesh(point, mesh)
        everywhere = self._everywhere[key]
        if not isinstance(everywhere, str):
            proof, family = everywhere
            if covers(family, point, mesh):
                return proof
            everywhere = "the shapes of the case depend on the mesh by more than sums and products"
        if not mesh.axes and not any(asks in everywhere for asks in ASKS):
            return self._on_mesh(point, mesh, None)
        return self._on_mesh(point, mesh, everywhere)

    def _on_every_mesh(self, point: PairPoint, mesh: MeshSpec) -> tuple[PairProof, Family] | str:
        if point.case.context_meshes:
            return "the mesh is an argument"
        if point.variant in point.pair.adapt and axis_sizes(point.case):
            return "its arguments are adapted, which may compute with the sizes of mesh axes"
        why, general = "", None
        for attempt in attempts(point, SymbolicMesh.over(mesh, point.case, symbols_of(point)), self._most_fixed):
            try:
                with mesh_queries() as queries:
                    program = traced(attempt.functions[1], attempt.family, point.direction)
                if any(equation.primitive.name == "shard_map" for equation in equations(program.closed.jaxpr)):
                    return "it has a mesh of its own"
                reference = traced(attempt.functions[0], attempt.family, point.direction)
            except NotCovered as error:
                why, general = why or str(error), general or attempt
                if _why_one_mesh(queries) is None:
                    continue
            why_mesh = _why_one_mesh(queries) or _why_one_mesh(reference.asked)
            if why_mesh is not None:
                return why_mesh
            if not program.comparisons:
                proof = self._on_meshes.of_programs(attempt, (reference, program), point).proof
                return tried_at_others(proof, point, general, why), attempt.family
            with mesh_queries() as queries:  # the programs of other sizes may ask for it
                proof = _proof(attempt, point)
            why_mesh = _why_one_mesh(queries)
            if why_mesh is not None:
                return f"{why_mesh} at some sizes"
            return tried_at_others(proof, point, general, why), attempt.family
        return why or "there is no size to prove it for"

    def _on_mesh(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> PairProof:
        shown = self._on_meshes.first(point, mesh, why_mesh)
        other = other_devices(shown.devices_at, mesh.devices)
        if other is not None:
            # Where this process has other devices than the mesh, what differs here need not differ there.
            leaves = [
                SizesProof(leaf.leaf, "error", reason=other) if leaf.verdict == "different" else leaf
                for leaf in shown.proof.leaves
            ]
            shown = replace(shown, proof=replace(shown.proof, leaves=tuple(leaves)))
        if not mesh.axes:
            return shown.proof
        return on_other_numbers(self._on_meshes, point, mesh, shown, self._most_devices)


def one_program(point: PairPoint, mesh: MeshSpec, most_fixed: int = 3) -> PairProof | None:
    """The proof that both sides of a point are one program at every size; None where they are not shown to be.

    Args:
        point: the point.
        mesh: of one device.
        most_fixed: how many sizes of the case may be numbers.
    """
    if numbers_on(point, mesh) is None:
        return None
    why, general = "", None
    for attempt in attempts(point, mesh, most_fixed):
        declared = attempt.family.at({**(numbers_on(point, mesh) or {}), **attempt.fixed})
        families = attempt.family, declared
        try:
            sides = [[traced(side, family, point.direction) for side in attempt.functions] for family in families]
        except NotCovered as error:  # code needs one more number
            why, general = why or str(error), general or attempt
            continue
        # jax itself chooses other operations for symbols here and there, so the numbers of the case are asked too.
        if any(first.comparisons or second.comparisons for first, second in sides):
            return None
        if not all(same_on_one_device(first.closed, second.closed) for first, second in sides):
            return None
        lowest = tuple(f"{name} >= {low}" for name, low in attempt.family.free.items())
        queries = [query for pair in sides for side in pair for query in side.asked]
        conditions = (*lowest, *conditions_of(queries, point.platform))
        leaves = [SizesProof(leaf, "proved", conditions) for leaf in sides[0][0].outputs]
        proof = replace(proof_of(attempt, leaves), mesh=mesh.id, why_mesh="one device", one_program=True)
        return with_kept(proof, general, why)
    return None


def _why_one_mesh(queries: Sequence[Query]) -> str | None:
    """Why what asked so is proved on one mesh; None where it asked for the platform at most, which is a condition."""
    for query in queries:
        if query.asks != {"platform"}:
            return f"{query.place}{ASKS['mesh' not in query.asks]}"
    return None


def _proof(attempt: Attempt, point: PairPoint) -> PairProof:
    return proof_of(attempt, prove_all_sizes(*attempt.functions, attempt.family, point.direction))
