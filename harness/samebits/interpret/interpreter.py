"""The walk: every equation of a jaxpr in order, its calls and its control flow, in whatever meaning the domain gives.

A value is *concrete* (a NumPy array: integers, booleans, constants) or *symbolic* (the domain's own). Inside
`shard_map` it may differ from device to device: then it is a `PerDevice`, and an equation is walked once per device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import devices
from samebits.interpret.arrays import evaluate
from samebits.interpret.collectives import COLLECTIVES
from samebits.interpret.composite_primitives import COMPOSED, exp_of_negative_square, is_exp_of_negative_square
from samebits.interpret.data_movement import MOVES, STILL, Index
from samebits.interpret.dead_code import live
from samebits.interpret.devices import Axes, PerDevice
from samebits.interpret.domain import AbstractDomain, Value
from samebits.interpret.equation import Array, Step, Type, type_of
from samebits.interpret.shard_map import shard_map
from samebits.interpret.sorting import ORDERED

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Primitives that only call another jaxpr, and the parameter that holds it."""

_BRANCHES = {"gpu": ("cuda", "rocm")}
"""The names in `lax.platform_dependent` of a backend that has others."""

CONTROL = ("scan", "while", "cond", "platform_index")


class Interpreter:
    """A walk in one domain.

    Args:
        domain: the meaning.
        platform: whose branch of `lax.platform_dependent` is walked; None takes the default branch.
    """

    def __init__(self, domain: AbstractDomain, platform: str | None = None) -> None:
        self.domain = domain
        self.platform = platform
        self._indices: dict[int, list[Index]] = {}
        self._steps: dict[int, Step] = {}
        self._kept: list[Any] = []  # equations stay alive, so that their ids stay their own

    def __call__(self, closed: Any, *args: Value) -> list[Value]:
        """The outputs of a closed jaxpr, of whose equations those that no output depends on are left out.

        Raises:
            NotCovered: an equation has no meaning in this domain; the text names it with its source line.
        """
        return self.closed(live(closed), args, Axes())

    def closed(self, closed: Any, args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a closed jaxpr on one or more devices; an open one has no constants."""
        jaxpr = getattr(closed, "jaxpr", closed)
        return self.jaxpr(jaxpr, getattr(closed, "consts", ()), args, axes)

    def jaxpr(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a jaxpr, equation by equation; a value is dropped after its last use."""
        held: dict[Any, Value] = {}
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            held[var] = self.constant(const, type_of(var.aval))
        held.update(zip(jaxpr.invars, args, strict=True))
        last = {var: number for number, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if not _literal(var)}
        keep = {var for var in jaxpr.outvars if not _literal(var)}
        for number, eqn in enumerate(jaxpr.eqns):
            outputs = self._equation(eqn, [self._read(held, var) for var in eqn.invars], axes)
            held.update(zip(eqn.outvars, outputs, strict=True))
            for var in eqn.invars:
                if not _literal(var) and last[var] == number and var not in keep:
                    held.pop(var, None)
        return [self._read(held, var) for var in jaxpr.outvars]

    def constant(self, array: Any, kind: Type) -> Value:
        """A constant of the program: integers stay concrete."""
        array = np.asarray(array, kind.dtype)
        return self.domain.lift(array, kind) if kind.is_float else array

    def _read(self, held: dict[Any, Value], var: Any) -> Value:
        return self.constant(var.val, type_of(var.aval)) if _literal(var) else held[var]

    def _equation(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        name = eqn.primitive.name
        if name == "custom_jvp_call" and "exp" in self.domain.covers and is_exp_of_negative_square(eqn):
            return exp_of_negative_square(self, Step.of(eqn), values)
        if name in CALLS:
            return self.closed(eqn.params[CALLS[name]], values, axes)
        if name in CONTROL:
            return self._control(eqn, values, axes)
        if id(eqn) not in self._steps:
            self._steps[id(eqn)] = Step.of(eqn)
            self._kept.append(eqn)
        step = self._steps[id(eqn)]
        if name == "shard_map":
            return shard_map(self, step, values, axes)
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
        if step.name in MOVES:
            return self._move(step, values)
        if step.name in COMPOSED:
            return COMPOSED[step.name](self, step, values)
        concrete = all(isinstance(value, np.ndarray) for value in values)
        if step.name in ORDERED and (step.is_plain or step.name not in self.domain.covers):
            return ORDERED[step.name](self.domain, step, values)
        if step.is_plain and concrete:
            return evaluate(step, values)
        if step.name not in self.domain.covers and not (concrete and self.domain.keeps_constants):
            raise not_covered(self.domain.name, step)
        return self.domain.apply(step, values)

    def _move(self, step: Step, values: Sequence[Value]) -> list[Value]:
        """An equation that moves elements and changes none."""
        move = MOVES[step.name]
        steering = move.steering(step)
        moved = [value for number, value in enumerate(values) if number not in steering]
        key = id(step)
        if steering or key not in self._indices:
            steer = [self.domain.concrete(step, values[number]) for number in steering]
            indices = move.indices(step, steer)
            if not steering:
                self._indices[key] = indices
        else:
            indices = self._indices[key]
        if move.fill is not None:
            moved = [*moved, self.constant(move.fill(step), step.output)]
        out = []
        for index, kind in zip(indices, step.outputs, strict=True):
            if all(isinstance(value, np.ndarray) for value in moved):
                out.append(take_concrete(moved, index, kind))
            else:
                out.append(self.domain.take(moved, index, kind))
        return out

    # -- control flow

    def _control(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        name = eqn.primitive.name
        if name == "platform_index":
            return [np.asarray(self._platform(eqn.params["platforms"]), np.int32)]
        if name == "cond":
            return self._cond(eqn, values, axes)
        if name == "while":
            return self._while(eqn, values, axes)
        return self._scan(eqn, values, axes)

    def _platform(self, platforms: Sequence[Any]) -> int:
        """The number of the branch of a platform; None among the branches is the default."""
        wanted = _BRANCHES.get(self.platform or "", (self.platform,))
        for number, names in enumerate(platforms):
            if names is not None and any(name in names for name in wanted):
                return number
        return list(platforms).index(None)

    def _cond(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        which, *operands = values
        branches = eqn.params["branches"]
        chosen = self._decided(eqn, which, 0, len(branches) - 1)
        if isinstance(chosen, int):
            return self.closed(branches[chosen], operands, axes)
        # The devices part ways here: each walks its own branch, and none may wait for another.
        each = [
            self.closed(branches[index], devices.on(operands, device), Axes()) for device, index in enumerate(chosen)
        ]
        return [PerDevice(tuple(outputs)) for outputs in zip(*each, strict=True)]

    def _while(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        test, body, carry = values[:tests], values[tests : tests + bodies], list(values[tests + bodies :])
        while True:
            (more,) = self.closed(eqn.params["cond_jaxpr"], [*test, *carry], axes)
            go = self._decided(eqn, more, 0, 1)
            if not isinstance(go, int):
                count = len(go)
                each = [self._while(eqn, devices.on([*test, *body, *carry], d), Axes()) for d in range(count)]
                return [PerDevice(tuple(outputs)) for outputs in zip(*each, strict=True)]
            if not go:
                return carry
            carry = self.closed(eqn.params["body_jaxpr"], [*body, *carry], axes)

    def _scan(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        params = eqn.params
        consts, carries = _scan_sizes(params)
        fixed, carry, stacked = values[:consts], values[consts : consts + carries], values[consts + carries :]
        order = range(params["length"])
        collected: list[list[Value]] = []
        for number in reversed(order) if params["reverse"] else order:
            rows = [
                self._row(value, number, type_of(var.aval))
                for value, var in zip(stacked, eqn.invars[consts + carries :], strict=True)
            ]
            outputs = self.closed(params["jaxpr"], [*fixed, *carry, *rows], axes)
            carry = outputs[:carries]
            collected.append(outputs[carries:])
        if params["reverse"]:
            collected.reverse()
        ys = []
        for number, var in enumerate(eqn.outvars[carries:]):
            ys.append(self.stacked([row[number] for row in collected], type_of(var.aval)))
        return [*carry, *ys]

    def _row(self, value: Value, number: int, kind: Type) -> Value:
        size = int(np.prod(kind.shape[1:], dtype=np.int64))
        index = (number * size + np.arange(size)).reshape(kind.shape[1:])
        return self.taken([value], index, Type(kind.shape[1:], kind.dtype))

    def stacked(self, values: Sequence[Value], kind: Type) -> Value:
        """Values put one after the other along a new first axis; none gives an empty array."""
        index = np.arange(int(np.prod(kind.shape, dtype=np.int64))).reshape(kind.shape)
        if not values:
            return self.constant(np.zeros(kind.shape, kind.dtype), kind)
        return self.taken(values, index, kind)

    def taken(self, values: Sequence[Value], index: Index, kind: Type) -> Value:
        """`take` on every device."""
        count = devices.count(values)
        if count is None:
            if all(isinstance(value, np.ndarray) for value in values):
                return take_concrete(values, index, kind)
            return self.domain.take(values, index, kind)
        return PerDevice(tuple(self.taken(devices.on(values, device), index, kind) for device in range(count)))

    def _decided(self, eqn: Any, value: Value, low: int, high: int) -> int | list[int]:
        """A predicate or branch number: one for all devices, or one each where they differ."""
        step = Step.of(eqn)
        each = value.values if isinstance(value, PerDevice) else (value,)
        numbers = [min(max(int(self.domain.concrete(step, v)), low), high) for v in each]
        return numbers[0] if len(set(numbers)) == 1 else numbers


def take_concrete(values: Sequence[Array], index: Index, kind: Type) -> Array:
    """`take` for concrete arrays; what is held is kept as it is, whatever the type says (float64 for any float)."""
    flat = values[0].reshape(-1) if len(values) == 1 else np.concatenate([value.reshape(-1) for value in values])
    return np.asarray(flat[index])


def _literal(var: Any) -> bool:
    return hasattr(var, "val")


def _scan_sizes(params: Any) -> tuple[int, int]:
    """How many constants and carried values a scan has; newer versions of jax hold them as trees."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def not_covered(domain: str, step: Step) -> NotCovered:
    """The error for an equation without a rule."""
    return NotCovered(f"{step} has no meaning in the domain '{domain}'")
