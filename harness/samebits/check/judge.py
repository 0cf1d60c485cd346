"""The ladder of verdicts: the highest verdict that holds for a leaf, compared with its contract.

`check` and `prove` judge here, both of them, so that neither can say what the other denies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from samebits.check.outcome import LeafOutcome
from samebits.check.rounding import COMPILER, RoundingEvidence
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.field_proof.result import of_inputs_tried
from samebits.interpret.float64_differences import values_of
from samebits.interpret.other_values import Counterexample
from samebits.schema.all_sizes import Sizes
from samebits.schema.assumption import Assumption
from samebits.schema.contract import DIFFERENTIATED, Contract, Exemption
from samebits.schema.difference import extent
from samebits.schema.domain import in_words, not_said, unsaid
from samebits.schema.finding import Ruling, where
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.schema.result import ALL_SIZES_REQUIRED, Verdict

SAME_PROGRAM = "both sides are compiled to the same program on one device, here"
"""Evidence that holds for this backend only: no reason to tighten a contract."""

ELSEWHERE = "not so at other inputs"
AT_OTHERS = "not the same at other inputs"
MOVES = "as written both sides only move data"
LAWS = "the fields do not know every law of the functions in it"

_RANK = {"proved": 3, "bitwise": 2, "rounding": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruled:
    """The ruling on one leaf with what it rests on; `check` and `prove` both report it.

    Args:
        ruling: the verdict, held against the declaration.
        sizes: of what is proved, whether that is for all sizes or for these of the case.
        elsewhere: other inputs at which the sides differ: those that decide the verdict, or that perhaps do not occur.
        derivatives: what it assumes of second derivatives.
        against_mesh: the verdict is on the comparison with the reference on the same mesh.
    """

    ruling: Ruling
    sizes: Sizes | None = None
    elsewhere: Counterexample | None = None
    derivatives: tuple[Assumption, ...] = ()
    against_mesh: bool = False

    @property
    def decisive(self) -> Counterexample | None:
        """The inputs that decide the verdict: witness, extent and lines are of these."""
        return self.elsewhere if self.elsewhere is not None and self.elsewhere.allowed else None

    @property
    def noted(self) -> tuple[Assumption, ...]:
        """What the verdict takes for granted of other inputs, and of second derivatives."""
        return (() if self.beyond is None else (of_inputs_tried(self.beyond),)) + self.derivatives

    @property
    def beyond(self) -> str | None:
        """How the sides differ at inputs that perhaps do not occur."""
        return None if self.elsewhere is None or self.elsewhere.allowed else self.elsewhere.words


def rule(pair: Pair, point: Point, outcome: LeafOutcome) -> Ruled:
    """Return the one judgement of a leaf, whether it was executed or only proved.

    A leaf that compared nothing is an `error`, and so is one of which nothing could be decided; one whose side does not
    repeat its bits is `unstable`; equal bits are `bitwise`; other finite floats are `rounding` when the evidence says
    so. What is left is `different`, and has a witness that no rounding explains.
    """
    contract = _contract(pair, point, outcome)
    exemption = pair.exemption(**where(point), leaf=leaf_of(outcome))
    verdict, evidence = _found(outcome, contract)
    if not outcome.assuming:
        verdict, evidence = _unassuming(outcome, verdict, evidence)
    verdict, evidence, other = _elsewhere(outcome, verdict, evidence)
    if verdict == "different" and leaf_of(outcome).endswith(DIFFERENTIATED):
        output = leaf_of(outcome).removesuffix(DIFFERENTIATED)
        evidence = f"'{output}' as the differentiated program returns it is another output: {evidence}"
    ok, required, reason = _held_against(verdict, outcome, contract, exemption)
    if ok and exemption is None and contract.sizes == "all" and point.variant != pair.reference_name:
        ok, reason = _for_all_sizes(outcome, contract, reason)
    if verdict == "error":
        reason = evidence if exemption is None else f"{evidence}; the exemption expects otherwise: {reason}"
        evidence = None
    ruled = Ruled(
        ruling=Ruling(
            verdict=verdict,
            required=required,
            ok=ok,
            reason=reason,
            evidence=evidence,
            exempt=exemption is not None,
            undeclared=exemption is None and contract not in pair.contracts,
            domain=None if contract.domain is None else str(contract.domain),
            machine=_machine(outcome),
        ),
        sizes=_sizes(verdict, outcome),
        elsewhere=other,
        derivatives=_derivatives(outcome, verdict),
    )
    return ruled if point.variant == pair.reference_name else _with_mesh(pair, point, outcome, ruled)


def _machine(outcome: LeafOutcome) -> str | None:
    """Explain why another machine may have other bits, where that was asked."""
    independence = outcome.everywhere
    return None if independence is None or independence.holds else independence.how


def _for_all_sizes(outcome: LeafOutcome, contract: Contract, reason: str | None) -> tuple[bool, str | None]:
    """Return whether what a contract accepts is shown for all sizes, and why not."""
    if outcome.for_all is not None and reaches(outcome.for_all, contract.lowest):
        return True, reason
    shown = "only the formulas are shown for all sizes"
    if outcome.for_all is None:
        shown = "it is shown for the sizes of the case alone"
    return False, f"{shown}, and {ALL_SIZES_REQUIRED}" + (f": {outcome.no_family}" if outcome.no_family else "")


def _sizes(verdict: Verdict, outcome: LeafOutcome) -> Sizes | None:
    """Return for which sizes it is proved: bits where the verdict is `proved`, else formulas."""
    same = outcome.identity is not None and outcome.identity.equal
    if verdict not in ("proved", "bitwise", "rounding") or not (verdict == "proved" or same or outcome.for_all):
        return None
    return "all" if outcome.for_all is not None and (verdict != "proved" or outcome.for_all == "proved") else "these"


def _contract(pair: Pair, point: Point, outcome: LeafOutcome) -> Contract:
    """Return the contract of a leaf; by default, what labels followed on both sides must have its bits."""
    moves = outcome.promises is not None or outcome.apart is not None
    return pair.contract(**where(point), leaf=leaf_of(outcome), moves=moves)


def leaf_of(outcome: LeafOutcome) -> str:
    """Return the leaf that contracts name; replicas of one leaf are under its contract."""
    return outcome.comparison.path.split(" (replica")[0]


def _with_mesh(pair: Pair, point: Point, outcome: LeafOutcome, ruled: Ruled) -> Ruled:
    """Accept what the mesh does to both sides: that is the reference's own row.

    Bits that are equal on the inputs tried are not enough: fields that refute the formulas, of the variant against the
    reference on the same mesh, keep it `different`, and so do other integers at which these differ.
    """
    ruling = ruled.ruling
    if ruling.verdict not in ("rounding", "different") or outcome.undefined is not None or _by_compiler(outcome, ruled):
        return ruled
    own_row = f"see '{pair.reference_name}' on this mesh"
    contract = _contract(pair, point, outcome)
    if outcome.same_on_mesh is not None:
        same = f"the same bits as the reference on this mesh: the mesh moves them, not the variant ({own_row})"
        if ruling.ok or ruling.exempt:
            return replace(ruled, ruling=replace(ruling, evidence=f"{ruling.evidence}; {same}"))
        on_mesh = outcome.same_on_mesh()
        seen = _found(on_mesh, contract)
        verdict, evidence, other = _elsewhere(on_mesh, *seen)
        if seen[0] == "bitwise" and verdict == "different":
            against = f"{evidence}, against the reference on this mesh"
            return replace(ruled, ruling=replace(ruling, verdict=verdict, evidence=against), elsewhere=other)
        if verdict == "bitwise":
            is_moved = ruling.verdict == "rounding"
            moved = "the mesh moves both within rounding" if is_moved else "the sharding changes both: suspect it first"
            ruling = replace(
                ruling,
                verdict="bitwise",
                ok=reaches("bitwise", contract.lowest),
                evidence=f"{same}; {moved}: {ruling.evidence}",
                machine="only against the reference on this mesh are the bits the same",
            )
            other = other if ruled.beyond is None else ruled.elsewhere
            return replace(ruled, ruling=ruling, elsewhere=other, against_mesh=True)
    if ruling.verdict == "different" and outcome.reference_on_mesh is not None:
        own = {**where(point), "variant": pair.reference_name, "leaf": leaf_of(outcome)}
        reference = outcome.reference_on_mesh()
        verdict, evidence, _ = _elsewhere(reference, *_found(reference, pair.contract(**own)))
        if verdict == "different":
            first = f"the sharding: on this mesh the reference itself is different ({evidence}; {own_row})"
            return replace(ruled, ruling=replace(ruling, evidence=f"{first}; here: {ruling.evidence}"))
    return ruled


def reaches(verdict: Verdict, lowest: str) -> bool:
    """Return whether a verdict is at least the rung that a contract names."""
    return _RANK.get(verdict, 0) >= _RANK[lowest]


def _found(outcome: LeafOutcome, contract: Contract) -> tuple[Verdict, str | None]:
    if outcome.nothing is not None:
        return "error", outcome.nothing
    if outcome.unstable is not None:
        return "unstable", f"'{outcome.unstable}' gave other bits when run again on the same input"
    if outcome.undefined is not None:
        return "different", outcome.undefined
    if not outcome.executed:
        return _proven(outcome)
    return _equal(outcome, contract) if outcome.comparison.equal else _unequal(outcome, contract)


def _unassuming(outcome: LeafOutcome, verdict: Verdict, evidence: str | None) -> tuple[Verdict, str | None]:
    """Return what is left of a verdict where no assumption is accepted: what execution shows."""
    same = outcome.identity
    if verdict == "rounding" and same is not None and same.equal and same.assumed:
        return "error", f"could not tell without assumptions ({same.assumed}): {evidence}"
    if verdict == "proved" and not outcome.same_program and outcome.assumed:
        return "bitwise", f"proved only under assumptions ({outcome.assumed}): {evidence}"
    return verdict, evidence


def _elsewhere(
    outcome: LeafOutcome, verdict: Verdict, evidence: str | None
) -> tuple[Verdict, str | None, Counterexample | None]:
    """Return the verdict where other inputs are known at which the sides differ, and these."""
    other = None if verdict not in _RANK or outcome.elsewhere is None else outcome.elsewhere()
    if other is None:
        return verdict, evidence, _at_other_magnitudes(outcome, evidence) if verdict == "different" else None
    if other.allowed:
        return "different", other.words if other.kind == "compiler" else f"{AT_OTHERS}: {other.words}", other
    return verdict, "; ".join((*filter(None, [evidence]), f"{ELSEWHERE}: {other.words}")), other


def _at_other_magnitudes(outcome: LeafOutcome, evidence: str | None) -> Counterexample | None:
    """Return the inputs at which a proof refuted equal formulas, where these are others than those of the case."""
    same = outcome.identity
    if same is None or same.at is None or same.witness is None or same.witness not in (evidence or ""):
        return None
    question, name = same.at.question, leaf_of(outcome)
    values = values_of(question, name) if name in question.outputs else None
    return Counterexample(same.witness, True, f"ordinary, {same.at.words}", question, values)


def _proven(outcome: LeafOutcome) -> tuple[Verdict, str | None]:
    """Return what traces and proofs say; equal formulas are `rounding`, whose accuracy they may leave in doubt."""
    comparison, same = outcome.comparison, outcome.identity
    if not comparison.equal:
        return "different", f"{comparison.kind}: {comparison.detail}"
    if outcome.apart is not None:
        return "different", outcome.apart
    if outcome.same_program:
        return "proved", SAME_PROGRAM
    if outcome.promises is not None:
        return "proved", _by_movement(outcome)
    if same is None:
        return "error", outcome.unproved or "no proof covers it"
    if same.equal:
        return "rounding", _same_formulas(same)
    return (
        ("error", same.unsure or LAWS) if same.undecided else ("different", f"not the same mathematics: {same.witness}")
    )


def _unequal(outcome: LeafOutcome, contract: Contract) -> tuple[Verdict, str | None]:
    """Judge other bits: rounding by evidence, `different` by a witness beyond rounding, else undecided."""
    comparison, same = outcome.comparison, outcome.identity
    if outcome.evidence is not None:
        sentence = outcome.evidence.sentence()
        if outcome.evidence.is_rounding and set(comparison.kinds) == {"sign of zero"}:  # which no measurement shows
            sentence = f"differs in the sign of zero alone; {sentence}"
        if outcome.promises is not None and not outcome.evidence.is_rounding and _miscompiled(outcome):
            sentence = f"{COMPILER}: {MOVES}{_as_written(outcome.evidence)}"
        elif outcome.promises is not None:
            sentence += f"; {MOVES}, so it is the compiler that rounds"
        if outcome.evidence.is_rounding and outcome.evidence.undecided:
            return "error", f"could not tell: {sentence}"
        if outcome.evidence.is_rounding:
            return "rounding", sentence if same is None else _with_others(sentence, same)
        return "different", sentence
    if comparison.detail is not None:
        return "different", f"{comparison.kind}: {comparison.detail}"
    text = extent(comparison.differences, comparison.elements)
    if same is not None and not same.equal and not same.undecided:
        return "different", f"not the same mathematics: {same.witness}; {text}"
    if outcome.promises is not None and _miscompiled(outcome):
        return "different", f"{COMPILER}: {MOVES}; {text}"
    if outcome.promises is not None:
        text += f"; {MOVES}, so it is the compiler that does more"
    if outcome.no_evidence is not None:
        return "error", f"could not tell whether this is rounding: {outcome.no_evidence}; {text}"
    return "different", text


def _by_compiler(outcome: LeafOutcome, ruled: Ruled) -> bool:
    """Return whether the compiled program is wrong, which no mesh explains."""
    if ruled.decisive is not None:
        return ruled.decisive.kind == "compiler"
    evidence = outcome.evidence
    if evidence is None or not evidence.is_rounding:
        moved = outcome.promises is not None and _miscompiled(outcome)
        return moved or (evidence is not None and evidence.is_miscompiled)
    return False


def _miscompiled(outcome: LeafOutcome) -> bool:
    """Return whether elements that labels prove to be moved are other numbers, which no rounding makes of them."""
    kinds = set(outcome.comparison.kinds)
    lost = {"NaN vs number", "overflow to infinity"} if not outcome.promises else set()  # as of promises not kept
    return "products" not in outcome.assumed and bool(kinds & {"other", *lost})


def _as_written(evidence: RoundingEvidence) -> str:
    """Return the element that shows it, as it is written and as it came out."""
    if evidence.witness is None or evidence.place is None or evidence.ideal is None:
        return ""
    index = evidence.place[1]
    place = f"{evidence.witness[0].leaf}[{', '.join(map(str, index))}]"
    return f", and {place} is {float(evidence.ideal[index]):.9g} as written, evaluated in float64"


def _equal(outcome: LeafOutcome, contract: Contract) -> tuple[Verdict, str | None]:
    """Judge equal bits: proved by one program, or by labels for inputs that the contract states."""
    if outcome.same_program:
        return "proved", SAME_PROGRAM
    same = outcome.identity
    if same is not None and not same.equal and not same.undecided:
        return "different", f"not the same mathematics: {same.witness}; only on the inputs tried are the bits the same"
    if outcome.everywhere is not None and outcome.everywhere.holds:
        return "bitwise", f"the same bits on every machine: {outcome.everywhere.how}"
    if outcome.promises is None:
        if same is None:
            return "bitwise", None
        return "bitwise", _same_formulas(same) if same.equal else _with_others(f"not proved: {_why_open(same)}", same)
    missing = unsaid(contract.domain, outcome.promises)
    if missing:
        return "bitwise", f"would be proved for: {in_words(missing)}; {not_said(missing)}"
    return "proved", _by_movement(outcome) + (f"; domain: {in_words(outcome.promises)}" if outcome.promises else "")


def _same_formulas(same: FieldIdentity) -> str:
    """Return what the fields say, and the kinds of what they assume."""
    return _with_others(same.same, same)


def _why_open(same: FieldIdentity) -> str:
    return (same.unsure or LAWS) + (f"; assumes {same.assumed}" if same.assumed else "")


def _with_others(words: str, same: FieldIdentity) -> str:
    """Return what the fields say, and other inputs at which it is not so."""
    beyond = [each.counterexample for each in same.assumptions if each.counterexample is not None]
    return "; ".join((words, *(f"{ELSEWHERE}: {text}" for text in beyond)))


def _by_movement(outcome: LeafOutcome) -> str:
    how = "both sides only move data, each element from the same place"
    return how + (f", for the values of {' and '.join(outcome.routing)} tried" if outcome.routing else "")


def _held_against(
    verdict: Verdict, outcome: LeafOutcome, contract: Contract, exemption: Exemption | None
) -> tuple[bool, str, str | None]:
    """Return whether a verdict suffices, what was required, and why less than `bitwise` is accepted."""
    if exemption is not None:
        ok, reason = _held_against_exemption(verdict, outcome, exemption)
        return ok, exemption.verdict, reason
    if outcome.executed:
        return reaches(verdict, contract.lowest), contract.lowest, contract.reason
    if verdict == "proved":
        missing = unsaid(contract.domain, outcome.promises or ())
        if (
            contract.lowest != "proved"
        ):  # which promises the inputs tried, and these may keep what the domain leaves out
            missing = tuple(fact for fact in missing if fact in outcome.unkept)
        if contract.lowest == "rounding":  # which a zero of the other sign and a flushed number are
            missing = tuple(fact for fact in missing if fact.fact not in ("no_negative_zero", "no_subnormal"))
        if missing:
            return False, contract.lowest, f"holds for: {in_words(outcome.promises or ())}; {not_said(missing)}"
    if verdict == "rounding" and contract.lowest == "rounding" and outcome.doubt is not None:
        return False, contract.lowest, f"accuracy is not decided by proof: {outcome.doubt}"
    return reaches(verdict, contract.lowest), contract.lowest, None


def _held_against_exemption(verdict: Verdict, outcome: LeafOutcome, exemption: Exemption) -> tuple[bool, str]:
    """Hold an exemption to what it says and nothing else; of what did not run, proofs do not see every kind."""
    kind = outcome.comparison.kind
    if verdict == "error":
        return False, exemption.reason
    if verdict == exemption.verdict and (exemption.kind in (None, kind) or (kind is None and not outcome.executed)):
        return True, exemption.reason
    expected = exemption.verdict + (f" ({exemption.kind})" if exemption.kind else "")
    conditional = verdict == "proved" and bool(outcome.unkept)
    if not outcome.executed and (verdict == "rounding" or conditional):
        on = f" where not {in_words(outcome.unkept)}" if conditional else ""
        return False, f"whether '{expected}' comes out{on}, as the exemption expects, only execution shows"
    outcome_words = verdict + (f" ({kind})" if kind else "")
    return (
        False,
        f"the exemption expects '{expected}' and '{outcome_words}' came out; change or remove it: {exemption.reason}",
    )


def _derivatives(outcome: LeafOutcome, verdict: Verdict) -> tuple[Assumption, ...]:
    """Return what a gradient that passes assumes of its own derivatives."""
    if verdict not in _RANK or outcome.derivatives is None or leaf_of(outcome).endswith(DIFFERENTIATED):
        return ()
    assumption = outcome.derivatives()
    return () if assumption is None else (assumption,)
