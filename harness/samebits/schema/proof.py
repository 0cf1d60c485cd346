"""What was proved of one leaf, how and under which assumptions: the record that `samebits prove` publishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.schema.all_sizes import Sizes, SizesShown
from samebits.schema.assumption import Assumption
from samebits.schema.line_difference import LineDifference
from samebits.schema.result import Problem, Verdict, code_of
from samebits.schema.shown import Shown


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofResult(Shown):
    """One proof, or the reason why there is none; published, so keys keep their meaning.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf: as in `Result`.
        verdict: `proved` (the same bits for every input), `rounding` (the same formulas), `different` (refuted),
            `refused` (the expected error), or `error` (neither shown nor refuted).
        required, ok: the contract or the exemption of the leaf, and whether the proof alone reaches it.
        exempt: an exemption of the declaration covers the leaf.
        undeclared: as in `Result`.
        unkept: of `words`, those that the inputs of the case do not keep.
        method: `labels`, `fields`, `all sizes`, `trace` (of expected errors), or none.
        elements: of the leaf.
        domain, words: what must hold of the inputs, as a text and as facts `FACT=INPUT` that a contract's domain must
            state.
        routing: the arguments for whose values alone it holds; over fields, all integers and booleans.
        products: whether labels moved floats by products with one-hot matrices, which keep float32 on a CPU.
        log2_error, points, degree, unknown: of a proof over finite fields: the base-two logarithm of its error
            probability, the random points, the degree of the polynomials, and the calls of uninterpreted functions.
        assumptions: everything that the proof takes for granted, each with how it could be false.
        bound_reference, bound_optimized, likely, loses_most: what rounding can do to each side at most, relative to the
            leaf's largest value; what is likely for the variant; the operation of the variant that can lose most.
        constants: which constants are roundings of others, where the formulas are equal but for these.
        no_movement: the equation that is more than movement.
        witness: where the sides are not the same.
        lines, no_lines: as in `Result`.
        reason: why there is no proof, or why it does not reach the contract.
        sizes: where something is proved, whether that is for `all` sizes of a family or for `these` of the case; None
            where nothing is, and in documents of older versions.
        family: of a proof for all sizes, which these are.
        seconds: for this leaf.
        replay: the command that shows this proof again.
    """

    pair: str = ""
    variant: str
    case: str
    dtype: str
    mesh: str
    mode: str
    direction: str
    leaf: str
    verdict: Verdict
    required: str = ""
    ok: bool = False
    exempt: bool = False
    undeclared: bool | None = None
    method: str | None = None
    elements: int = 0
    domain: str | None = None
    words: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()
    routing: tuple[str, ...] = ()
    products: bool = False
    log2_error: float | None = None
    points: int = 0
    degree: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    bound_reference: float | None = None
    bound_optimized: float | None = None
    likely: float | None = None
    loses_most: str | None = None
    constants: tuple[str, ...] = ()
    no_movement: str | None = None
    witness: str | None = None
    lines: tuple[LineDifference, ...] = ()
    no_lines: str | None = None
    reason: str | None = None
    sizes: Sizes | None = None
    family: SizesShown | None = None
    seconds: float = 0.0
    replay: str = ""

    @property
    def failed(self) -> bool:
        """Whether the proof does not reach the contract."""
        return not self.ok

    @property
    def refutes(self) -> bool:
        """Whether the proof shows that the declaration does not hold: a difference, or none where one is exempted."""
        return not self.ok and (
            self.verdict == "different" or (self.exempt and self.verdict == "proved" and not self.unkept)
        )

    def with_bounds(
        self, reference: float | None, optimized: float | None, likely: float | None, loses_most: str | None
    ) -> ProofResult:
        """The same with rounding bounds."""
        return replace(self, bound_reference=reference, bound_optimized=optimized, likely=likely, loses_most=loses_most)

    def held(self, **against: Any) -> ProofResult:
        """The same, held against a contract."""
        return replace(self, **against)


def exit_code(proofs: Sequence[ProofResult], problems: Iterable[Problem] = (), *, interrupted: bool = False) -> int:
    """Return 0 where every leaf reaches its contract by proof, 1 where one is refuted, 3 where proof does not decide.

    Args:
        proofs: of all leaves.
        problems: the pairs that could not be proved at all.
        interrupted: whether leaves are left.
    """
    short = not proofs or any(not proof.ok for proof in proofs)
    return code_of(problems, failed=any(proof.refutes for proof in proofs), undecided=interrupted or short)
