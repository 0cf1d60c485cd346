"""Traces a side of a pair with its changes of global state undone, and refuses a program that chance decides."""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from samebits.errors import DeclarationError
from samebits.host.interrupts import Stop
from samebits.host.isolation import undone
from samebits.host.process_state import NUMPY_RANDOM, PYTHON_RANDOM
from samebits.programs.captured_values import captured_arrays

_SYMBOL = re.compile(r"@(?:[\w.$-]+|\"[^\"]*\")")

_CALLS = {NUMPY_RANDOM: "np.random", PYTHON_RANDOM: "random"}


def trace_alone(
    who: str,
    active: Callable[[], AbstractContextManager[None]],
    function: Callable[..., Any],
    types: tuple[Any, ...],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Any:
    """Trace a function; `around` puts back what it changes.

    Raises:
        DeclarationError: it drew from a global random generator, and other draws give a different program.
    """
    import jax

    def traced() -> tuple[Any, list[str]]:
        with undone(f"{who}, while it was traced,") as changed, around(), active():
            program = contextvars.copy_context().run(lambda: jax.jit(function, keep_unused=True).trace(*types))
        return program, changed

    program, changed = traced()
    drawn = [_CALLS[words] for words in changed if words in _CALLS]
    if drawn:
        # The caches of jax were dropped with what was undone, so that the function runs again.
        again, _ = traced()
        with active():
            if shown(program.lower(), program.jaxpr) != shown(again.lower(), again.jaxpr):
                raise DeclarationError(
                    f"{who} draws unseeded random numbers ({' and '.join(drawn)}) while it is traced, so that each "
                    "trace gives a different program; draw them from a seeded generator, or pass them as an argument"
                )
    return program


def traced_or_none(
    who: str,
    active: Callable[[], AbstractContextManager[None]],
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Any:
    """Trace what `make` gives, as `trace_alone` does; None where anything of it raises."""
    try:
        return trace_alone(who, active, *make(), around)
    except BaseException as error:  # `sys.exit()` is no `Exception`
        if Stop.caused(error):
            raise
        return None


def shown(lowered: Any, jaxpr: Any) -> tuple[str, str]:
    """Return all that decides what a program computes: its StableHLO, and the arrays that this does not show.

    Its functions are named in their order: a counter in the name of one is not another program.
    """
    names: dict[str, str] = {}
    text = _SYMBOL.sub(lambda match: names.setdefault(match[0], f"@{len(names)}"), lowered.as_text())
    return text, captured_arrays(jaxpr)
