"""The interpreter of jaxprs: evaluates every equation in order, in an abstract domain.

In: a closed jaxpr and its arguments. Out: its outputs. A value is *concrete* (a NumPy array: integers, booleans,
constants) or *symbolic* (a value of the domain). Inside `shard_map` it may differ between devices: then it is a
`PerDevice`, and an equation is evaluated once per device. Control flow is in `control_flow`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.errors import MissingRule
from samebits.host.numpy_threads import one_blas_thread
from samebits.host.time_limit import require_time
from samebits.interpret import complex_pairs, devices
from samebits.interpret.arrays import evaluate
from samebits.interpret.complex_pairs import ComplexPair, by_parts, complex_step, part
from samebits.interpret.composite_primitives import (
    ANY_NUMBERS,
    exp_of_negative_square,
    is_exp_of_negative_square,
    rule_of,
)
from samebits.interpret.control_flow import CONTROL
from samebits.interpret.data_movement import MOVES, STILL, Index, Move, by_index, owned
from samebits.interpret.dead_code import live
from samebits.interpret.devices import Axes, PerDevice
from samebits.interpret.domain import AbstractDomain, Value
from samebits.interpret.equation import Step, Type, is_key, type_of
from samebits.interpret.jax_evaluation import data_of
from samebits.interpret.shard_map import COLLECTIVES, shard_map
from samebits.interpret.sorting import ORDERED

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "composite": "jaxpr",
    "custom_vmap_call": "call",
    "remat_opt": "fwd_jaxpr",
    "xla_metadata_call": "jaxpr",
    "compute_on": "jaxpr",
    "linear_call": "callee",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Primitives that only call another jaxpr, and the parameter that holds it."""


class StepCache:
    """What is the same in every interpretation of a program, in any domain and at any inputs.

    It holds the equations and jaxprs whose ids are its keys, so that no other object gets such an id.
    """

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._unused: dict[int, tuple[Any, list[list[Any]]]] = {}

    def of(self, eqn: Any) -> Step:
        """The step of an equation.

        Raises:
            NotCovered: a value is not an array of numbers or random keys.
        """
        step = self._steps.get(id(eqn))
        if step is None:
            step = self._steps[id(eqn)] = Step.of(eqn)
        return step

    def holds(self, step: Step) -> bool:
        """Whether a step lives as long as this cache."""
        return self._steps.get(id(step.equation)) is step

    def unused_after(self, jaxpr: Any) -> Sequence[Sequence[Any]]:
        """By equation, the variables that nothing reads after it; of the body of a loop they are the same each time."""
        if id(jaxpr) not in self._unused:
            last = {var: number for number, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if not _literal(var)}
            keep = {var for var in jaxpr.outvars if not _literal(var)}
            unused: list[list[Any]] = [[] for _ in jaxpr.eqns]
            for var, number in last.items():
                if var not in keep:
                    unused[number].append(var)
            self._unused[id(jaxpr)] = jaxpr, unused
        return self._unused[id(jaxpr)][1]


@functools.lru_cache(maxsize=128)
def _steps_of(closed: Any) -> StepCache:
    """The steps of a program, which is interpreted once for each domain and input."""
    return StepCache()


