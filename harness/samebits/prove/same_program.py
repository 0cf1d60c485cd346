"""Whether two programs are one program on one device: the same equations but for names, calls and places of arrays.

Calls are inlined, and what only says where arrays lie is left out, as XLA does before it optimises: the two programs
are then compiled to the same one, whatever the numbers are that symbols for sizes stand for.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax import export

from samebits.interpret.dead_code import live
from samebits.interpret.equation import scan_sizes
from samebits.interpret.interpreter import CALLS, called
from samebits.interpret.shard_map import added_axes, split_axes
from samebits.programs.captured_values import equations, own_rules
from samebits.programs.sides import Site, TracedSides
from samebits.schema.contract import Direction

INLINED = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "eval_jaxpr", "custom_jvp_call", "custom_vjp_call"} & CALLS.keys()
)
"""Calls that XLA inlines before anything else."""

PLACING = frozenset({"sharding_constraint", "reshard", "mesh_cast"})
"""What gives its operand on one device."""

RESHAPING = frozenset({"reshape", "convert_element_type"})
"""What gives its operand where the type stays the same."""

PLACES = frozenset({"sharding", "out_sharding"})
"""Parameters that say where an array lies."""


def written(closed: Any) -> WrittenProgram | None:
    """Return a program as a key that equal programs have in common; None where an equation cannot be written down.

    Of a mesh it has the sizes of the axes over which a `shard_map` is, and nothing of the axes that are left to the
    compiler, which move no element to another place of the whole array.
    """
    if closed.jaxpr.effects:
        return None
    try:
        return WrittenProgram(_Written(live(closed)).text)
    except (_NotWritten, TypeError, ValueError):  # as of parameters that cannot be compared
        return None


class WrittenProgram:
    """A program without the names of its variables and without what says where arrays lie."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrittenProgram) and bool(self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)


class _NotWritten(Exception):
    """An equation of which more decides than its parameters."""


