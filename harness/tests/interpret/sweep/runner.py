"""Which primitives the calls produce, and what the domains make of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from samebits.errors import NearTie, NotCovered
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Type
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


def reason(domain: str, program: Any, args: list[Any]) -> str | None:
    """Why a domain does not interpret a program at arguments; None where it does.

    Args:
        domain: `labels`, `field`, `oracle` or `rounding`.
        program: a closed jaxpr.
        args: its arguments as host arrays, random keys as they are.
    """
    domains: dict[str, Any] = {
        "labels": LabelDomain(),
        "field": Field(),
        "oracle": Oracle(),
        "rounding": RoundingDomain(),
    }
    chosen = domains[domain]
    values = [_value(domain, chosen, number, arg) for number, arg in enumerate(args)]
    try:
        with np.errstate(all="ignore"):
            Interpreter(chosen, "cpu")(program, *values)
    except NearTie:
        return None  # a rule, and numbers that it does not decide by
    except NotCovered as error:
        return str(error)
    return None


def _value(domain: str, chosen: Any, number: int, arg: Any) -> Any:
    if not hasattr(arg, "dtype") or jax.numpy.issubdtype(arg.dtype, jax.dtypes.prng_key):
        return arg
    array = np.asarray(arg)
    kind = Type(array.shape, array.dtype)
    if kind.is_complex or not kind.is_float:
        return array
    if domain == "labels":
        return chosen.input(f"x{number}", kind)
    if domain == "field":
        return chosen.input(f"x{number}", array, kind)
    return array.astype(np.float64)


def shortfalls(domain: str, calls: Iterable[LibraryCall]) -> dict[str, list[str]]:
    """By the head of a message, the programs that a domain does not interpret."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        floats = [leaf for leaf in call.leaves() if jax.numpy.issubdtype(leaf.dtype, np.floating)]
        for name, program in programs(call):
            args = floats if name.startswith("gradient of ") else call.leaves()
            text = reason(domain, program, args)
            if text is not None:
                found[_head(text)].append(f"{name}: {text}")
    return dict(found)


def _head(text: str) -> str:
    return re.split(r"[(:]", text, maxsplit=1)[0]
