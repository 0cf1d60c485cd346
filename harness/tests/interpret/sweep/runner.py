"""Which primitives the calls produce, and what the domains make of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from samebits.errors import NearTie, NotCovered
from samebits.interpret.dead_code import live
from samebits.interpret.field.domain import Field
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error.domain import RoundingDomain
from tests.interpret.sweep.calls import LibraryCall


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of the primitives of a program, those of its inner programs included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner)


def programs(call: LibraryCall) -> Iterator[tuple[str, Any]]:
    """The program of a call and that of its gradient."""
    yield call.name, call.program()
    gradient = call.gradient()
    if gradient is not None:
        yield f"gradient of {call.name}", gradient


def produced(calls: Iterable[LibraryCall]) -> dict[str, list[str]]:
    """By primitive, the programs that it occurs in."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        for name, program in programs(call):
            for primitive in set(primitives(live(program).jaxpr)):
                found[primitive].append(name)
    return dict(sorted(found.items()))
