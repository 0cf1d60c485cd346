"""The equations of a program, those of its inner programs included."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.complex_pairs import real_kind
from samebits.interpret.dead_code import live
from samebits.interpret.equation import type_of
from samebits.interpret.interpreter import CALLS


@functools.lru_cache(maxsize=256)
def exponentials(program: Any) -> int:
    """How many equations of a program are exponentials, those of its inner programs included; counted to two."""
    names = ("exp", "exp2", "expm1", "logistic", "tanh")
    return min(2, sum(equation.primitive.name in names for equation in equations(live(program).jaxpr)))


def longest_scan(jaxpr: Any) -> int:
    """The length of the longest scan of an open jaxpr, those of its inner programs included; 0 without one."""
    return max((each.params["length"] for each in equations(jaxpr) if each.primitive.name == "scan"), default=0)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of an open jaxpr, those of its inner programs behind the one that holds them."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_programs(equation):
            yield from equations(inner)


def inner_programs(equation: Any) -> Iterator[Any]:
    """The open jaxprs that an equation calls."""
    for name in dict.fromkeys(("jaxpr", "body_jaxpr", "cond_jaxpr", *CALLS.values())):  # each once
        if name in equation.params:
            yield getattr(equation.params[name], "jaxpr", equation.params[name])
    for branch in equation.params.get("branches", ()):
        yield getattr(branch, "jaxpr", branch)


def most_alive(jaxpr: Any) -> int:
    """How many elements the values that are needed at once have at most, in the order of the equations."""
    last = {var: number for number, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if not hasattr(var, "val")}
    last |= {var: len(jaxpr.eqns) for var in jaxpr.outvars if not hasattr(var, "val")}
    alive = most = sum(map(_elements, (*jaxpr.invars, *jaxpr.constvars)))
    for number, equation in enumerate(jaxpr.eqns):
        results = sum(map(_elements, equation.outvars))
        most = max(most, alive + max((results, *map(most_alive, inner_programs(equation)))))
        read = {var for var in equation.invars if not hasattr(var, "val")}
        alive += results - sum(_elements(var) for var in read if last[var] == number)
    return most


def _elements(var: Any) -> int:
    return math.prod(getattr(var.aval, "shape", ()))


def float_results(jaxpr: Any) -> Iterator[tuple[np.dtype[Any], Any]]:
    """Yield the float dtype of each result, that of its parts if complex, and its equation; calls are left out."""
    for equation in equations(jaxpr):
        for var in () if equation.primitive.name in CALLS else equation.outvars:
            kind = float_kind(var.aval)
            if kind is not None:
                yield kind, equation


def float_kind(aval: Any) -> np.dtype[Any] | None:
    """The dtype of a float type, that of the parts of a complex one; None of any other."""
    try:
        kind = type_of(aval)
    except NotCovered:  # of a token
        return None
    kind = real_kind(kind) if kind.is_complex else kind
    return kind.dtype if kind.is_float else None
