"""Rules of differentiation outside of jax, which make a function and its gradient two programs.

The rule of a `custom_vjp` or `custom_jvp` computes the outputs once more, by other code than the function's. Rules of
jax's own library, such as that of `jax.nn.relu`, are taken to be right.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from samebits.interpret.equation import JAX, is_machinery
from samebits.programs.captured_values import equations

_FUNCTIONS = re.compile("/jax/(_src/|experimental/)(nn|numpy|scipy|lax|ops|image|random|pallas)")
"""Files of jax that hold functions, and not what maps and traces them."""

_RULES = ("call_hi_primitive", "custom_jvp_call", "custom_vjp_call")


def own_rules(closed: Any) -> tuple[str, ...]:
    """List the functions in a program whose rule is not jax's own, as `name at file:line`.

    Args:
        closed: a closed jaxpr.
    """
    called = [e for e in equations(closed.jaxpr) if e.primitive.name in _RULES]
    return tuple(dict.fromkeys(source for source in map(_source, called) if not _is_of_jax(source)))


def own_stops(closed: Any) -> tuple[str, ...]:
    """List the places where code outside of jax stops gradients, as `file:line`.

    Args:
        closed: a closed jaxpr.
    """
    stops = [e for e in equations(closed.jaxpr) if e.primitive.name == "stop_gradient"]
    return tuple(dict.fromkeys(place for place in map(_caller, stops) if place is not None))


def _caller(equation: Any) -> str | None:
    """Find where `stop_gradient` was called; None where a function of jax calls it."""
    frames = iter(getattr(equation.source_info.traceback, "frames", ()))
    next((frame for frame in frames if frame.function_name == "stop_gradient"), None)
    for frame in frames:
        if _FUNCTIONS.search(frame.file_name.replace("\\", "/")):
            return None
        if not is_machinery(frame.file_name, JAX):  # what is between only maps trees and traces
            return f"{frame.file_name}:{frame.line_num}"
    return None


def _source(equation: Any) -> str:
    """Name a function or a primitive with a rule, with its place; empty where jax does not know it."""
    if "_prim" in equation.params:  # a primitive written in Python
        kind = type(equation.params["_prim"])
        return f"{kind.__qualname__} at {getattr(sys.modules.get(kind.__module__), '__file__', '')}:"
    called = equation.params["call_jaxpr"]
    info = getattr(called, "debug_info", None) or getattr(called.jaxpr, "debug_info", None)
    return str(getattr(info, "func_src_info", ""))


def _is_of_jax(source: str) -> bool:
    file = source.rpartition(" at ")[2].rpartition(":")[0]
    return not file.startswith("<") and is_machinery(file, JAX)  # a cell of a notebook has such a name
