"""What a check reports for each leaf: one record, read by the terminal, JSON, Markdown, pytest and later commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["proved", "bitwise", "refused", "rounding", "different", "unstable", "error", "skipped"]
"""The rungs of the ladder, highest first; `refused` is a documented error that every side raised as documented."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


Outcome = Literal["robust", "fragile", "broken", "no effect", "error"]
"""What shaking the compiler did to a leaf whose bits are equal as usual.

`robust`: a program or its bits changed, and both sides still agree. `fragile`: they no longer agree, and the contract
still holds. `broken`: it does not, so it promises what only this compiler and processor give. `no effect`: no program
and no bit changed, which is not evidence. `error`: it did not compile or run.
"""


ALL_SIZES_REQUIRED = "the contract requires all sizes"
"""What the reason says where a result would do at its own sizes, and other sizes are not shown."""


def requirement(required: str, reason: str | None) -> str:
    """Say what a result was held against: the lowest verdict, for all sizes where these are what is missing."""
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


def code_of(problems: Iterable[Problem], *, failed: bool, undecided: bool) -> int:
    """Return the exit code of a command: 1, 2 where a request or declaration is wrong, 3, or 0."""
    codes = {problem.exit_code for problem in problems}
    return 1 if failed else 2 if 2 in codes else 3 if codes or undecided else 0


def gravest(problems: Iterable[Problem]) -> int:
    """Return the exit code of several problems: 1 before 2 before 3, and 0 without any."""
    return min((problem.exit_code for problem in problems), default=0)
