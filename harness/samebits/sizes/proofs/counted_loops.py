"""The counted loops of a program that is traced with symbols for sizes, as jax has them where sizes are numbers.

`lax.fori_loop(0, n, body, start)` is a scan where `n` is a number, which is what runs and has a gradient. Where `n` is
a symbol it is a `while`, which has none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.errors import InconclusiveDimensionOperation
from jax.extend.core import jaxpr_as_fun

from samebits.interpret.dead_code import each_level
from samebits.interpret.inner_equations import equations
from samebits.sizes.proofs.symbolic_slices import size_of


def with_scans(closed: Any, *, differentiable: bool = False) -> Any:
    """A program whose counted `while` loops are scans; itself where it has none.

    A loop counts where its predicate compares a carried integer with a size, and each step adds 1 to that integer,
    which starts at a size or a number. A loop that may end before it begins stays as it is.

    Args:
        closed: a closed jaxpr.
        differentiable: only loops of `lax.fori_loop`, since a `lax.while_loop` has no gradient at any size.
    """
    if not any(eqn.primitive.name == "while" for eqn in equations(closed.jaxpr)):
        return closed
    changed = each_level(closed.jaxpr, functools.partial(_scanned, differentiable=differentiable))
    return closed if changed is closed.jaxpr else closed.replace(jaxpr=changed)


def _scanned(jaxpr: Any, differentiable: bool) -> Any:
    origins = _made_by(jaxpr)
    eqns: list[Any] = []
    kept: dict[Any, Any] = {}  # a result that is what the loop got
    is_changed = False
    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=_renamed(eqn.invars, kept)) if kept else eqn
        inner = _scan_of(eqn, origins, differentiable) if eqn.primitive.name == "while" else None
        if inner is None:
            eqns.append(eqn)
            continue
        is_changed = True
        names = dict(zip(inner.invars, _operands(eqn), strict=True))
        for var, outer in zip(inner.outvars, eqn.outvars, strict=True):
            if var in names:
                kept[outer] = names[var]
            else:
                names[var] = outer
        eqns += [e.replace(invars=_renamed(e.invars, names), outvars=_renamed(e.outvars, names)) for e in inner.eqns]
    return jaxpr.replace(eqns=eqns, outvars=_renamed(jaxpr.outvars, kept)) if is_changed else jaxpr


def _operands(eqn: Any) -> list[Any]:
    """The constants and carries of the body of a `while`."""
    return list(eqn.invars[eqn.params["cond_nconsts"] :])


def _renamed(atoms: Iterable[Any], names: dict[Any, Any]) -> list[Any]:
    return [atom if hasattr(atom, "val") else names.get(atom, atom) for atom in atoms]


def _scan_of(eqn: Any, origins: dict[Any, Any], differentiable: bool) -> Any:
    """The jaxpr of a scan with the body of a `while`; None where its steps are not counted."""
    steps = None if eqn.effects else _steps(eqn, origins, differentiable)
    if steps is None:
        return None
    body, consts = eqn.params["body_jaxpr"], eqn.params["body_nconsts"]

    def loop(*operands: Any) -> Any:
        def step(carry: Any, _: Any) -> tuple[Any, None]:
            return tuple(jaxpr_as_fun(body)(*operands[:consts], *carry)), None

        # A number of steps has to be a number; an array has as many rows as its shape says.
        return lax.scan(step, tuple(operands[consts:]), lax.iota(np.int32, steps))[0]

    closed = jax.make_jaxpr(loop)(*(atom.aval for atom in _operands(eqn)))
    # A number as a result has no equation that could give it.
    is_plain = not closed.consts and not any(hasattr(var, "val") for var in closed.jaxpr.outvars)
    return closed.jaxpr if is_plain else None


def _steps(eqn: Any, origins: dict[Any, Any], differentiable: bool) -> Any:
    """How many steps a `while` takes, as a size; None where that is not seen."""
    test, tests = eqn.params["cond_jaxpr"].jaxpr, eqn.params["cond_nconsts"]
    body, consts = eqn.params["body_jaxpr"].jaxpr, eqn.params["body_nconsts"]
    before, starts = body.invars[consts:], eqn.invars[tests + consts :]
    counter, end = _compared(test)
    if counter not in test.invars[tests:]:
        return None
    number = test.invars[tests:].index(counter)
    if not _adds_one(body, before[number], body.outvars[number]):
        return None
    if end in test.invars[tests:]:
        place = test.invars[tests:].index(end)
        last = size_of(starts[place], origins) if body.outvars[place] is before[place] else None
    elif differentiable:
        last = None
    elif end in test.invars:
        last = size_of(eqn.invars[test.invars.index(end)], origins)
    else:
        last = size_of(end, _made_by(test))
    first = size_of(starts[number], origins)
    if first is None or last is None:
        return None
    try:
        return last - first if last - first >= 0 else None
    except InconclusiveDimensionOperation:  # it depends on the sizes whether there is a step
        return None


def _made_by(jaxpr: Any) -> dict[Any, Any]:
    return {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}


def _compared(test: Any) -> tuple[Any, Any]:
    """What a predicate says is below what; None twice where it says something else."""
    eqn = _made_by(test).get(test.outvars[0]) if not hasattr(test.outvars[0], "val") else None
    if eqn is None or eqn.primitive.name not in ("lt", "gt"):
        return None, None
    small, large = eqn.invars if eqn.primitive.name == "lt" else reversed(eqn.invars)
    return small, large


def _adds_one(body: Any, before: Any, after: Any) -> bool:
    """Whether a step adds 1 to an integer that it carries."""
    eqn = _made_by(body).get(after) if not hasattr(after, "val") else None
    if eqn is None or eqn.primitive.name != "add" or before.aval.dtype.kind != "i":
        return False
    others = [atom for atom in eqn.invars if atom is not before]
    return len(others) == 1 and hasattr(others[0], "val") and int(others[0].val) == 1
