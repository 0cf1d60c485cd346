"""What a pair promises of its results, and which differences are known: data with a scope and a reason."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from samebits.errors import DeclarationError
from samebits.schema.domain import Domain

Direction = Literal["forward", "gradient"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "gradient")

DIFFERENTIATED = " under differentiation"
"""What follows the path of an output where that is compared as the differentiated program returns it."""


def leaf_words(direction: str, leaf: str) -> str:
    """Write a leaf in words: `out`, `gradient of x`, or `out under differentiation`."""
    return f"gradient of {leaf}" if direction == "gradient" and not leaf.endswith(DIFFERENTIATED) else leaf


Rung = Literal["proved", "bitwise", "rounding", "different"]
"""The rungs that a contract can name, highest first."""
RUNGS: tuple[Rung, ...] = ("proved", "bitwise", "rounding", "different")

PLATFORMS = ("cpu", "gpu", "tpu")
"""What jax calls the platforms on which results are made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Which results a contract or an exemption applies to; every field is a shell pattern, `*` by default."""

    variant: str = "*"
    case: str = "*"
    dtype: str = "*"
    mesh: str = "*"
    mode: str = "*"
    direction: str = "*"
    leaf: str = "*"
    platform: str = "*"

    def is_for(self, platform: str) -> bool:
        """Tell whether this applies to results that are made on a platform."""
        return fnmatchcase(platform, self.platform)

    def covers(
        self, *, variant: str, case: str, dtype: str, mesh: str, mode: str, direction: str, leaf: str | None
    ) -> bool:
        """Tell whether a result lies in this scope; `leaf=None` asks before the leaves are known."""
        pairs = (
            (variant, self.variant),
            (case, self.case),
            (dtype, self.dtype),
            (mesh, self.mesh),
            (mode, self.mode),
            (direction, self.direction),
        )
        named = all(_matches(value, pattern) for value, pattern in pairs)
        return named and (leaf is None or _matches(leaf, self.leaf))

    def __str__(self) -> str:
        patterns = {name: getattr(self, name) for name in Scope.__slots__ if getattr(self, name) != "*"}
        return ", ".join(f"{name}={value}" for name, value in patterns.items()) or "every result"


def _matches(value: str, pattern: str) -> bool:
    """Tell whether a pattern fits a value, or is it as printed, such as `out['a']` with its brackets."""
    return value == pattern or fnmatchcase(value, pattern)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract(Scope):
    """The lowest verdict accepted for the results in its scope; the last matching contract of a pair counts.

    Args:
        variant: which variants it covers, a shell pattern; all by default, as with the seven below.
        case: which cases.
        dtype: which dtypes.
        mesh: which meshes.
        mode: which sharding modes.
        direction: `forward` or `gradient`.
        leaf: which leaves of the output, or which arguments of a gradient.
        platform: on which platforms: `cpu`, `gpu` or `tpu`.
        lowest: `proved`, `bitwise` (the default) or `rounding`.
        domain: for which inputs it is promised, such as `Domain(finite=("table",))`; None, the default, means all.
        reason: why it is not higher, with the measured number; required for `rounding`.
        error_ratio: how many times the reference's error against float64 a `rounding` result may have; None, the
            default, means the pair's `accuracy`.
        sizes: `all` requires of variants that it is proved for every size, in auto mode: the bits, or where `rounding`
            is accepted the formulas. `these`, the default, requires nothing beyond the sizes of the cases.

    Raises:
        DeclarationError: a domain that is not a `Domain`, `rounding` without a reason, a ratio without
            `rounding`, or other sizes.
    """

    lowest: Rung = "bitwise"
    domain: Domain | None = None
    reason: str | None = None
    error_ratio: float | None = None
    sizes: str = "these"

    def __post_init__(self) -> None:
        if self.lowest not in ("proved", "bitwise", "rounding"):
            raise DeclarationError(
                f"a contract ({self}) names '{self.lowest}'; expected proved, bitwise or rounding "
                "(a known difference is an Exemption)"
            )
        if self.sizes not in ("all", "these"):
            raise DeclarationError(f"a contract ({self}) has sizes='{self.sizes}'; expected all, or these")
        if self.sizes == "all" and self.mode not in ("*", "auto"):
            raise DeclarationError(
                f"a contract ({self}) requires sizes='all', which is proved in auto mode alone; write mode='auto'"
            )
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise DeclarationError(
                f"a contract ({self}) gives its domain as {type(self.domain).__name__} {self.domain!r}; expected facts "
                "by input, as in Domain(finite=('x',), no_negative_zero=('cotangents',)), and Domain(also='...') for "
                "what no fact can say"
            )
        if self.lowest == "rounding" and not (self.reason and self.reason.strip()):
            raise DeclarationError(
                f"a contract ({self}) accepts 'rounding' without a reason; write reason='...' with the measured number"
            )
        if self.error_ratio is not None and self.lowest != "rounding":
            raise DeclarationError(f"a contract ({self}) gives error_ratio, which only 'rounding' uses; remove it")

    __str__ = Scope.__str__


MOVES = Contract()
"""What is promised of a result that no contract covers, where both sides only move data."""

COMPUTES = Contract(
    lowest="rounding",
    reason="no contract covers it; the bits of what computes with floating point depend on the machine",
)
"""What is promised of any other result that no contract covers; of integers nothing is lost to rounding."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exemption(Scope):
    """A known failure, kept as data: the results in its scope must come out as `verdict`, and no better.

    An exemption that matches no result, or whose results are no longer as it says, fails the check.

    Args:
        variant: which variants it covers, a shell pattern; all by default, as with the seven below.
        case: which cases.
        dtype: which dtypes.
        mesh: which meshes.
        mode: which sharding modes.
        direction: `forward` or `gradient`.
        leaf: which leaves of the output, or which arguments of a gradient.
        platform: on which platforms: `cpu`, `gpu` or `tpu`.
        verdict: what is known to come out, `different` (the default) or `unstable`.
        kind: the class of difference that must be seen (`samebits.numerics.difference_kinds.KINDS`), so that no other
            fault hides behind it; None, the default, takes any.
        reason: the finding, with its number.

    Raises:
        DeclarationError: the reason is empty.
    """

    verdict: Literal["different", "unstable"] = "different"
    kind: str | None = None
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise DeclarationError(f"an exemption ({self}) has an empty reason; write the finding with its number")

    __str__ = Scope.__str__
