"""Equations as other programs: a primitive written in simpler ones, traced by jax and interpreted in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from samebits.errors import MissingRule, NotCovered
from samebits.interpret.devices import Axes
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type

Program = Callable[..., Any]


def rewritten(
    interpreter: InterpreterProtocol, step: Step, values: Sequence[Value], program: Program, *static: Any
) -> list[Value]:
    """The outputs of an equation, computed by another program of the same types.

    Args:
        interpreter: evaluates it.
        step: the equation.
        values: its operands.
        program: a jax function at module level of the static arguments and then the operands.
        static: hashable.

    Raises:
        NotCovered: the domain has no rule for a part of it; the message names the equation.
    """
    try:
        return interpreter.closed(_traced(program, static, step.inputs), values, Axes())
    except NotCovered as error:
        within = type(error)(f"{step}, as {program.__name__}: {error}")
        if isinstance(within, MissingRule):
            within.primitive, within.place = step.name, step.place
        raise within from error


@functools.lru_cache(maxsize=256)
def _traced(program: Program, static: tuple[Any, ...], kinds: tuple[Type, ...]) -> Any:
    import jax  # here, because the interpreter itself needs none

    types = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds]
    with jax.enable_x64(True), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        return jax.make_jaxpr(functools.partial(program, *static))(*types)
