"""Parts of a program that its StableHLO does not show: Python callbacks, and arrays that lowering passes separately.

Two callbacks have one text, `custom_call @xla_ffi_python_cpu_callback`, whatever they compute; and where jax is set to
simplified constants, a captured array becomes an argument whose values are nowhere in the text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from samebits.host.cache_keys import digest_of
from samebits.interpret.equation import JAX, is_machinery

_CALLS_PYTHON = re.compile(r"@\w*callback\w*|is_host_transfer = true|(?:infeed|outfeed)")
"""How an exchange with the host looks in StableHLO: on CPU and GPU a custom call, on TPU a transfer."""

_PRIMITIVES = ("callback", "debug_print", "infeed", "outfeed")


def calls_python(jaxpr: Any, text: str) -> bool:
    """Tell whether a program calls back into Python, where nothing can be read off about what it computes."""
    return _CALLS_PYTHON.search(text) is not None or any(
        word in equation.primitive.name for equation in equations(jaxpr) for word in _PRIMITIVES
    )


def captured_arrays(jaxpr: Any) -> str:
    """Digest the arrays that a program has captured, where its StableHLO may leave them out; else nothing."""
    import jax

    return constants_of(jaxpr) if getattr(jax.config, "jax_use_simplified_jaxpr_constants", True) else ""


def constants_of(jaxpr: Any) -> str:
    """Digest all arrays that a program has captured, as they are now: those of NumPy may be changed in place."""
    from jax.core import Tracer  # of which a scope within a kernel takes what is around it

    captured = [*getattr(jaxpr, "consts", ())]
    for equation in equations(jaxpr):
        captured += [variable.val for variable in equation.invars if getattr(getattr(variable, "val", None), "ndim", 0)]
        for inner in _inner(equation):
            captured += [each for each in getattr(inner, "consts", ()) if not isinstance(each, Tracer)]
    captured += [
        variable.val for variable in _open(jaxpr).outvars if getattr(getattr(variable, "val", None), "ndim", 0)
    ]
    return digest_of(captured)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr, closed or not, and of those inside, each jaxpr once."""
    yield from _equations(jaxpr, set())


def _equations(jaxpr: Any, visited: set[int]) -> Iterator[Any]:
    jaxpr = _open(jaxpr)
    if id(jaxpr) in visited:  # all are held by the outermost
        return
    visited.add(id(jaxpr))
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inner(equation):
            yield from _equations(inner, visited)


def _inner(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        for candidate in value if isinstance(value, tuple | list) else (value,):
            if hasattr(_open(candidate), "eqns"):
                yield candidate


def _open(jaxpr: Any) -> Any:
    """Return a jaxpr without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)


# Rules of differentiation outside of jax, which make a function and its gradient two programs.
_FUNCTIONS = re.compile("/jax/(_src/|experimental/)(nn|numpy|scipy|lax|ops|image|random|pallas)")
"""Files of jax that hold functions, and not what maps and traces them."""

_RULES = ("call_hi_primitive", "custom_jvp_call", "custom_vjp_call")


def own_rules(closed: Any) -> tuple[str, ...]:
    """List the functions in a program whose rule is not jax's own, as `name at file:line`."""
    called = [e for e in equations(closed.jaxpr) if e.primitive.name in _RULES]
    return tuple(dict.fromkeys(source for source in map(_source, called) if not _is_of_jax(source)))


def own_stops(closed: Any) -> tuple[str, ...]:
    """List the places where code outside of jax stops gradients, as `file:line`."""
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
