"""Dead and repeated code: equations whose results are not used need no rule in any domain, and equal ones one value.

`jax.interpreters.partial_eval.dce_jaxpr` removes them, inside calls, scans and branches too. Two things are added: a
debug callback is an effect that no output depends on, and the loops of older versions of jax hold on to every carry.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

PRINTS = frozenset({"debug_callback", "debug_print"})
"""Primitives whose only effect is a message. All other effects stay, since what they write may be read again."""


@functools.lru_cache(maxsize=128)
def live(closed: Any) -> Any:
    """A closed jaxpr with the same inputs and outputs, and only the equations that these outputs depend on."""
    from jax.extend.core import ClosedJaxpr

    jaxpr = _dce(each_level(closed.jaxpr, _without_prints))
    jaxpr = _dce(each_level(jaxpr, _without_carries))
    return ClosedJaxpr(each_level(jaxpr, _dropping), closed.consts)


@functools.lru_cache(maxsize=128)
def once(closed: Any) -> Any:
    """A closed jaxpr with the same inputs and outputs, in which nothing is computed twice from the same values."""
    from jax.extend.core import ClosedJaxpr

    program = live(closed)
    return ClosedJaxpr(each_level(program.jaxpr, _once), program.consts)


def _once(jaxpr: Any) -> Any:
    """A jaxpr without the equations that repeat an earlier one, whose results stand for theirs."""
    first: dict[Any, Any] = {}
    stands: dict[Any, Any] = {}
    eqns = []

    def standing(atoms: Any) -> list[Any]:
        return [atom if hasattr(atom, "val") else stands.get(atom, atom) for atom in atoms]

    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=standing(eqn.invars)) if stands else eqn
        dropped = tuple(type(var).__name__ == "DropVar" for var in eqn.outvars)
        params = tuple((name, _by_value(value)) for name, value in sorted(eqn.params.items()))
        key = eqn.primitive, dropped, params, tuple(_by_value(atom) for atom in eqn.invars)
        is_memory = any(hasattr(var.aval, "inner_aval") for var in eqn.outvars)  # each of which is another place
        earlier = None if eqn.effects or is_memory else first.setdefault(key, eqn)
        if earlier is None or earlier is eqn:
            eqns.append(eqn)
        else:
            stands.update(zip(eqn.outvars, earlier.outvars, strict=True))
    return jaxpr.replace(eqns=eqns, outvars=standing(jaxpr.outvars)) if stands else jaxpr


def _by_value(value: Any) -> Any:
    """What equal parameters or operands have in common; an object of which that is not known is itself alone."""
    if hasattr(value, "val") and hasattr(value, "aval"):  # a literal
        return str(value.aval), np.asarray(value.val).tobytes()
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _dropping(jaxpr: Any) -> Any:
    """A jaxpr of whose kernels the outputs that nothing reads are dropped, as jax writes those of what was traced."""
    from jax.extend.core import DropVar

    if all(eqn.primitive.name != "pallas_call" for eqn in jaxpr.eqns):
        return jaxpr
    used = {var for eqn in jaxpr.eqns for var in eqn.invars if not hasattr(var, "val")}
    used |= {var for var in jaxpr.outvars if not hasattr(var, "val")}

    def dropped(eqn: Any) -> Any:
        outvars = [var if var in used else DropVar(var.aval) for var in eqn.outvars]
        return eqn.replace(outvars=outvars) if eqn.primitive.name == "pallas_call" else eqn

    return jaxpr.replace(eqns=[dropped(eqn) for eqn in jaxpr.eqns])


@functools.lru_cache(maxsize=256)
def only(closed: Any, outputs: tuple[int, ...]) -> Any:
    """A closed jaxpr with the same inputs and some of the outputs, without what the others alone depend on."""
    from jax.extend.core import ClosedJaxpr

    program = live(closed)  # whose debugging output no longer keeps what it prints
    return ClosedJaxpr(_dce(program.jaxpr, [n in outputs for n in range(len(program.jaxpr.outvars))]), program.consts)


def _dce(jaxpr: Any, used: list[bool] | None = None) -> Any:
    from jax.interpreters.partial_eval import dce_jaxpr

    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars) if used is None else used, instantiate=True)[0]


def each_level(jaxpr: Any, change: Callable[[Any], Any]) -> Any:
    """A jaxpr of which `change` gets every level, the innermost first."""
    eqns = []
    for eqn in jaxpr.eqns:
        params = {name: _inner(value, change) for name, value in eqn.params.items()}
        changed = [name for name, value in params.items() if value is not eqn.params[name]]
        if changed:
            eqn = eqn.replace(params={**eqn.params, **params}, effects=_quiet(eqn.effects))
        eqns.append(eqn)
    if all(before is other for before, other in zip(eqns, jaxpr.eqns, strict=True)):
        return change(jaxpr)
    return change(jaxpr.replace(eqns=eqns, effects=_quiet(jaxpr.effects)))


def _inner(value: Any, change: Callable[[Any], Any]) -> Any:
    """A parameter with its jaxprs changed; the parameter itself where it has none."""
    if isinstance(value, tuple):
        changed = tuple(_inner(item, change) for item in value)
        return value if all(after is other for after, other in zip(changed, value, strict=True)) else changed
    if hasattr(value, "jaxpr") and hasattr(value, "consts"):
        changed = each_level(value.jaxpr, change)
        return value if changed is value.jaxpr else value.replace(jaxpr=changed)
    return each_level(value, change) if hasattr(value, "eqns") and hasattr(value, "invars") else value


def _quiet(effects: Any) -> Any:
    """Effects without those of the messages."""
    return frozenset(effect for effect in effects if type(effect).__name__ not in ("DebugEffect", "OrderedDebugEffect"))


def _without_prints(jaxpr: Any) -> Any:
    eqns = [eqn for eqn in jaxpr.eqns if eqn.primitive.name not in PRINTS]
    return jaxpr if len(eqns) == len(jaxpr.eqns) else jaxpr.replace(eqns=eqns, effects=_quiet(jaxpr.effects))


def _without_carries(jaxpr: Any) -> Any:
    """A jaxpr whose `while` loops carry only what their predicates or later equations depend on."""
    if not any(eqn.primitive.name == "while" for eqn in jaxpr.eqns):
        return jaxpr
    used = {var for eqn in jaxpr.eqns for var in eqn.invars if not hasattr(var, "val")} | {
        var for var in jaxpr.outvars if not hasattr(var, "val")
    }
    eqns = [_narrowed(eqn, used) if eqn.primitive.name == "while" else eqn for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=eqns)


def _narrowed(eqn: Any, used: set[Any]) -> Any:
    """A `while` equation without the carried values that neither its predicate, its result, nor a kept one needs."""
    params, tests, bodies = eqn.params, eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    tested = {var for inner in test.jaxpr.eqns for var in inner.invars if not hasattr(var, "val")}
    tested |= {var for var in test.jaxpr.outvars if not hasattr(var, "val")}
    keep = [out in used or var in tested for out, var in zip(eqn.outvars, test.jaxpr.invars[tests:], strict=True)]
    while True:
        needed = _needed(body.jaxpr, keep)[bodies:]
        grown = [before or other for before, other in zip(keep, needed, strict=True)]
        if grown == keep:
            break
        keep = grown
    if all(keep) or eqn.effects:
        return eqn

    def kept(values: Any, ahead: int) -> list[Any]:
        rest = zip(values[ahead:], keep, strict=True)
        return [*values[:ahead], *(value for value, is_used in rest if is_used)]

    inner = _dce(body.jaxpr, keep)
    inner = inner.replace(invars=kept(inner.invars, bodies), debug_info=_unnamed(inner))
    outer = test.jaxpr.replace(invars=kept(test.jaxpr.invars, tests), debug_info=_unnamed(test.jaxpr))
    return eqn.replace(
        params={**params, "body_jaxpr": body.replace(jaxpr=inner), "cond_jaxpr": test.replace(jaxpr=outer)},
        invars=kept(eqn.invars, tests + bodies),
        outvars=kept(eqn.outvars, 0),
    )


def _needed(jaxpr: Any, used: list[bool]) -> list[bool]:
    """Which inputs the used outputs depend on."""
    from jax.interpreters.partial_eval import dce_jaxpr

    return list(dce_jaxpr(jaxpr, used, instantiate=False)[1])


def _unnamed(jaxpr: Any) -> Any:
    """Debug information without the names of arguments and results, whose number changed."""
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)
