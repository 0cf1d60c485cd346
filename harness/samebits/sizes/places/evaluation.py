"""The evaluation of a jaxpr for all sizes: what stands at a symbolic place of an output, asked for on demand."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import MissingRule, NotCovered
from samebits.interpret.composite_primitives import is_exp_of_negative_square
from samebits.interpret.control_flow import branch_of
from samebits.interpret.data_movement import STILL
from samebits.interpret.equation import Step
from samebits.interpret.interpreter import CALLS
from samebits.interpret.shard_map import added_axes
from samebits.schema.domain import RequiredFact
from samebits.sizes.places.demand import ELEMENTWISE, Demand, Devices, Index, constant, elementwise
from samebits.sizes.places.devices import COLLECTIVES, shard_map, whole_place
from samebits.sizes.places.facts import Fact, Facts, Integer, MapPiece, at_least, below, equal, only_where
from samebits.sizes.places.integers import OPERATIONS, arithmetic
from samebits.sizes.places.linear_questions import LimitReached
from samebits.sizes.places.lookups import LOOKUPS, sort
from samebits.sizes.places.loops import Scan
from samebits.sizes.places.movement import MOVEMENT, Rule
from samebits.sizes.places.polynomial import of
from samebits.sizes.places.products import conv_general_dilated, dot_general, ragged_dot_general
from samebits.sizes.places.reductions import REDUCTIONS, WHOLE, WINDOWS, reduction, whole_result
from samebits.sizes.places.space import Space

MOST = 4096
"""The most places of a constant that are distinguished."""


def element_of(space: Space, array: np.ndarray[Any, Any], index: Index, facts: Facts) -> list[MapPiece]:
    """Return what stands at a place of a constant array.

    Raises:
        NotCovered: it has too many different elements.
    """
    flat = array.reshape(-1)
    if flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size:
        return [MapPiece((), constant(flat[0]))]
    affine = _affine(array, index)
    if affine is not None:
        return [MapPiece((), affine)]
    choices = [
        [place.constant] if place.constant is not None else range(array.shape[a]) for a, place in enumerate(index)
    ]
    if array.size > MOST:
        raise NotCovered(f"a constant of {array.size} elements at a symbolic place; at most {MOST} are distinguished")
    pieces = []
    for place in itertools.product(*choices):
        wanted = tuple(equal(symbolic, number) for symbolic, number in zip(index, place, strict=True))
        own = space.possible(wanted, facts)
        if own is not None:
            pieces.append(MapPiece(own, constant(array[place])))
    return pieces


def _affine(array: np.ndarray[Any, Any], index: Index) -> Integer | None:
    """Return the element as a sum of its indices with factors, where the array is one."""
    if array.dtype.kind not in "iu" or not array.size:
        return None
    wide = array.astype(object)
    first = wide[(0,) * wide.ndim]
    expected, value = np.full(wide.shape, first, object), of(int(first))
    for axis, size in enumerate(wide.shape):
        if size > 1:
            step = wide[(0,) * axis + (1,) + (0,) * (wide.ndim - axis - 1)] - first
            expected = expected + step * np.arange(size).astype(object).reshape(-1, *(1,) * (wide.ndim - axis - 1))
            value = value + index[axis] * int(step)
    return Integer(value) if bool(np.all(expected == wide)) else None


def conditional(demand: Demand) -> list[MapPiece]:
    """Return a place of an output of the branch that is taken: out of range, the first or the last."""
    last = len(demand.params["branches"]) - 1
    pieces = []
    for facts, which in demand.integers(0, ()):
        for number in range(last + 1):
            taken = [at_least(which, number)] if number else []
            taken += [below(which, number + 1)] if number < last else []
            own = demand.space.possible((*facts, *taken), demand.facts)
            if own is not None:
                pieces += only_where(own, demand.evaluator.branch(demand.at(own), number))
    return pieces


def platform_index(demand: Demand) -> list[MapPiece]:
    """Return the number of the branch of the platform, which becomes a condition of the proof."""
    platform = demand.evaluator.platform
    if platform is None:
        raise demand.not_covered("it is not known on which platform it runs")
    number = branch_of(platform, demand.params["platforms"])
    demand.space.bounded[f"the platform is {platform}"] = None
    return [MapPiece((), Integer(of(number)))]


RULES: dict[str, Rule] = {
    **MOVEMENT,
    **LOOKUPS,
    **COLLECTIVES,
    **WINDOWS,
    **dict.fromkeys(WHOLE, whole_result),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(ELEMENTWISE, elementwise),
    "cond": conditional,
    "conv_general_dilated": conv_general_dilated,
    "dim_as_value": lambda demand: [MapPiece((), Integer(demand.space.size(demand.params["dim"])))],
    "dot_general": dot_general,
    "platform_index": platform_index,
    "ragged_dot_general": ragged_dot_general,
    "shard_map": shard_map,
    "sort": sort,
}


@dataclass(frozen=True, eq=False)
class _Scope:
    """Where the variables of a jaxpr come from: an input's name, an array, an equation, or a value of another frame."""

    origins: dict[Any, Any]
    depth: int = 0


