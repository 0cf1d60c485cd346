"""A point of a pair for all sizes: its declared arguments with symbols for the sizes of the case and of mesh axes.

The reference runs on one device, as in proofs of one shape. A variant whose code never looks at the mesh is one program
for every number of devices, in auto mode; any other is traced for the mesh of the point, with the number of devices as
it is there. Every other size is a symbol, but for those that a side's code needs as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from samebits.errors import NotCovered
from samebits.interpret.inner_equations import equations
from samebits.prove.all_sizes import SizesProof, prove_all_sizes
from samebits.prove.mesh_queries import mesh_queries
from samebits.prove.same_program import same_on_one_device
from samebits.prove.size_attempts import Attempt, PairPoint, attempts, axis_sizes, covers, numbers_on, symbols_of
from samebits.prove.size_family import Family
from samebits.prove.size_of_case import SymbolicMesh
from samebits.prove.size_tracing import traced
from samebits.schema.all_sizes import SizesShown
from samebits.schema.meshes import MeshSpec


@dataclass(frozen=True, slots=True)
class PairProof:
    """What is shown of a point of a pair.

    Args:
        leaves: of the whole family, one proof for each output.
        shapes: by argument, its shape as a text of symbols.
        fixed: the sizes that are numbers, because code of a side needs them.
        mesh: the mesh whose devices it is for; None for every number of devices.
        why_mesh: why it is for one mesh alone.
        one_program: both sides are one program on one device, at every size.
        sizes: by the name of a size of the case that is a symbol, its expression.
        axes: by the name of a mesh axis that is a symbol, its expression.
        statics: by static argument that is a size, its expression.
    """

    leaves: tuple[SizesProof, ...]
    shapes: Mapping[str, str]
    fixed: Mapping[str, int]
    sizes: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    statics: Mapping[str, str] = field(default_factory=dict)
    mesh: str | None = None
    why_mesh: str | None = None
    one_program: bool = False

    def family(self, leaf: SizesProof) -> SizesShown:
        """The sizes that the proof of a leaf is about."""
        return SizesShown(
            shapes=self.shapes,
            statics=self.statics,
            axes={name: text for name, text in self.axes.items() if text != name},
            conditions=leaf.conditions,
            fixed=self.fixed,
            mesh=self.mesh,
            why_mesh=self.why_mesh,
            one_program=self.one_program and for_all(leaf) is not None,
            counterexample=dict(leaf.sizes),
        )


def for_all(leaf: SizesProof) -> Literal["proved", "rounding"] | None:
    """What is shown of a leaf for all sizes."""
    return leaf.verdict if leaf.verdict in ("proved", "rounding") else None


class PairSizes:
    """Proves points of pairs for all sizes; what holds for every number of devices is shown once.

    Args:
        most_fixed: how many sizes of a case may be numbers, where code needs them.
    """

    def __init__(self, most_fixed: int = 3) -> None:
        self._most_fixed = most_fixed
        self._everywhere: dict[tuple[str, ...], tuple[PairProof, Family] | str] = {}
        self._one_program: dict[tuple[str, ...], PairProof | None] = {}

    def prove(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        """Prove a point on a mesh, in auto mode for every number of devices if its code does not ask for it.

        On one device, what is one program has the same bits, whatever it computes.

        Args:
            point: the point.
            mesh: of the point.
        """
        proof = self._shown(point, mesh)
        if not any(leaf.verdict in ("rounding", "error") for leaf in proof.leaves) or point.case.transform is not None:
            return proof
        key = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction, point.mode)
        if key not in self._one_program:
            self._one_program[key] = one_program(point, mesh.single, self._most_fixed)
        alone = self._one_program[key]
        if alone is not None and mesh.devices == 1:
            return alone
        return proof if alone is None else replace(proof, one_program=True)

    def _shown(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        if point.case.transform is not None:
            return _undecided(f"both sides are under {point.case.transform}")
        if point.variant in point.pair.adapt and set(symbols_of(point).expressions) & set(point.case.statics):
            return _undecided("its arguments are adapted, which may compute with static arguments that are sizes")
        if point.mode == "explicit":
            return self._on_mesh(point, mesh, "shardings are part of types in explicit mode")
        key = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction)
        if key not in self._everywhere:
            self._everywhere[key] = self._on_every_mesh(point, mesh)
        everywhere = self._everywhere[key]
        if not isinstance(everywhere, str):
            proof, family = everywhere
            if covers(family, point, mesh):
                return proof
            everywhere = "the shapes of the case depend on the mesh by more than sums and products"
        if not mesh.axes:
            return self._on_mesh(point, mesh, None)
        return self._on_mesh(point, mesh, everywhere)

    def _on_every_mesh(self, point: PairPoint, mesh: MeshSpec) -> tuple[PairProof, Family] | str:
        if point.case.context_meshes:
            return "the mesh is an argument"
        if point.variant in point.pair.adapt and axis_sizes(point.case):
            return "its arguments are adapted, which may compute with the sizes of mesh axes"
        why = ""
        for attempt in attempts(point, SymbolicMesh.over(mesh, point.case, symbols_of(point)), self._most_fixed):
            try:
                with mesh_queries() as places:
                    program = traced(attempt.functions[1], attempt.family, point.direction)
                if any(equation.primitive.name == "shard_map" for equation in equations(program.closed.jaxpr)):
                    return "it has a mesh of its own"
                traced(attempt.functions[0], attempt.family, point.direction)
            except NotCovered as error:
                why = why or str(error)
                if not places:
                    continue
            if places:
                return f"{places[0]} asks for the mesh"
            if not program.comparisons:
                return _proof(attempt, point), attempt.family
            with mesh_queries() as places:  # the programs of other sizes may ask for it
                proof = _proof(attempt, point)
            return f"{places[0]} asks for the mesh at some sizes" if places else (proof, attempt.family)
        return why or "there is no size to prove it for"

    def _on_mesh(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> PairProof:
        why = ""
        if numbers_on(point, mesh) is None:
            return _undecided(f"no value of the symbols gives the sizes of the case and of mesh {mesh.id}")
        for attempt in attempts(point, mesh, self._most_fixed):
            try:
                for function in attempt.functions:
                    traced(function, attempt.family, point.direction)
            except NotCovered as error:
                why = why or str(error)
                continue
            return replace(_proof(attempt, point), mesh=mesh.id if mesh.axes else None, why_mesh=why_mesh)
        return _undecided(why or "the case has no sizes")


def one_program(point: PairPoint, mesh: MeshSpec, most_fixed: int = 3) -> PairProof | None:
    """The proof that both sides of a point are one program at every size; None where they are not shown to be.

    Args:
        point: the point.
        mesh: of one device.
        most_fixed: how many sizes of the case may be numbers.
    """
    if numbers_on(point, mesh) is None:
        return None
    for attempt in attempts(point, mesh, most_fixed):
        declared = attempt.family.at({**(numbers_on(point, mesh) or {}), **attempt.fixed})
        families = attempt.family, declared
        try:
            sides = [[traced(side, family, point.direction) for side in attempt.functions] for family in families]
        except NotCovered:  # code needs one more number
            continue
        # jax itself chooses other operations for symbols here and there, so the numbers of the case are asked too.
        if any(first.comparisons or second.comparisons for first, second in sides):
            return None
        if not all(same_on_one_device(first.closed, second.closed) for first, second in sides):
            return None
        lowest = tuple(f"{name} >= {low}" for name, low in attempt.family.free.items())
        leaves = [SizesProof(leaf, "proved", lowest) for leaf in sides[0][0].outputs]
        return replace(_proof_of(attempt, leaves), mesh=mesh.id, why_mesh="one device", one_program=True)
    return None


def _undecided(why: str) -> PairProof:
    return PairProof((SizesProof("*", "error", reason=why),), {}, {})


def _proof(attempt: Attempt, point: PairPoint) -> PairProof:
    return _proof_of(attempt, prove_all_sizes(*attempt.functions, attempt.family, point.direction))


def _proof_of(attempt: Attempt, leaves: Sequence[SizesProof]) -> PairProof:
    shapes = {name: f"{arg.dtype}[{', '.join(map(str, arg.shape))}]" for name, arg in attempt.family.args.items()}
    return PairProof(tuple(leaves), shapes, attempt.fixed, attempt.sizes, attempt.axes, attempt.statics)
