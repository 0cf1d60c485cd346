"""What a check reports for each leaf: one record, read by the terminal, JSON, Markdown, pytest and later commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from samebits.schema.all_sizes import Sizes, SizesShown
from samebits.schema.assumption import Assumption
from samebits.schema.difference import Difference
from samebits.schema.line_difference import LineDifference
from samebits.schema.picture import MagnitudeRow, Picture
from samebits.schema.shown import Shown

Verdict = Literal["proved", "bitwise", "refused", "rounding", "different", "unstable", "error", "skipped"]
"""The rungs of the ladder, highest first; `refused` is a documented error that every side raised as documented."""
VERDICTS: tuple[Verdict, ...] = (
    "proved",
    "bitwise",
    "refused",
    "rounding",
    "different",
    "unstable",
    "error",
    "skipped",
)


Outcome = Literal["robust", "fragile", "broken", "no effect", "error"]
"""What shaking the compiler did to a leaf whose bits are equal as usual.

`robust`: a program or its bits changed, and both sides still agree. `fragile`: they no longer agree, and the contract
still holds. `broken`: it does not, so it promises what only this compiler and processor give. `no effect`: no program
and no bit changed, which is not evidence. `error`: it did not compile or run.
"""


ALL_SIZES_REQUIRED = "the contract requires all sizes"
"""What the reason says where a result would do at its own sizes, and other sizes are not shown."""


def requirement(required: str, reason: str | None) -> str:
    """What a result was held against, in words: the lowest verdict, for all sizes where these are what is missing.

    Args:
        required, reason: of the result.
    """
    return f"{required} for all sizes" if ALL_SIZES_REQUIRED in (reason or "") else required


ACCEPTABLE: tuple[Verdict, ...] = ("proved", "bitwise", "rounding", "refused")
"""The verdicts that a contract can accept; where one of them fails, a higher one is required."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShakenLeaf:
    """One leaf under one compiler option.

    Args:
        option: such as `xla_allow_excess_precision=false`, or `all together`.
        outcome: what the option did to the leaf.
        verdict: under the option.
        mismatches: elements that differ under it.
        reference_moved: whether the reference's own bits on one device are other ones under it; None where unknown.
        why: of a broken contract or an error.
    """

    option: str
    outcome: Outcome
    verdict: Verdict
    mismatches: int = 0
    reference_moved: bool | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Result(Shown):
    """The verdict on one leaf of one variant, on one mesh, in one direction; published, so keys keep their meaning.

    Args:
        pair, variant, case, dtype, mesh, mode, direction: the point of the sweep; `variant` is the reference's own
            name where the reference on the mesh is held against the reference on one device.
        leaf: `out...`, or the argument's name for a gradient; `*` where the point gave no leaves.
        verdict, required, ok: what was found, the lowest accepted, and whether it suffices.
        reason: why less than `bitwise` is accepted here, or why there is an error.
        evidence: how the verdict was found, in words.
        not_interpreted: why the verdict rests on execution alone: the primitive without a rule and its line, or what
            else could not be interpreted; None where the programs were.
        elements, mismatches, max_ulp, kind: the comparison, all inputs taken together; the most severe class.
        differences: the elements that differ by their class, the largest class first.
        error_reference, error_optimized, error_ratio: errors against the float64 oracle, relative to the leaf's
            largest value, and how many times larger the variant's RMS error is: the median over the draws.
        error_ratio_low, error_ratio_high, draws: the smallest and the largest ratio, and over how many draws.
        error_group, bias: the group of elements that loses accuracy, and its bias in units in the last place where it
            is a bias that says so.
        bound, bound_used: what rounding in the reference explains, relative to the leaf's largest value; and how much
            of it, per element, the difference of the sides uses.
        log2_error: of a proof over finite fields, the base-two logarithm of its error probability.
        assumptions: of a proof over finite fields, everything that it takes for granted, with how it could be false.
        witness: a differing element that shows what the verdict says, with both values in decimal and hex, and its own
            class.
        picture: where and how far the elements differ whose bits do, and values around the witness; None where none do.
        magnitudes: the errors of both sides at other magnitudes of the inputs, where one of these shows a difference.
        lines: where `different` fails, the places of the source that make the leaf differ, likeliest first.
        no_lines: where none are named, why.
        exempt: an exemption of the declaration covers this result.
        undeclared: whether neither a contract nor an exemption of the declaration covers it, so that what is required
            follows from what was proved; None where no contract counts, and in documents of older versions.
        machine: where `bitwise` is required, why another machine may have other bits; None where none can.
        domain: for which inputs the contract promises it.
        emulated: operations of this backend that were emulated.
        layout: how each argument and output really lay on the devices.
        array: dtype and shape of the leaf, such as `bfloat16[8,16]`; None where the point gave no leaves.
        device_order: the devices' places in `jax.devices()`, in the order of the mesh, its last axis fastest; empty
            where that is 0, 1, 2 and so on.
        devices: how many devices were used.
        seconds: the time of the whole point, compile waits included.
        replay: the command that shows this result again.
        bits: a digest of what the reference gave on one device, over all inputs: two documents show where it moved.
        proof_alone: `proved` without an execution of this very point: of each variant and direction the check executes
            some points with every case, dtype, mesh and mode among them, and with `--full` all.
        sizes: of what is proved, whether that is for `all` sizes of a family or for `these` of the case; None where
            nothing is, and in documents of older versions.
        family: where a proof for all sizes was asked for and found, which these are.
        snapshot: the verdict that was accepted for this environment, where there is one.
        shaken: the same leaf under other compiler options, where that was asked for and its bits are equal as usual.
        remembered: where it was not executed in this run, when it was, in UTC; everything that it depends on is
            unchanged since. None where it was executed.
    """

    pair: str
    variant: str
    case: str
    dtype: str
    mesh: str
    mode: str
    direction: str
    leaf: str
    verdict: Verdict
    required: str
    ok: bool
    reason: str | None = None
    evidence: str | None = None
    not_interpreted: str | None = None
    elements: int = 0
    mismatches: int = 0
    max_ulp: int | None = None
    kind: str | None = None
    differences: tuple[Difference, ...] = ()
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
    log2_error: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    witness: Mapping[str, Any] | None = None
    picture: Picture | None = None
    magnitudes: tuple[MagnitudeRow, ...] = ()
    lines: tuple[LineDifference, ...] = ()
    no_lines: str | None = None
    exempt: bool = False
    undeclared: bool | None = None
    machine: str | None = None
    domain: str | None = None
    emulated: tuple[str, ...] = ()
    layout: Mapping[str, str] = field(default_factory=dict)
    array: str | None = None
    device_order: tuple[int, ...] = ()
    devices: int = 0
    seconds: float = 0.0
    replay: str = ""
    bits: str | None = None
    proof_alone: bool = False
    sizes: Sizes | None = None
    family: SizesShown | None = None
    snapshot: Verdict | None = None
    shaken: tuple[ShakenLeaf, ...] = ()
    remembered: str | None = None

    @property
    def failed(self) -> bool:
        """Whether this result fails the check: not sufficient, and not merely skipped."""
        return not self.ok and self.verdict != "skipped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A pair that could not be checked at all: its declaration or its files are wrong.

    Args:
        pair: its name, or the name by which it was requested.
        message: what was got, what was expected, and what to do.
        exit_code: 2 where the request or the declaration is wrong, 3 where it could not be decided.
    """

    pair: str
    message: str
    exit_code: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The counts of a check.

    Args:
        cases, ok, failed, skipped: how many results there are; the last three add up to the first.
        exempt: how many of the ok ones are known differences.
        verdicts: how many results have each verdict.
        selected, product: settings (case, mesh, dtype, mode) that ran, and of the whole product.
        notes: contracts that could be tightened, exemptions without effect, meshes that were not run.
        interrupted: the run was stopped before its end.
    """

    cases: int
    ok: int
    failed: int
    skipped: int
    exempt: int
    verdicts: Mapping[str, int]
    selected: int
    product: int
    seconds: float
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def summarise(
    results: Iterable[Result],
    *,
    selected: int,
    product: int,
    seconds: float,
    notes: tuple[str, ...] = (),
    interrupted: bool = False,
) -> Summary:
    """The counts over results."""
    results = list(results)
    counts = Counter(result.verdict for result in results)
    return Summary(
        cases=len(results),
        ok=sum(result.ok for result in results),
        failed=sum(result.failed for result in results),
        skipped=counts["skipped"],
        exempt=sum(result.exempt and result.ok for result in results),
        verdicts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        selected=selected,
        product=product,
        seconds=round(seconds, 3),
        notes=notes,
        interrupted=interrupted,
    )


