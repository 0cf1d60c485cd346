"""The equations of a program, those of its inner programs included."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from samebits.interpret.dead_code import live
from samebits.interpret.interpreter import CALLS


@functools.lru_cache(maxsize=256)
def exponentials(program: Any) -> int:
    """How many equations of a program are exponentials, those of its inner programs included; counted to two."""
    count = 0
    for equation in equations(live(program).jaxpr):
        if equation.primitive.name in ("exp", "exp2", "expm1", "logistic", "tanh"):
            count += 1
    return min(count, 2)


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of an open jaxpr, those of its inner programs behind the one that holds them."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in dict.fromkeys(("jaxpr", "body_jaxpr", "cond_jaxpr", *CALLS.values())):  # each once
            if inner in equation.params:
                yield from equations(getattr(equation.params[inner], "jaxpr", equation.params[inner]))
        for branch in equation.params.get("branches", ()):
            yield from equations(getattr(branch, "jaxpr", branch))
