"""The lines at which an output gets its dtype, and at which numbers become narrower than anywhere in the other program.

Neither is another formula: to the fields a cast between floats is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from samebits.interpret.alignment.sources import code_at, place_of
from samebits.interpret.dead_code import only
from samebits.interpret.inner_equations import float_kind, float_results
from samebits.interpret.interpreter import CALLS, called
from samebits.numerics import floats
from samebits.schema.line_difference import Change, LineDifference

_BODIES = {"scan": "jaxpr", "while": "body_jaxpr", "cond": "branches"}


def dtype_lines(reference: Any, variant: Any, number: int | None) -> tuple[LineDifference, ...]:
    """Find where an output gets its dtype or weak type on either side; nothing where it is that of an argument on both.

    Args:
        reference, variant: closed jaxprs.
        number: of the output, which has another type on both sides; None for the first that has another dtype.
    """
    if number is None:
        types = enumerate(zip(reference.out_avals, variant.out_avals, strict=True))
        number = next(place for place, kinds in types if kinds[0].dtype != kinds[1].dtype)
    kinds = [side.out_avals[number] for side in (reference, variant)]
    of: Callable[[Any], Hashable] = _weak if kinds[0].dtype == kinds[1].dtype else _dtype
    theirs, mine = (_setter(side, number, of)[0] for side in (reference, variant))
    return _line("dtype", mine, theirs)


def narrower_lines(reference: Any, variant: Any, number: int) -> tuple[LineDifference, ...]:
    """Find the first place of the variant at which floats are narrower than anywhere in the reference.

    Args:
        reference, variant: closed jaxprs.
        number: of the output that loses accuracy.
    """
    results = (float_results(only(side, (number,)).jaxpr) for side in (reference, variant))
    theirs, mine = ([(floats.digits(dtype), equation) for dtype, equation in side] for side in results)
    widest = (floats.digits(float_kind(aval)) for aval in reference.in_avals if float_kind(aval) is not None)
    least = min((*widest, *(digits for digits, _ in theirs)), default=0)
    return _line("narrower", next((equation for digits, equation in mine if digits < least), None), None)


def losing_line(equation: Any) -> tuple[LineDifference, ...]:
    """Return the place of the operation that loses the most accuracy."""
    return _line("accuracy", equation, None)


def _line(change: Change, mine: Any, theirs: Any) -> tuple[LineDifference, ...]:
    here, there = (None if equation is None else place_of(equation) for equation in (mine, theirs))
    if here is None and there is None:
        return ()
    named = mine if here is not None else theirs
    return (
        LineDifference(
            change=change,
            variant=None if here is None else str(here),
            variant_code="" if here is None else code_at(mine),
            reference=None if there is None else str(there),
            reference_code="" if there is None else code_at(theirs),
            primitive=named.primitive.name,
        ),
    )


def _setter(jaxpr: Any, number: int, of: Callable[[Any], Hashable]) -> tuple[Any, int | None]:
    """Find the equation that gives an output its type, or the number of the input that it gets it from."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    producers = {id(out): (eqn, place) for eqn in jaxpr.eqns for place, out in enumerate(eqn.outvars)}
    inputs = {id(var): place for place, var in enumerate(jaxpr.invars)}
    variable = jaxpr.outvars[number]
    kind = of(variable.aval)
    while id(variable) in producers:
        equation, place = producers[id(variable)]
        alike = [var for var in equation.invars if not hasattr(var, "val") and of(var.aval) == kind]
        if equation.primitive.name in CALLS:
            setting, source = _setter(called(equation), place, of)
            if source is None or source >= len(equation.invars) or hasattr(equation.invars[source], "val"):
                return (setting or equation), None
            variable = equation.invars[source]
        elif alike:
            variable = max(alike, key=lambda var: len(var.aval.shape))
        else:
            body = equation.params.get(_BODIES.get(equation.primitive.name, ""))
            body = body[0] if isinstance(body, tuple) else body
            setting = None if body is None else _setter(body, place, of)[0]
            return (setting or equation), None
    return None, inputs.get(id(variable))


def _dtype(aval: Any) -> Hashable:
    return str(getattr(aval, "dtype", None))


def _weak(aval: Any) -> Hashable:
    return bool(getattr(aval, "weak_type", False))