def exit_code(
    results: Iterable[Result], problems: Iterable[Problem] = (), *, no_skips: bool = False, interrupted: bool = False
) -> int:
    """The exit code of a check: 0 all hold, 1 something differs, 2 declaration or request wrong, 3 could not tell.

    The most severe outcome decides: a difference over a wrong declaration, that over what could not run.
    """
    results = list(results)
    failed = [result for result in results if result.failed]
    skips = sum(result.verdict == "skipped" for result in results)
    nothing_checked = skips == len(results)
    return code_of(
        problems,
        failed=any(result.verdict != "error" for result in failed),
        undecided=bool(failed) or interrupted or (no_skips and skips > 0) or nothing_checked,
    )


def code_of(problems: Iterable[Problem], *, failed: bool, undecided: bool) -> int:
    """Return the exit code of a command: 1, 2 where a request or declaration is wrong, 3, or 0.

    Args:
        problems: what could not be judged at all.
        failed: whether something is not as required.
        undecided: whether something could not be decided, or nothing was.
    """
    codes = {problem.exit_code for problem in problems}
    return 1 if failed else 2 if 2 in codes else 3 if codes or undecided else 0


def gravest(problems: Iterable[Problem]) -> int:
    """Return the exit code of several problems: 1 before 2 before 3, and 0 without any."""
    return min((problem.exit_code for problem in problems), default=0)