@dataclass(frozen=True, eq=False)
class _Computed:
    """An output of an equation."""

    equation: Any
    number: int


@dataclass(frozen=True, eq=False)
class _Outer:
    """A value of the frame around, whole or as the part that each device holds."""

    frame: _Scope
    atom: Any
    spec: Any = None
    sizes: Mapping[str, int] | None = None


@dataclass(frozen=True, eq=False)
class _Array:
    """A constant."""

    values: Any


@dataclass(frozen=True, eq=False)
class _Known:
    """What stands at a place, and what is assumed and promised for it."""

    pieces: list[MapPiece]
    assumed: dict[Fact, None]
    promised: dict[RequiredFact, None]


class Evaluation:
    """Evaluates a program on demand.

    Args:
        space: sizes and indices, shared by the programs that are compared.
        closed, names: the closed jaxpr, and the names of its inputs.
        platform: whose branches of `lax.platform_dependent` run; None where that is not known.
    """

    def __init__(self, space: Space, closed: Any, names: Sequence[str], platform: str | None = None) -> None:
        self.space, self.platform = space, platform
        self.assumed: dict[Fact, None] = {}
        self.promised: dict[RequiredFact, None] = {}
        self.axis_sizes: dict[str, int] = {}
        # By frame itself and not by its address, which another one may have later.
        self._frames: dict[tuple[Any, ...], _Scope] = {}
        self._labels: dict[int, int] = {}
        self._known: dict[Any, _Known] = {}
        self._scans: dict[tuple[int, _Scope], Scan] = {}
        self._outputs = closed.jaxpr.outvars
        self._closed = closed
        self._frame = self.frame_of(closed, dict(zip(closed.jaxpr.invars, names, strict=True)))

    def output(self, number: int, index: Index, facts: Facts = ()) -> list[MapPiece]:
        """Return what stands at a place of an output."""
        # An index may have been cut since.
        self._known.clear()
        self._scans.clear()
        return self.value(self._frame, self._outputs[number], index, facts, {})

    def output_dtype(self, number: int) -> str:
        """Return the dtype of an output."""
        return str(self._outputs[number].aval.dtype)

    def frame_of(self, closed: Any, origins: dict[Any, Any], depth: int = 0) -> _Scope:
        """Return a frame of a jaxpr, with where its inputs come from; a function answers what stands at a place."""
        jaxpr = getattr(closed, "jaxpr", closed)
        for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            origins[var] = _Array(value)
        for equation in jaxpr.eqns:
            for number, var in enumerate(equation.outvars):
                origins[var] = _Computed(equation, number)
        return _Scope(origins, depth)

    def label(self, equation: Any) -> int:
        """Return a number of an equation, the same in every evaluation of its program."""
        return self._labels.setdefault(id(equation), len(self._labels))

    def value(self, frame: Any, atom: Any, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return what stands at a place of a value."""
        if hasattr(atom, "val"):
            return element_of(self.space, np.asarray(atom.val, atom.aval.dtype), index, facts)
        origin = frame.origins[atom]
        if isinstance(origin, str):
            return [MapPiece((), self.space.input(origin, index))]
        if isinstance(origin, _Array):
            return element_of(self.space, np.asarray(origin.values), index, facts)
        if callable(origin):
            computed: list[MapPiece] = origin(index, facts, devices)
            return computed
        if isinstance(origin, _Outer):
            return self._outer(origin, atom, index, facts, devices)
        key = frame, atom, index, facts, tuple(sorted(devices.items()))
        if key not in self._known:
            self._known[key] = self._recorded(
                Demand(self, frame, origin.equation, origin.number, index, facts, devices)
            )
        known = self._known[key]
        self.assumed |= known.assumed
        self.promised |= known.promised
        return known.pieces

    def _recorded(self, demand: Demand) -> _Known:
        """Return what stands at a place, with all that this assumes and promises, whatever was before."""
        before = self.assumed, self.promised
        self.assumed, self.promised = {}, {}
        try:
            return _Known(self._equation(demand), self.assumed, self.promised)
        except LimitReached as error:
            raise error if error.step else LimitReached(error.limit, str(Step.of(demand.equation))) from None
        finally:
            self.assumed, self.promised = before

    def _outer(self, origin: _Outer, atom: Any, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        if origin.sizes is not None:
            shape = tuple(self.space.size(size) for size in atom.aval.shape)
            index = whole_place(origin.spec, origin.sizes, index, shape, devices)
            devices = {name: number for name, number in devices.items() if name not in origin.sizes}
        return self.value(origin.frame, origin.atom, index, facts, devices)

    def _equation(self, demand: Demand) -> list[MapPiece]:
        name = demand.name
        if name in STILL:
            return demand.operand(demand.number, demand.index)
        if name in CALLS:
            inner = demand.params.get(CALLS[name], demand.params.get("call_jaxpr"))
            if is_exp_of_negative_square(demand.equation):
                (var,) = demand.equation.invars
                inner = _exp_of_negative_square(var.aval.shape, var.aval.dtype)
            frame = self._called(demand, inner, {})
            outvars = getattr(inner, "jaxpr", inner).outvars
            return self.value(frame, outvars[demand.number], demand.index, demand.facts, demand.devices)
        if name == "scan":
            key = id(demand.equation), demand.frame
            if key not in self._scans:
                self._scans[key] = Scan(self, demand)
            return self._scans[key].output(demand)
        rule = _rule(demand)
        if rule is None:
            step = Step.of(demand.equation)
            raise MissingRule.of(f"{step} has no rule for all sizes", step.name, step.place)
        return rule(demand)

    def _called(self, demand: Demand, inner: Any, outer: Mapping[int, Any]) -> _Scope:
        key = id(demand.equation), demand.frame
        if key not in self._frames:
            jaxpr = getattr(inner, "jaxpr", inner)
            atoms = zip(jaxpr.invars, demand.equation.invars, strict=True)
            origins = {var: outer.get(number, _Outer(demand.frame, atom)) for number, (var, atom) in enumerate(atoms)}
            self._frames[key] = self.frame_of(inner, origins, demand.frame.depth)
        return self._frames[key]

    def on_devices(self, demand: Demand, devices: Devices, local: Index) -> list[MapPiece]:
        """Return what a `shard_map` has at a place on a device."""
        sizes, inner = added_axes(demand.params), demand.params["jaxpr"]
        self.axis_sizes |= sizes
        specs = enumerate(zip(demand.equation.invars, demand.params["in_specs"], strict=True))
        outer = {number: _Outer(demand.frame, atom, spec, sizes) for number, (atom, spec) in specs}
        frame = self._called(demand, inner, outer)
        outvars = getattr(inner, "jaxpr", inner).outvars
        return self.value(frame, outvars[demand.number], local, demand.facts, devices)

    def branch(self, demand: Demand, number: int) -> list[MapPiece]:
        """Return what a branch of a conditional has at the place of an output."""
        inner = demand.params["branches"][number]
        key = id(demand.equation), demand.frame, number
        if key not in self._frames:
            atoms = zip(inner.jaxpr.invars, demand.equation.invars[1:], strict=True)
            origins = {var: _Outer(demand.frame, atom) for var, atom in atoms}
            self._frames[key] = self.frame_of(inner, origins, demand.frame.depth)
        return self.value(
            self._frames[key], inner.jaxpr.outvars[demand.number], demand.index, demand.facts, demand.devices
        )


@functools.cache
def _exp_of_negative_square(shape: tuple[Any, ...], dtype: Any) -> Any:
    """Return the program that stands for jax's own, which cuts bits of its operand off."""
    import jax

    return jax.make_jaxpr(lambda x: jax.lax.exp(-jax.lax.square(x)))(jax.ShapeDtypeStruct(shape, dtype))


def _rule(demand: Demand) -> Rule | None:
    """Return the rule of an equation."""
    plain = all(var.aval.dtype.kind in "iub" for var in (*demand.equation.invars, *demand.equation.outvars))
    return arithmetic if demand.name in OPERATIONS and plain else RULES.get(demand.name)
