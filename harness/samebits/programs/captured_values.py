"""Parts of a program that its StableHLO does not show: Python callbacks, and arrays that lowering passes separately.

Two callbacks have one text, `custom_call @xla_ffi_python_cpu_callback`, whatever they compute; and where jax is set to
simplified constants, a captured array becomes an argument whose values are nowhere in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from samebits.host.cache_keys import digest_of

_CALLS_PYTHON = re.compile(r"@\w*callback\w*|is_host_transfer = true|(?:infeed|outfeed)")
"""How an exchange with the host looks in StableHLO: on CPU and GPU a custom call, on TPU a transfer."""

_PRIMITIVES = ("callback", "debug_print", "infeed", "outfeed")


def calls_python(jaxpr: Any, text: str) -> bool:
    """Whether a program calls back into Python, where nothing can be read off about what it computes.

    Args:
        jaxpr: of the program, closed or not.
        text: its StableHLO.
    """
    return _CALLS_PYTHON.search(text) is not None or any(
        word in equation.primitive.name for equation in equations(jaxpr) for word in _PRIMITIVES
    )


def captured_arrays(jaxpr: Any) -> str:
    """A digest of the arrays that a program has captured, where its StableHLO may leave them out; else nothing.

    Args:
        jaxpr: of the program, closed or not.
    """
    import jax

    return constants_of(jaxpr) if getattr(jax.config, "jax_use_simplified_jaxpr_constants", True) else ""


def constants_of(jaxpr: Any) -> str:
    """A digest of all arrays that a program has captured, as they are now: those of NumPy may be changed in place.

    Args:
        jaxpr: of the program, closed or not.
    """
    captured = [*getattr(jaxpr, "consts", ())]
    for equation in equations(jaxpr):
        captured += [variable.val for variable in equation.invars if getattr(getattr(variable, "val", None), "ndim", 0)]
        for inner in _inner(equation):
            captured += getattr(inner, "consts", ())
    captured += [
        variable.val for variable in _open(jaxpr).outvars if getattr(getattr(variable, "val", None), "ndim", 0)
    ]
    return digest_of(captured)


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr, closed or not, and of those inside, each jaxpr once."""
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
    """A jaxpr without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)
