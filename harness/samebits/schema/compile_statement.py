"""Statements about compiled programs as Python expressions: `VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes`.

`VARIANT`, `REFERENCE` and `compiled_side(name)` stand for the compiled sides of a pair. Their attributes are figures
of the compiler; comparing a figure makes a `Statement`, which is judged once the sides are compiled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NoReturn

from samebits.errors import DeclarationError
from samebits.schema.target import Target
from samebits.schema.validate import expected

COLLECTIVES, PROGRAM = "collectives", "program"

EXAMPLES = (
    "VARIANT.while_loops == 0, VARIANT.temp_bytes <= 17e6, VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes, "
    'VARIANT.collectives == {"collective-permute": 2} or VARIANT.program == compiled_side("gather").program'
)

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_FLIPPED = {"<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "<": ">", ">": "<"}
_VARIANT = ""
"""The name of `VARIANT`: no side can be called so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A comparison of a figure of the variant with an amount, or with a multiple of another side's figure.

    Args:
        metric: one of `NUMBERS`, `collectives` or `program`.
        compared: the operator: `<=`, `>=`, `==`, `<` or `>`; of a program `==` or `!=`.
        amount: the number, the counts of collectives by name, or the factor of the other side's figure.
        side: the other side; `reference` is that of the pair, None compares with the amount itself.
    """

    metric: str
    compared: str
    amount: Any
    side: str | None = None

    def judge(self, facts: Mapping[str, Mapping[str, Any]], variant: str, reference: str) -> tuple[bool | None, str]:
        """Tell whether it holds of a variant, and what was seen; None where the compiler gives no figure."""
        other = reference if self.side == "reference" else self.side
        if other is not None and other not in facts:
            return None, f"{other} was not compiled"
        compare, own = _OPERATORS[self.compared], facts[variant].get(self.metric)
        if self.metric == PROGRAM:
            same = own == facts[str(other)][PROGRAM]
            return same is (self.compared == "=="), "the same program" if same else "another program"
        if own is None:
            return None, f"the compiler gives no figure for {self.metric}"
        if other is None:
            return compare(own, self.amount), shown(self.metric, own)
        figure = facts[other].get(self.metric)
        if figure is None:
            return None, f"{self.side} has no figure for {self.metric}"
        ratio = f"{own / figure:.3g} x {self.side}" if figure else f"{self.side} has none"
        return compare(own, self.amount * figure), f"{shown(self.metric, own)}, {ratio}"

    def __str__(self) -> str:
        """Write it as documents show it: `temp_bytes <= 0.02 x reference`, `same program as gather`."""
        if self.metric == PROGRAM:
            return f"same program as {self.side}" if self.compared == "==" else f"other program than {self.side}"
        if self.side is not None:
            return f"{self.metric} {self.compared} {self.amount:g} x {self.side}"
        if isinstance(self.amount, Mapping):
            return f"{self.metric} {self.compared} {dict(self.amount)}".replace("'", '"')
        large = _is_bytes(self.metric) and self.amount >= 1e6
        return f"{self.metric} {self.compared} " + (f"{self.amount / 1e6:g} MB" if large else f"{self.amount:g}")

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            f"'{self}' has no truth value before the sides are compiled; write two claims instead of `and`, `or` and "
            "`a <= b <= c`"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure of a side, times a factor; comparing it makes a `Statement`.

    Args:
        metric: one of `NUMBERS`, `collectives` or `program`.
        side: whose; empty for the variant that a claim is about.
        factor: what it is multiplied with.
    """

    metric: str
    side: str
    factor: float = 1.0

    def __mul__(self, factor: float) -> Figure:
        if self.metric not in NUMBERS or not _is_number(factor):
            raise DeclarationError(f"{self} times {factor!r}: expected a figure that is a number, times a number")
        return Figure(self.metric, self.side, self.factor * factor)

    __rmul__ = __mul__

    def __le__(self, other: Any) -> Statement:
        return _statement(self, "<=", other)

    def __ge__(self, other: Any) -> Statement:
        return _statement(self, ">=", other)

    def __lt__(self, other: Any) -> Statement:
        return _statement(self, "<", other)

    def __gt__(self, other: Any) -> Statement:
        return _statement(self, ">", other)

    def __eq__(self, other: object) -> Statement:  # type: ignore[override]
        return _statement(self, "==", other)

    def __ne__(self, other: object) -> Statement:  # type: ignore[override]
        return _statement(self, "!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        name = {_VARIANT: "VARIANT", "reference": "REFERENCE"}.get(self.side, f'compiled_side("{self.side}")')
        return f"{name}.{self.metric}" if self.factor == 1 else f"{self.factor:g} * {name}.{self.metric}"

    __repr__ = __str__


class SideFigures:
    """One compiled side of a pair in a statement; its attributes are its figures.

    Args:
        name: of the side; empty for the variant that a claim is about.
    """

    while_loops: Figure
    loop_turns: Figure
    gathers: Figure
    scatters: Figure
    copies: Figure
    sparsecore: Figure
    wire_bytes: Figure
    temp_bytes: Figure
    peak_bytes: Figure
    argument_bytes: Figure
    output_bytes: Figure
    bytes_accessed: Figure
    flops: Figure
    optimal_seconds: Figure
    collectives: Figure
    program: Figure

    def __init__(self, name: str) -> None:
        for metric in SideFigures.__annotations__:
            setattr(self, metric, Figure(metric, name))

    if not TYPE_CHECKING:  # the type checker finds a wrong name by itself

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            known = SideFigures.__annotations__
            raise DeclarationError(f"'{name}' is not a figure of a compiled side; {expected(name, known)}")


NUMBERS = tuple(name for name in SideFigures.__annotations__ if name not in (COLLECTIVES, PROGRAM))
"""What can be counted or measured of a compiled program; the keys of `samebits compile --json`."""


VARIANT = SideFigures(_VARIANT)
"""The side that a claim is about."""

REFERENCE = SideFigures("reference")
"""The pair's reference."""


def compiled_side(name: str) -> SideFigures:
    """Any side of a pair, by its name, in the statement of a claim.

    Args:
        name: of the side, such as `gather`.

    Raises:
        DeclarationError: the name is empty.
    """
    if not name.strip():
        raise DeclarationError(
            "compiled_side(''): expected the name of a side; the one that a claim is about is VARIANT"
        )
    return SideFigures(name)


def shown(metric: str, value: Any) -> str:
    """Write a figure in words: bytes in MB, counts as they are."""
    if metric == COLLECTIVES:
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    if _is_bytes(metric):
        return f"{value / 1e6:,.1f} MB".replace(",", " ")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _statement(figure: Figure, compared: str, other: Any) -> Statement:
    """Make the statement of a comparison, with the variant's figure on its left."""
    text = f"{figure} {compared} {other!r}"
    if isinstance(other, Figure):
        if figure.side != _VARIANT and other.side == _VARIANT:
            figure, compared, other = other, _FLIPPED[compared], figure
        if figure.side != _VARIANT or other.side == _VARIANT or figure.factor != 1:
            raise DeclarationError(f"'{text}': expected VARIANT on one side, and another side of the pair on the other")
        if figure.metric != other.metric:
            raise DeclarationError(f"'{text}': expected the same figure of both sides")
    elif figure.side != _VARIANT or figure.factor != 1:
        raise DeclarationError(f"'{text}': expected a figure of VARIANT; a claim is about the variants that it names")
    _check_kinds(figure.metric, compared, other, text)
    if isinstance(other, Figure):
        return Statement(metric=figure.metric, compared=compared, amount=other.factor, side=other.side)
    return Statement(metric=figure.metric, compared=compared, amount=other)


def _check_kinds(metric: str, compared: str, other: Any, text: str) -> None:
    """Raise a DeclarationError where a figure is not compared with what it can be compared with."""
    if metric == PROGRAM:
        if compared not in ("==", "!=") or not isinstance(other, Figure):
            raise DeclarationError(f"'{text}': a program is compared with == or != to another side's program")
    elif compared == "!=":
        raise DeclarationError(f"'{text}': expected <=, >=, ==, < or >")
    elif metric == COLLECTIVES:
        if compared != "==" or not _are_counts(other):
            raise DeclarationError(
                f"'{text}': collectives are compared with == to their counts by name, such as {{\"all-gather\": 1}}"
            )
    elif not isinstance(other, Figure) and not _is_number(other):
        raise DeclarationError(f"'{text}': expected a finite number, or a multiple of another side's {metric}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_counts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(count, int) and not isinstance(count, bool)
        for name, count in value.items()
    )


def _is_bytes(metric: str) -> bool:
    return metric.endswith("bytes") or metric == "bytes_accessed"


# Claims of a declaration about the compiled programs of its sides, each with its source.
@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement about a compiled variant, checked like a contract.

    Args:
        shows: a comparison of figures of the compiled sides, such as `VARIANT.while_loops == 0`,
            `VARIANT.temp_bytes <= 17e6` (bytes), `VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes`,
            `VARIANT.collectives == {"collective-permute": 2}` or `VARIANT.program == compiled_side("gather").program`.
        source: who says so: a pull request, a paper, or a measurement of one's own.
        variant: a shell pattern of the variants that it applies to; all by default, as with the three below.
        direction: `forward` or `gradient`.
        target: a target such as `tpu7x:*`; `tpu` or `cpu` is every target of that kind. It must match a
            declared target, or fit a known generation.
        versions: of libtpu (of jaxlib for the CPU).
        finding: for a claim that does *not* hold: what was found, with its numbers. It must then come out false.

    Raises:
        DeclarationError: `shows` is not a statement, or source or finding are empty.
    """

    shows: Statement
    source: str
    variant: str = "*"
    direction: str = "*"
    target: str = "*"
    versions: str = "*"
    finding: str | None = None

    def __post_init__(self) -> None:
        shows: object = self.shows  # of any type where no type checker runs
        if not isinstance(shows, Statement):
            got = f"{type(shows).__name__} {shows!r}"
            raise DeclarationError(f"Claim(shows=...) is {got}; expected a comparison such as {EXAMPLES}")
        if not self.source.strip() or (self.finding is not None and not self.finding.strip()):
            raise DeclarationError(
                f"claim '{self.shows}' has an empty source or finding; write who says so, or what was found"
            )

    def speaks_of(self, *, variant: str, direction: str, target: str, version: str | None) -> bool:
        """Tell whether the claim is about this comparison."""
        pairs = ((variant, self.variant), (direction, self.direction), (version or "", self.versions))
        matches = fnmatchcase(target, self.target) or self.target == Target(name=target).platform
        return matches and all(fnmatchcase(value, pattern) for value, pattern in pairs)