class Interpreter:
    """Interprets jaxprs in one abstract domain.

    Args:
        domain: gives values and the rules of arithmetic.
        platform: whose branch of `lax.platform_dependent` is evaluated; None takes the default branch.
    """

    def __init__(self, domain: AbstractDomain, platform: str | None = None) -> None:
        self.domain = domain
        self.platform = platform
        self._steps = StepCache()

    def __call__(self, closed: Any, *args: Value) -> list[Value]:
        """The outputs of a closed jaxpr; dead code is removed first.

        Raises:
            NotCovered: the domain has no rule for an equation; the message names it with its source line.
        """
        known = [self._argument(value, var.aval) for value, var in zip(args, closed.jaxpr.invars, strict=True)]
        program, outer = live(closed), self._steps
        self._steps = _steps_of(program)
        try:
            with one_blas_thread():
                return self.closed(program, known, Axes())
        finally:
            self._steps = outer

    def _argument(self, value: Value, aval: Any) -> Value:
        """An argument as a value: complex arrays become pairs, random keys the elements of their data."""
        if is_key(getattr(aval, "dtype", None)) and hasattr(value, "__array__"):
            return data_of(value, type_of(aval))
        if isinstance(value, np.ndarray) and value.dtype.kind == "c":
            return ComplexPair(value.real.astype(np.float64), value.imag.astype(np.float64))
        return value

    def closed(self, closed: Any, args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a closed jaxpr on one or more devices; an open one has no constants."""
        jaxpr = getattr(closed, "jaxpr", closed)
        return self.jaxpr(jaxpr, getattr(closed, "consts", ()), args, axes)

    def jaxpr(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a jaxpr, equation by equation; a value is dropped after its last use."""
        environment: dict[Any, Value] = {}
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            environment[var] = self.constant(const, type_of(var.aval))
        environment.update(zip(jaxpr.invars, args, strict=True))
        for eqn, unused in zip(jaxpr.eqns, self._steps.unused_after(jaxpr), strict=True):
            require_time()
            outputs = self.equation(eqn, [self._read(environment, var) for var in eqn.invars], axes)
            environment.update(zip(eqn.outvars, outputs, strict=True))
            for var in unused:
                environment.pop(var, None)
        return [self._read(environment, var) for var in jaxpr.outvars]

    def constant(self, array: Any, kind: Type) -> Value:
        """A constant of the program: integers and random keys stay concrete."""
        if kind.is_complex:
            return complex_pairs.constant(self, array, kind)
        if kind.is_key:
            return data_of(array, kind)
        array = np.asarray(array, kind.dtype)
        return self.domain.lift(array, kind) if kind.is_float else array

    def _read(self, environment: dict[Any, Value], var: Any) -> Value:
        return self.constant(var.val, type_of(var.aval)) if _literal(var) else environment[var]

    def equation(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        """The outputs of one equation."""
        name = eqn.primitive.name
        if name == "custom_jvp_call" and "exp" in self.domain.covers and is_exp_of_negative_square(eqn):
            return exp_of_negative_square(self, Step.of(eqn), values)
        if name in CALLS:
            return self.closed(called(eqn), values, axes)
        if name in CONTROL:
            return CONTROL[name](self, eqn, values, axes)
        step = self._steps.of(eqn)
        if name == "shard_map":
            return shard_map(self, step, values, axes)
        if name in COLLECTIVES and step.has_complex:
            return list(by_parts(step, values, lambda inner, parts: COLLECTIVES[name](self, inner, parts, axes)))
        if name in COLLECTIVES:
            return COLLECTIVES[name](self, step, values, axes)
        return self.local(step, values)

    def local(self, step: Step, values: Sequence[Value]) -> Sequence[Value]:
        """An equation without communication, on every device on which its inputs differ."""
        count = devices.count(values)
        if count is None:
            return self._on_one(step, values)
        each = [self._on_one(step, devices.on(values, device)) for device in range(count)]
        return [PerDevice(tuple(outputs)) for outputs in zip(*each, strict=True)]

    def _on_one(self, step: Step, values: Sequence[Value]) -> Sequence[Value]:
        if step.name in STILL:
            return list(values)
        if step.has_complex and step.name not in ANY_NUMBERS:
            return complex_step(self, step, values)
        if step.name in MOVES and not (step.name in self.domain.covers and self._is_anywhere(step, values)):
            return self._move(step, values)
        concrete = all(isinstance(value, np.ndarray) for value in values)
        rule = rule_of(step, self.domain, concrete)
        if rule is not None:
            return rule(self, step, values)
        if step.name in ORDERED and ((step.is_plain and concrete) or step.name not in self.domain.covers):
            return ORDERED[step.name](self.domain, step, values)
        if step.is_plain and concrete:
            return evaluate(step, values)
        if step.name not in self.domain.covers and not (concrete and self.domain.keeps_constants):
            raise not_covered(self.domain.name, step)
        return self.domain.apply(step, values)

    def _is_anywhere(self, step: Step, values: Sequence[Value]) -> bool:
        """Whether a place to which an equation moves elements is not known."""
        return any(not isinstance(values[number], np.ndarray) for number in MOVES[step.name].index_operands(step))

    def _move(self, step: Step, values: Sequence[Value]) -> list[Value]:
        """An equation that moves elements and changes none."""
        move = MOVES[step.name]
        operands = move.index_operands(step)
        moved = [value for number, value in enumerate(values) if number not in operands]
        moves = move.moves(step, [self.domain.concrete(step, values[number]) for number in operands])
        if move.fill is not None:
            moved = [*moved, self.constant(move.fill(step), step.output)]
        return [self._rearranged(moved, each, kind) for each, kind in zip(moves, step.outputs, strict=True)]

    def _rearranged(self, values: Sequence[Value], move: Move, kind: Type) -> Value:
        """Concrete arrays keep their dtype, whatever the type says (float64 for any float)."""
        if all(isinstance(value, np.ndarray) for value in values):
            return owned(move(values))
        return self.domain.moved(values, move, kind)

    def stacked(self, values: Sequence[Value], kind: Type) -> Value:
        """Values put one after the other along a new first axis; none gives an empty array."""
        index = np.arange(math.prod(kind.shape)).reshape(kind.shape)
        if not values:
            return self.constant(np.zeros(kind.shape, kind.dtype), kind)
        return self.taken(values, index, kind)

    def taken(self, values: Sequence[Value], index: Index, kind: Type) -> Value:
        """Elements of the concatenation of the flattened values, on every device, of both parts of complex values."""
        if kind.is_complex:
            real = complex_pairs.real_kind(kind)
            return complex_pairs.paired(*(self.taken([part(v, n) for v in values], index, real) for n in (0, 1)))
        count = devices.count(values)
        if count is None:
            return self._rearranged(values, by_index(index), kind)
        return PerDevice(tuple(self.taken(devices.on(values, device), index, kind) for device in range(count)))


def called(eqn: Any) -> Any:
    """The jaxpr that an equation calls; versions of jax store that of some primitives under either name."""
    params = eqn.params
    return params[CALLS[eqn.primitive.name] if CALLS[eqn.primitive.name] in params else "call_jaxpr"]


def _literal(var: Any) -> bool:
    return hasattr(var, "val")


def not_covered(domain: str, step: Step) -> MissingRule:
    """The error for an equation without a rule."""
    return MissingRule.of(f"{step} has no rule in the domain '{domain}'", step.name, step.place)
