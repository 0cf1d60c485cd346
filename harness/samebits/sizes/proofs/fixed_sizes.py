"""Points whose code needs some sizes as numbers: both sides are tried at other values of these sizes too.

What is proved with a size as a number says nothing of its other values. Where the sides differ at one of the few that
are tried, it is refuted there.
"""

from __future__ import annotations

from dataclasses import replace

from samebits.sizes.proofs.attempts import Attempt, PairPoint
from samebits.sizes.proofs.family_proof import SizesProof
from samebits.sizes.proofs.pair_proof import PairProof, proof_of
from samebits.sizes.proofs.tracing import traced
from samebits.sizes.proofs.witnesses import denied


def with_kept(proof: PairProof, general: Attempt | None, why: str) -> PairProof:
    """Add the sizes that stay as declared because the code of a side needs them as numbers, and why.

    The family `general` has symbols for them, and cannot be traced; None where there is none.
    """
    if general is None:
        return proof
    kept = {name: number for name, number in proof.fixed.items() if name not in general.fixed}
    return replace(proof, kept=kept, why_kept=why if kept else None)


def tried_at_others(proof: PairProof, point: PairPoint, general: Attempt | None, why: str) -> PairProof:
    """Refute a proof with sizes as numbers at other sizes, where the sides differ there."""
    if general is None:
        return proof
    proof = with_kept(proof, general, why)
    sizes, differing = denied(general.functions, general.family, point.direction)
    if not differing:
        return proof
    refuted = {leaf: SizesProof(leaf, "different", sizes=sizes, reason=place) for leaf, place in differing.items()}
    there = replace(proof_of(general, tuple(refuted.values())), mesh=proof.mesh, why_mesh=proof.why_mesh)
    names = [leaf.leaf for leaf in proof.leaves]
    if names == ["*"]:
        names = list(traced(general.functions[0], general.family.at(sizes), point.direction).outputs)
    shown = {leaf.leaf: leaf for leaf in proof.leaves}
    new = [leaf for leaf in names if leaf in refuted and not _is_refuted(shown.get(leaf))]
    leaves = [refuted[leaf] if leaf in new else shown.get(leaf, proof.leaves[0]) for leaf in names]
    return replace(proof, leaves=tuple(leaves), elsewhere={**proof.elsewhere, **dict.fromkeys(new, there)})


def _is_refuted(leaf: SizesProof | None) -> bool:
    return leaf is not None and leaf.verdict == "different"
