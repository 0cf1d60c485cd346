"""Proofs for all sizes beside executed points: where a contract requires them, and where they save executions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from samebits.check.cross_checks import SizeProofs
from samebits.check.execution import MovementProof
from samebits.check.outcome import LeafOutcome
from samebits.errors import CheckerBroken
from samebits.programs.asked import record_outside
from samebits.schema.domain import in_words, not_said, unsaid
from samebits.schema.finding import where
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family_proof import PairProof, SizesProof, for_all
from samebits.sizes.proofs.pair_sizes import PairSizes


class PairSizeProofs(SizeProofs):
    """Proves points of one pair for all sizes, each once.

    Args:
        every: whether all points of variants in auto mode are proved; else those whose contract requires it.
    """

    def __init__(self, pair: Pair, *, every: bool, platform: str | None = None) -> None:
        self._pair, self._every, self._sizes, self._platform = pair, every, PairSizes(), platform
        self._asking = [contract for contract in pair.contracts if contract.sizes == "all"]
        self._proofs: dict[Point, PairProof] = {}

    def of(self, point: Point) -> PairProof | None:
        """Return the proof of a point; None where none is asked for, or none is possible."""
        if not self._wanted(point):
            return None
        record_outside("it is traced at other sizes")
        if point not in self._proofs:
            import jax  # here, so that reading declarations alone does not import it

            case, platform = self._pair.case(point.case), self._platform or jax.default_backend()
            searched = PairPoint(self._pair, point.variant, case, point.dtype, point.direction, platform=platform)
            mesh = MeshSpec.parse(point.mesh)
            proof = self._sizes.prove(searched, mesh)
            # What sums over several devices need of the inputs is not asked here.
            self._proofs[point] = proof if mesh.devices > 1 else replace(proof, devices={})
        return self._proofs[point]

    def prove_movement(self, point: Point) -> bool:
        """Tell whether every leaf of a point has the same bits for all sizes and for every number of devices."""
        proof = self.of(point) if self._every else None
        return proof is not None and proof.shown.mesh is None and all(leaf.verdict == "proved" for leaf in proof.leaves)

    def attached(self, point: Point, movement: MovementProof, outcomes: Iterable[LeafOutcome]) -> list[LeafOutcome]:
        """Return the outcomes of a point, each with what is proved of it for all sizes.

        Raises:
            CheckerBroken: labels deny at its own sizes what is proved for all.
        """
        proof = self.of(point)
        if proof is None:
            return list(outcomes)
        leaves = {leaf.leaf: leaf for leaf in proof.leaves}
        attached = []
        for outcome in outcomes:
            leaf = leaves.get(outcome.comparison.path, proof.leaves[0])
            if leaf.verdict == "proved" and outcome.comparison.path in movement.denied:
                raise CheckerBroken(
                    f"pair '{self._pair.name}': {point}, {leaf.leaf}: proved for all sizes, and at its own it is "
                    "different; please report it"
                )
            why = self._why_not(point, outcome.comparison.path, proof, leaf)
            shown = None if why is not None else for_all(leaf)
            attached.append(
                replace(outcome, for_all=shown, family=proof.family(leaf) if shown else None, no_family=why)
            )
        return attached

    def _why_not(self, point: Point, path: str, proof: PairProof, leaf: SizesProof) -> str | None:
        """Say why a leaf is not shown for all sizes: refuted, undecided, or for inputs beyond the contract's domain."""
        if leaf.verdict == "different":
            return f"{proof.place_of(leaf)}: {leaf.reason}"
        if leaf.verdict == "error":
            return leaf.reason
        contract = self._pair.contract(**where(point), leaf=path, moves=leaf.verdict == "proved")
        missing = unsaid(contract.domain, leaf.promises) if leaf.verdict == "proved" else ()
        return f"it holds for {in_words(missing)}; {not_said(missing)}" if missing else None

    def _wanted(self, point: Point) -> bool:
        case, pair = self._pair.case(point.case), self._pair
        if point.variant == pair.reference_name or point.mode != "auto" or case.refusal(point.variant) is not None:
            return False
        return self._every or any(contract.covers(**where(point), leaf=None) for contract in self._asking)
