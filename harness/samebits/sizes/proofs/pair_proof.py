"""What is shown of a point of a pair for all sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.schema.all_sizes import DevicesShown, SizesShown
from samebits.schema.domain import RequiredFact
from samebits.sizes.proofs.attempts import Attempt, PairPoint
from samebits.sizes.proofs.family_proof import SizesProof
from samebits.sizes.proofs.tracing import traced
from samebits.sizes.proofs.witnesses import denied


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