class _Written:
    """A program as nested tuples, in which variables are numbers in the order of their equations."""

    def __init__(self, closed: Any) -> None:
        self._lines: list[Any] = []
        self._count = 0
        inputs = [self._new() for _ in closed.jaxpr.invars]
        outputs = self._called(closed, inputs)
        kinds = tuple(_kind(aval) for aval in (*closed.in_avals, *closed.out_avals))
        self.text = (kinds, tuple(self._lines), tuple(outputs))

    def _new(self) -> tuple[str, int]:
        self._count += 1
        return "variable", self._count

    def _called(self, closed: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a program whose equations are written down."""
        jaxpr = getattr(closed, "jaxpr", closed)
        known = dict(zip(jaxpr.invars, inputs, strict=True))
        known |= {var: _plain(value) for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True)}

        def read(var: Any) -> Any:
            return (_kind(var.aval), _plain(var.val)) if hasattr(var, "val") else known[var]

        for eqn in jaxpr.eqns:
            operands = [read(var) for var in eqn.invars]
            known |= dict(zip(eqn.outvars, self._results(eqn, operands), strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _results(self, eqn: Any, operands: list[Any]) -> list[Any]:
        name, params = eqn.primitive.name, eqn.params
        if name in PLACING or (name in RESHAPING and _kind(eqn.invars[0].aval) == _kind(eqn.outvars[0].aval)):
            return operands
        if name in INLINED:
            if params.get("compiler_options_kvs") or _context(eqn) != _context(None):
                raise _NotWritten
            return self._called(called(eqn), operands)
        kept = {key: _plain(value) for key, value in _kept(eqn).items()}
        results = [self._new() for _ in eqn.outvars]
        kinds = tuple(_kind(var.aval) for var in eqn.outvars)
        named = tuple(sorted(kept.items(), key=lambda item: item[0]))
        self._lines.append((name, _context(eqn), tuple(operands), named, kinds, tuple(results)))
        return results


def _kept(eqn: Any) -> Mapping[str, Any]:
    """Return the parameters of an equation that decide what it computes."""
    params = {key: value for key, value in eqn.params.items() if key not in PLACES}
    if eqn.primitive.name == "slice" and params["strides"] is None:
        return {**params, "strides": (1,) * len(params["start_indices"])}
    if eqn.primitive.name == "pad":  # of integers, which are numpy's here and there
        return {**params, "padding_config": [tuple(map(_integer, sizes)) for sizes in params["padding_config"]]}
    if eqn.primitive.name == "scan":  # of which newer versions of jax store the sizes as trees
        rest = {key: value for key, value in params.items() if key not in ("ft_in", "ft_out")}
        return {**rest, **dict(zip(("num_consts", "num_carry"), scan_sizes(params), strict=True))}
    if eqn.primitive.name != "shard_map":
        return params
    sizes = added_axes(params)
    split = {
        key: [sorted(split_axes(spec, sizes).items()) for spec in params[key]] for key in ("in_specs", "out_specs")
    }
    names = {key: sorted(value) for key, value in params.items() if isinstance(value, frozenset)}
    return {**params, **names, **split, "mesh": sizes}


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else value


def _context(eqn: Any) -> tuple[str, ...]:
    """Return what besides its parameters decides how an equation is compiled."""
    context = getattr(eqn, "ctx", None)
    words = [getattr(context, name, None) for name in ("compute_type", "xla_metadata")]
    return tuple(str(word) if word else "" for word in words)


def _kind(aval: Any) -> tuple[str, ...]:
    """Return the shape and dtype, without the sharding."""
    weak = "weak" if getattr(aval, "weak_type", False) else ""
    return (*map(str, getattr(aval, "shape", ())), str(getattr(aval, "dtype", aval)), weak)


def _plain(value: Any) -> Any:
    """A parameter as something that can be compared; what is not known is the same where it is the same object."""
    if export.is_symbolic_dim(value):
        return "dimension", str(value)
    if isinstance(value, float) and math.isnan(value) and struct.pack("d", value) != struct.pack("d", math.nan):
        return "float", struct.pack("d", value)  # Python writes every NaN alike
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | enum.Enum | np.dtype | type):
        return type(value).__name__, repr(value)
    if isinstance(value, Mapping):
        return tuple((str(key), _plain(inner)) for key, inner in sorted(value.items(), key=lambda item: str(item[0])))
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(_plain, value))
    if hasattr(value, "eqns") or (hasattr(value, "jaxpr") and hasattr(value, "consts")):
        return _Written(live(value) if hasattr(value, "consts") else _closed(value)).text
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        array = np.asarray(value)
        return "array", array.shape, str(array.dtype), array.tobytes()
    return _Same(value)


def _closed(jaxpr: Any) -> Any:
    """Return an open jaxpr as a closed one; one with constants is not written."""
    from jax.extend.core import ClosedJaxpr

    if jaxpr.constvars:
        raise _NotWritten
    return ClosedJaxpr(jaxpr, ())


class _Same:
    """A value of an unknown type: equal to itself, and in order with nothing."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


# Whether a gradient has to return the outputs too: where differentiation computes them by another program.
def with_primal(sides: TracedSides, direction: Direction, variant: str, site: Site) -> Site:
    """Return the site at which gradients return the outputs too, where a rule of a side may change them."""
    if direction == "forward":
        return site
    compared = dict.fromkeys((sides.pair.reference_name, variant))
    return replace(site, primal=True) if any(_changed(sides, side, site) for side in compared) else site


def _changed(sides: TracedSides, side: str, site: Site) -> bool:
    """Tell whether another program computes the outputs of a side when it is differentiated."""
    forward = sides.forward(side, site)
    if forward.error is not None or not own_rules(forward.traced.jaxpr):
        return False
    differentiated = sides.differentiated(side, site)
    if differentiated.error is not None:  # its gradient says why
        return False
    closed, own = differentiated.traced.jaxpr, written(forward.traced.jaxpr)
    # Where nothing is pulled back, `optimize_remat` calls the function in place of its rule.
    by_use = any(equation.primitive.name == "remat_opt" for equation in equations(closed))
    return by_use or own is None or own != written(closed)
