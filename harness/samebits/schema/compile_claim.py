"""What a pair says that a compiler makes of it: `no_while_loops`, `temp_bytes <= 0.02 x reference`, with its source."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.target import Target
from samebits.schema.validate import expected

NUMBERS = (
    "while_loops",
    "loop_turns",
    "gathers",
    "scatters",
    "copies",
    "sparsecore",
    "wire_bytes",
    "temp_bytes",
    "peak_bytes",
    "argument_bytes",
    "output_bytes",
    "bytes_accessed",
    "flops",
    "optimal_seconds",
)
"""What can be counted or measured of a compiled program; the keys of `samebits compile --json`."""

COUNTED = ("while_loops", "gathers", "scatters", "copies", "collectives", "sparsecore")
"""What `no_...` can be said of."""

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_UNITS = {"": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_COMPARED = re.compile(r"(\w+) *(<=|>=|==|<|>) *(.+)")
_TIMES = re.compile(r"([0-9.eE+-]+) *x *(\w+)")
_AMOUNT = re.compile(r"([0-9.eE+-]+) *(KB|MB|GB)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One statement about a compiled variant, checked like a contract.

    Args:
        shows: `no_while_loops` (any of `COUNTED`); `same_program` or `other_program`, against the reference, or
            `same_program as gather`, against another side; `temp_bytes <= 17 MB` (any of `NUMBERS`); `temp_bytes <=
            0.02 x reference` (or another side's name); `collectives == {"collective-permute": 2}`.
        source: who says so: a pull request, a paper, or a measurement of one's own.
        variant: a shell pattern of the variants that it speaks of; all by default, as with the three below.
        direction: `forward` or `gradient`.
        target: a target such as `tpu7x:*`; `tpu` or `cpu` is every target of that kind.
        versions: of libtpu (of jaxlib for the CPU).
        finding: for a claim that does *not* hold: what was found, with its numbers. It must then come out false.

    Raises:
        DeclarationError: the statement cannot be read, or source or finding are empty.
    """

    shows: str
    source: str
    variant: str = "*"
    direction: str = "*"
    target: str = "*"
    versions: str = "*"
    finding: str | None = None

    def __post_init__(self) -> None:
        if not self.source.strip() or (self.finding is not None and not self.finding.strip()):
            raise DeclarationError(
                f"claim '{self.shows}' has an empty source or finding; write who says so, or what was found"
            )
        parse(self.shows)

    def speaks_of(self, *, variant: str, direction: str, target: str, version: str | None) -> bool:
        """Whether the claim is about this comparison."""
        pairs = ((variant, self.variant), (direction, self.direction), (version or "", self.versions))
        there = fnmatchcase(target, self.target) or self.target == Target(name=target).platform
        return there and all(fnmatchcase(value, pattern) for value, pattern in pairs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A claim's statement, read: `metric operator amount`, the amount times that of a side where one is named."""

    metric: str
    compared: str = "=="
    amount: Any = 0
    side: str | None = None

    def judge(self, facts: Mapping[str, Mapping[str, Any]], variant: str, reference: str) -> tuple[bool | None, str]:
        """Whether it holds of a variant, and what was seen; None where the compiler gives no figure.

        Args:
            facts: of every side of one case, direction and target, by side.
            variant, reference: names of sides.
        """
        if self.metric == "program":
            side = reference if self.side == "reference" else str(self.side)
            if side not in facts:
                return None, f"{side} was not compiled"
            same = facts[variant]["program"] == facts[side]["program"]
            return same is self.amount, "the same program" if same else "another program"
        own = facts[variant].get(self.metric)
        if own is None:
            return None, f"the compiler gives no figure for {self.metric}"
        if self.side is None:
            return _OPERATORS[self.compared](own, self.amount), shown(self.metric, own)
        other = facts.get(reference if self.side == "reference" else self.side, {}).get(self.metric)
        if other is None:
            return None, f"{self.side} has no figure for {self.metric}"
        ratio = f"{own / other:.3g} x {self.side}" if other else f"{self.side} has none"
        return _OPERATORS[self.compared](own, self.amount * other), f"{shown(self.metric, own)}, {ratio}"


def parse(shows: str) -> Statement:
    """Read a statement.

    Raises:
        DeclarationError: it is none, with what is expected.
    """
    text = shows.strip()
    compared_whole = re.fullmatch(r"(same_program|other_program)(?: as (\w+)| than (\w+))?", text)
    if compared_whole:
        side = compared_whole[2] or compared_whole[3] or "reference"
        return Statement(metric="program", amount=compared_whole[1] == "same_program", side=side)
    if text.startswith("no_"):
        metric = text.removeprefix("no_")
        if metric not in COUNTED:
            raise DeclarationError(f"claim '{shows}': '{metric}' is not counted; {expected(metric, COUNTED)}")
        return Statement(metric=metric, amount={} if metric == "collectives" else 0)
    found = _COMPARED.fullmatch(text)
    if not found:
        raise DeclarationError(
            f"claim '{shows}' cannot be read; expected no_while_loops, same_program, other_program, "
            "'temp_bytes <= 17 MB', 'temp_bytes <= 0.02 x reference' or 'collectives == {\"collective-permute\": 2}'"
        )
    metric, compared, amount = found[1], found[2], found[3].strip()
    if metric == "collectives":
        return Statement(metric=metric, compared=_equality(shows, compared), amount=_counts(shows, amount))
    if metric not in NUMBERS:
        raise DeclarationError(f"claim '{shows}': unknown figure; {expected(metric, (*NUMBERS, 'collectives'))}")
    times, plain = _TIMES.fullmatch(amount), _AMOUNT.fullmatch(amount)
    try:
        if times:
            return Statement(metric=metric, compared=compared, amount=float(times[1]), side=times[2])
        if plain:
            return Statement(metric=metric, compared=compared, amount=float(plain[1]) * _UNITS[plain[2] or ""])
    except ValueError:
        pass
    raise DeclarationError(f"claim '{shows}': amount '{amount}' cannot be read; expected 17, 17 MB or 0.02 x reference")


def _equality(shows: str, compared: str) -> str:
    if compared != "==":
        raise DeclarationError(f"claim '{shows}': collectives are compared with == only")
    return compared


def _counts(shows: str, text: str) -> dict[str, int]:
    try:
        counts = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        counts = None
    if not isinstance(counts, dict) or not all(isinstance(k, str) and isinstance(v, int) for k, v in counts.items()):
        raise DeclarationError(f"claim '{shows}': expected counts such as {{\"collective-permute\": 2}}, got {text}")
    return counts


def shown(metric: str, value: Any) -> str:
    """A figure in words: bytes in MB, counts as they are."""
    if metric == "collectives":
        return ", ".join(f"{name} {number}" for name, number in value.items()) or "none"
    if metric.endswith("bytes") or metric == "bytes_accessed":
        return f"{value / 1e6:,.1f} MB".replace(",", " ")
    return f"{value:.3g}" if isinstance(value, float) else str(value)
