"""Rules of differentiation that code brings along itself, by which a function and its gradient are two programs.

A `custom_vjp` or `custom_jvp` returns the outputs once more, from other code than the function's own. The rules of
jax's own library, such as that of `jax.nn.relu`, are taken for right.
"""

from __future__ import annotations

from typing import Any

from samebits.interpret.equation import JAX, is_machinery
from samebits.programs.captured_values import equations

_RULES = ("custom_jvp_call", "custom_vjp_call")


def own_rules(closed: Any) -> tuple[str, ...]:
    """The functions in a program that have a rule outside of jax, as `name at file:line`.

    Args:
        closed: a closed jaxpr.
    """
    called = [e.params["call_jaxpr"] for e in equations(closed.jaxpr) if e.primitive.name in _RULES]
    return tuple(dict.fromkeys(source for source in map(_source, called) if not _is_of_jax(source)))


def _source(called: Any) -> str:
    """What a function is called, and where it is; empty where jax does not say."""
    info = getattr(called, "debug_info", None) or getattr(called.jaxpr, "debug_info", None)
    return str(getattr(info, "func_src_info", ""))


def _is_of_jax(source: str) -> bool:
    return is_machinery(source.rpartition(" at ")[2].rpartition(":")[0], JAX)
