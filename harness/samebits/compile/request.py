"""The request of `samebits compile`: targets, filters and compiler options. No jax."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from samebits.errors import RequestError
from samebits.programs.plan import Request
from samebits.schema.contract import DIRECTIONS
from samebits.schema.pair import Pair
from samebits.schema.target import Target
from samebits.schema.validate import expected

PRODUCTS = ("full", "bf16")
"""How programs that are run take products of float32: in full precision, or in passes of bfloat16 as a TPU does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileOption:
    """A compiler option for one side, or for every side."""

    name: str
    value: str
    side: str | None = None

    @classmethod
    def parse(cls, text: str) -> CompileOption:
        """Read `NAME=VALUE` or `SIDE:NAME=VALUE`.

        Raises:
            RequestError: it is malformed.
        """
        name, equals, value = text.partition("=")
        side, colon, rest = name.rpartition(":")
        if not equals or not rest or (colon and not side):
            raise RequestError(f"--option {text}: expected NAME=VALUE, or SIDE:NAME=VALUE for one side only")
        return cls(name=rest.removeprefix("--"), value=value, side=side or None)

    def __str__(self) -> str:
        return f"{self.side}:{self.name}={self.value}" if self.side else f"{self.name}={self.value}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileRequest:
    """What to compile; empty means everything that is declared.

    Args:
        targets: instead of each case's own.
        sides, cases, directions: shell patterns; the reference is always compiled too.
    """

    targets: tuple[Target, ...] = ()
    sides: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    options: tuple[CompileOption, ...] = ()

    def of_side(self, side: str) -> dict[str, str]:
        """Return the options of one side; options for this side override options for all sides."""
        ordered = sorted(self.options, key=lambda option: option.side is not None)
        return {option.name: option.value for option in ordered if option.side in (None, side)}


def check_request(pairs: Sequence[Pair], request: CompileRequest) -> None:
    """Check that every name in a request matches at least one pair.

    Raises:
        RequestError: a case, a side, or the side of an option is unknown.
    """
    cases = list(dict.fromkeys(real.case.id for pair in pairs for real in pair.compiled))
    sides = list(dict.fromkeys(side for pair in pairs for side in pair.sides))
    lists: tuple[tuple[str, tuple[str, ...], list[str]], ...] = (
        ("--case", request.cases, cases),
        ("--variant", request.sides, sides),
        ("--direction", request.directions, list(DIRECTIONS)),
    )
    for flag, names, known in lists:
        for name in names:
            if not any(fnmatchcase(known_name, name) for known_name in known):
                raise RequestError(f"{flag} {name}: no pair has it; {expected(name, known)}")
    for option in request.options:
        if option.side is not None and option.side not in sides:
            raise RequestError(
                f"--option {option.side}:{option.name}: no pair has this side; {expected(option.side, sides)}"
            )


def of_programs(request: Request, target: str) -> Request:
    """Return what a request selects among the programs of a target: names of cases as in a pair, or of programs."""
    programs = tuple(case for case in request.cases if case.endswith(DIRECTIONS))
    chosen = replace(request, cases=tuple(case for case in request.cases if case not in programs))
    names = [
        getattr(chosen, field) or ("*",) for field in ("variants", "cases", "dtypes", "meshes", "modes", "directions")
    ]
    patterns = () if programs and chosen == Request(sizes=request.sizes) else map("_".join, itertools.product(*names))
    return Request(cases=(*patterns, *programs), variants=(variant_of(target),), sizes=request.sizes)


def variant_of(target: str) -> str:
    """Return what the programs of a target are called as a variant."""
    return re.sub(r"\W", "_", target)
