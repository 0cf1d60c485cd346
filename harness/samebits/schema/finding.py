"""What a tool found of one thing: a record of groups that judges fill and reports read; groups pass whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.schema.all_sizes import Sizes, SizesShown
from samebits.schema.assumption import Assumption
from samebits.schema.contract import leaf_words
from samebits.schema.difference import Difference, Witness
from samebits.schema.line_difference import NamedLines
from samebits.schema.picture import MagnitudeRow, Picture, ReadMatrix
from samebits.schema.point import Point
from samebits.schema.result import VERDICTS, Problem, ShakenLeaf, Summary, Verdict, code_of
from samebits.schema.shown import Shown

Status = Literal["passed", "failed", "error", "skipped"]

DEPENDENCE = "dependence"
"""The method of a proof of what a side does not read."""

UNDECIDED = ("error", "not run", "no figure", "no answer", "undecided", "not checked", "unknown")
"""The verdicts of all commands that say that something could not be decided."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What a finding is of. A part that the command does not have is empty.

    Args:
        pair, variant, case, dtype, mesh, mode, direction: the point of the sweep; `variant` is the reference's own
            name where the reference on the mesh is held against the reference on one device.
        leaf: `out...`, or the argument's name for a gradient; `*` where the point gave no leaves; a property, such as
            `causal` or `causal under differentiation`.
        target: what the program is compiled for.
        item: the claim, planted fault, configuration, pair of runs, golden or parallelism.
    """

    pair: str = ""
    variant: str = ""
    case: str = ""
    dtype: str = ""
    mesh: str = ""
    mode: str = ""
    direction: str = ""
    leaf: str = ""
    target: str = ""
    item: str = ""

    @property
    def whole(self) -> Place:
        """Return the place of the whole point, without its leaf."""
        return replace(self, leaf="")

    def side(self) -> str:
        """Return whose result it is, such as `rms_norm/multiply` or `train/context4`."""
        return "/".join(part for part in (self.pair, self.variant, self.item) if part)

    def what(self) -> str:
        """Return which output, such as `gradient of scale`; empty where the result is of all."""
        leaf = "" if self.leaf == "*" else self.leaf
        if self.direction == "gradient" and not self.target:
            return leaf_words(self.direction, leaf) if leaf else "gradient"
        return " ".join(part for part in (self.direction if self.target else "", leaf) if part)

    def where(self) -> str:
        """Return under which conditions, such as `case small, bfloat16, mesh data2 (auto)`."""
        case, mesh = f"case {self.case}" if self.case else "", f"mesh {self.mesh}" if self.mesh else ""
        mode = f" ({self.mode})" if self.mode else ""
        return ", ".join(part for part in (case, self.dtype, f"{mesh}{mode}".strip(), self.target) if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """The verdict, held against the declaration.

    Args:
        verdict, required, ok: what was found, the lowest accepted, and whether it suffices. Of a proof: `proved` (the
            same bits for every input), `rounding` (the same formulas), `different` (refuted), `refused` (the expected
            error), or `error` (neither shown nor refuted).
        reason: why less than `bitwise` is accepted, why this does not suffice, or why there is an error.
        evidence: how the verdict was found, in words.
        exempt: an exemption of the declaration covers it.
        undeclared: whether neither a contract nor an exemption of the declaration covers it, so that what is required
            follows from what was proved; None where no contract counts, and in documents of older versions.
        domain: for which inputs the contract promises it.
        machine: where `bitwise` is required, why another machine may have other bits; None where none can.
        snapshot: the verdict that was accepted for this environment, where there is one.
    """

    verdict: Verdict
    required: str
    ok: bool
    reason: str | None = None
    evidence: str | None = None
    exempt: bool = False
    undeclared: bool | None = None
    domain: str | None = None
    machine: str | None = None
    snapshot: Verdict | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Both sides element by element, all inputs taken together.

    Args:
        elements, mismatches, max_ulp, kind: how many there are and differ, how far at most; the most severe class.
        differences: the elements that differ by their class, the largest class first.
        witness: a differing element that shows what the verdict says.
        picture: where and how far the elements differ whose bits do, and values around the witness; None where none do.
        array: dtype and shape of the leaf, such as `bfloat16[8,16]`; None where the point gave no leaves.
        bits: a digest of what the reference gave on one device, over all inputs: two documents show where it moved.
    """

    elements: int = 0
    mismatches: int = 0
    max_ulp: int | None = None
    kind: str | None = None
    differences: tuple[Difference, ...] = ()
    witness: Witness | None = None
    picture: Picture | None = None
    array: str | None = None
    bits: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """How accurate both sides are, relative to the leaf's largest value.

    Args:
        error_reference, error_optimized, error_ratio: errors against the float64 oracle, and how many times larger the
            variant's RMS error is: the median over the draws.
        error_ratio_low, error_ratio_high, draws: the smallest and the largest ratio, and over how many draws.
        error_group, bias: the group of elements that loses accuracy, and its bias in units in the last place where it
            is a bias that says so.
        bound, bound_used: what rounding in the reference explains; and how much of it, per element, the difference of
            the sides uses.
        magnitudes: the errors of both sides at other magnitudes of the inputs, where one of these shows a difference.
        bound_reference, bound_optimized, likely, loses_most: of a proof: what rounding can do to each side at most;
            what is likely for the variant; the operation of the variant that can lose most.
    """

    error_reference: float | None = None
    error_optimized: float | None = None
    error_ratio: float | None = None
    error_ratio_low: float | None = None
    error_ratio_high: float | None = None
    draws: int | None = None
    error_group: str | None = None
    bias: float | None = None
    bound: float | None = None
    bound_used: float | None = None
    magnitudes: tuple[MagnitudeRow, ...] = ()
    bound_reference: float | None = None
    bound_optimized: float | None = None
    likely: float | None = None
    loses_most: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What was proved, how and under which assumptions; or why nothing was.

    Args:
        method: `labels`, `fields`, `all sizes`, `trace` (of expected errors), `dependence` (what a side may read), or
            none.
        domain, words: what must hold of the inputs, as a text and as facts `FACT=INPUT` that a contract's domain must
            state.
        unkept: of `words`, those that the inputs of the case do not keep.
        routing: the arguments for whose values alone it holds; over fields, all integers and booleans.
        products: whether labels moved floats by products with one-hot matrices, which keep float32 on a CPU.
        log2_error, points, degree, unknown: of a proof over finite fields: the base-two logarithm of its error
            probability, the random points, the degree of the polynomials, and the calls of uninterpreted functions.
        assumptions: everything that the proof takes for granted, each with how it could be false.
        constants: which constants are roundings of others, where the formulas are equal but for these.
        no_movement: the equation that is more than movement.
        refutation: where the sides are not the same.
        sizes: where something is proved, whether that is for `all` sizes of a family or for `these` of the case; None
            where nothing is, and in documents of older versions.
        family: of a proof for all sizes, which these are.
        alone: `proved` without an execution of this very point: of each variant and direction the check executes
            some points with every case, dtype, mesh and mode among them, and with `--full` all.
        reads: of `dependence`, what each output reads; None where it is too large to be drawn.
        not_interpreted: why the verdict rests on execution alone: the primitive without a rule and its line, or what
            else could not be interpreted; None where the programs were.
    """

    method: str | None = None
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
    constants: tuple[str, ...] = ()
    no_movement: str | None = None
    refutation: str | None = None
    sizes: Sizes | None = None
    family: SizesShown | None = None
    alone: bool = False
    reads: ReadMatrix | None = None
    not_interpreted: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Executed:
    """How a point was executed.

    Args:
        devices: how many devices were used.
        device_order: the devices' places in `jax.devices()`, in the order of the mesh, its last axis fastest; empty
            where that is 0, 1, 2 and so on.
        layout: how each argument and output really lay on the devices.
        emulated: operations of this backend that were emulated.
        remembered: where it was not executed in this run, when it was, in UTC; everything that it depends on is
            unchanged since. None where it was executed.
    """

    devices: int = 0
    device_order: tuple[int, ...] = ()
    layout: Mapping[str, str] = field(default_factory=dict)
    emulated: tuple[str, ...] = ()
    remembered: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding(Shown):
    """What a tool found of one thing, such as a leaf of a variant on a mesh; published, so keys keep their meaning.

    Args:
        tool: the command that made it, such as `check`.
        place: of what.
        ruling: the verdict, held against the declaration.
        comparison: both sides element by element.
        accuracy: how accurate both sides are.
        proof: what was proved.
        named: where `different` fails, the places of the source that make the leaf differ.
        shaken: the same leaf under other compiler options, where that was asked for and its bits are equal as usual.
        run: how the point was executed.
        seconds: the time of the whole point, compile waits included; of a proof, for this leaf.
        replay: the command that shows this finding again.
    """

    tool: str = "check"
    place: Place
    ruling: Ruling
    comparison: Compared = Compared()
    accuracy: Errors = Errors()
    proof: Proof = Proof()
    named: NamedLines = field(default_factory=NamedLines)
    shaken: tuple[ShakenLeaf, ...] = ()
    run: Executed = Executed()
    seconds: float = 0.0
    replay: str = ""

    @property
    def status(self) -> Status:
        """Return what continuous integration reads; `error` where it was not decided whether the contract holds."""
        if self.ruling.ok:
            return "passed"
        if self.tool == "prove":
            return "failed" if self.refutes else "error"
        if self.ruling.verdict == "skipped":
            return "skipped"
        return "error" if self.ruling.verdict in UNDECIDED else "failed"

    @property
    def failed(self) -> bool:
        """Return whether it fails the command: not sufficient, and not merely skipped."""
        return not self.ruling.ok and self.ruling.verdict != "skipped"

    @property
    def refutes(self) -> bool:
        """Return whether it shows that the declaration does not hold: a difference, or none where one is exempted."""
        ruling = self.ruling
        return not ruling.ok and (
            ruling.verdict == "different" or (ruling.exempt and ruling.verdict == "proved" and not self.proof.unkept)
        )

    def with_ruling(self, **changes: Any) -> Finding:
        """Return the same with some of the ruling changed."""
        return replace(self, ruling=replace(self.ruling, **changes))

    def with_proof(self, **changes: Any) -> Finding:
        """Return the same with some of the proof changed."""
        return replace(self, proof=replace(self.proof, **changes))


def where(point: Point | Place) -> dict[str, Any]:
    """Return the point of the sweep as keyword arguments."""
    return {name: getattr(point, name) for name in Point.__slots__}


def point_of(place: Place) -> Point:
    """Return the point of the sweep at a place."""
    return Point(**where(place))


def at(pair: str, point: Point, leaf: str = "*") -> Place:
    """Return the place of a leaf of a point."""
    return Place(pair=pair, leaf=leaf, **where(point))


def breakable(findings: Iterable[Finding]) -> tuple[Assumption, ...]:
    """Return what findings that hold assume and other values could break, each text once."""
    taken: dict[tuple[str, str], Assumption] = {}
    holding = (assumption for each in findings if each.ruling.ok for assumption in each.proof.assumptions)
    for assumption in (each for each in holding if not each.inherent):
        key = assumption.word, assumption.text
        if key not in taken or taken[key].counterexample is None:
            taken[key] = assumption
    return tuple(taken.values())


def summarise(
    results: Iterable[Finding],
    *,
    selected: int,
    product: int,
    seconds: float,
    notes: tuple[str, ...] = (),
    interrupted: bool = False,
) -> Summary:
    """Count results."""
    results = list(results)
    counts = Counter(result.ruling.verdict for result in results)
    return Summary(
        cases=len(results),
        ok=sum(result.ruling.ok for result in results),
        failed=sum(result.failed for result in results),
        skipped=counts["skipped"],
        exempt=sum(result.ruling.exempt and result.ruling.ok for result in results),
        verdicts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        selected=selected,
        product=product,
        seconds=round(seconds, 3),
        notes=notes,
        interrupted=interrupted,
    )


def exit_code(
    findings: Iterable[Finding], problems: Iterable[Problem] = (), *, no_skips: bool = False, interrupted: bool = False
) -> int:
    """Return 0 where all hold, 1 where something differs, 2 for a wrong declaration or request, 3 if undecided.

    The most severe outcome decides: a difference over a wrong declaration, that over what could not run. `no_skips`
    fails the run for what is skipped, `interrupted` says that findings are missing.
    """
    counts = Counter(finding.status for finding in findings)
    nothing_checked = counts["skipped"] == counts.total()
    undecided = counts["error"] > 0 or interrupted or (no_skips and counts["skipped"] > 0) or nothing_checked
    return code_of(problems, failed=counts["failed"] > 0, undecided=undecided)


# The effects of compiler options on all leaves of a check: counts by option, and by leaf.
Standing = Literal["robust", "fragile", "broken", "error", "not moved"]
"""Of a leaf under all options: the most severe of its outcomes; `not moved` where no option had an effect on it."""

STANDINGS: tuple[Standing, ...] = ("broken", "error", "fragile", "robust", "not moved")
COUNTED = ("robust", "fragile", "broken", "error", "no effect")


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionRow:
    """One option.

    Args:
        option: its name.
        outcomes: how many leaves have each outcome.
        reference_moved: leaves of which the reference's own bits on one device are other ones: without any variant.
        effect: whether it changed a program or a bit anywhere; else it is not evidence.
    """

    option: str
    outcomes: Mapping[str, int]
    reference_moved: int
    effect: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ShakeSummary:
    """All options, and what became of the leaves whose bits are equal as usual.

    Args:
        options: those that were tried.
        not_accepted: by option, what this XLA says of it.
        left_out: by option, why it is not evidence.
        leaves: by standing (`robust`, `fragile`, `broken`, `error`, `not moved`).
    """

    options: tuple[OptionRow, ...]
    not_accepted: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    leaves: Mapping[str, int] = field(default_factory=dict)


def shake_of(results: Iterable[Finding], not_accepted: Mapping[str, str], left_out: Mapping[str, str]) -> ShakeSummary:
    """Count the outcomes over results."""
    rows: dict[str, Counter[str]] = {}
    moved: Counter[str] = Counter()
    leaves: Counter[str] = Counter()
    for result in results:
        for leaf in result.shaken:
            rows.setdefault(leaf.option, Counter())[leaf.outcome] += 1
            moved[leaf.option] += bool(leaf.reference_moved)
        if result.shaken:
            leaves[standing(result)] += 1
    return ShakeSummary(
        options=tuple(
            OptionRow(
                option=name,
                outcomes={outcome: counts[outcome] for outcome in COUNTED if counts[outcome]},
                reference_moved=moved[name],
                effect=any(counts[outcome] for outcome in ("robust", "fragile", "broken")),
            )
            for name, counts in rows.items()
        ),
        not_accepted=dict(not_accepted),
        left_out=dict(left_out),
        leaves={name: leaves[name] for name in STANDINGS if leaves[name]},
    )


def standing(result: Finding) -> Standing:
    """Return the most severe outcome of a shaken leaf."""
    outcomes = {leaf.outcome for leaf in result.shaken}
    return next((name for name in STANDINGS if name in outcomes), "not moved")
