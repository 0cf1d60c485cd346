"""Control flow: `cond`, `while`, `scan` and the branches of `lax.platform_dependent`.

In: an equation, its values and the manual mesh axes around it. Out: its outputs. Devices may take different branches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from samebits.errors import BrokenPromise, NotCovered
from samebits.interpret import devices
from samebits.interpret.complex_pairs import same
from samebits.interpret.dead_code import live
from samebits.interpret.devices import Axes, PerDevice
from samebits.interpret.domain import InterpreterProtocol, JoiningDomain, Value
from samebits.interpret.equation import Step, Type, scan_sizes, type_of
from samebits.interpret.kernel_memory import kernel_memory
from samebits.interpret.kernels import copies, without_references

_NAMES = {"gpu": ("cuda", "rocm")}
"""Platforms that have other names in `lax.platform_dependent`."""


def platform_index(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """The number of the branch of this platform."""
    return [np.asarray(branch_of(interpreter.platform, eqn.params["platforms"]), np.int32)]


def branch_of(platform: str | None, platforms: Sequence[Any]) -> int:
    """The number of the branch of a platform.

    Args:
        platform: such as `cpu`; None takes the default branch.
        platforms: of each branch, the names of its platforms; None is the default.
    """
    wanted = _NAMES.get(platform or "", (platform,))
    for number, names in enumerate(platforms):
        if names is not None and any(name in names for name in wanted):
            return number
    if None not in platforms:
        raise NotCovered(f"no branch of lax.platform_dependent is for {platform or 'every platform'}")
    return list(platforms).index(None)


def cond(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """The branch that the predicate chooses."""
    which, *operands = values
    branches = eqn.params["branches"]
    if not _is_known(which) and isinstance(interpreter.domain, JoiningDomain):
        outcomes = [interpreter.closed(branch, operands, axes) for branch in branches]
        return interpreter.domain.either(Step.of(eqn), which, outcomes)
    chosen = _predicate(interpreter, eqn, which, 0, len(branches) - 1)
    if isinstance(chosen, int):
        return interpreter.closed(branches[chosen], operands, axes)
    # The devices take different branches, which therefore cannot communicate.
    each = [
        interpreter.closed(branches[index], devices.on(operands, device), Axes()) for device, index in enumerate(chosen)
    ]
    return [PerDevice(tuple(outputs)) for outputs in zip(*each, strict=True)]


def _is_known(which: Value) -> bool:
    """Whether a predicate is a number, on every device."""
    return all(isinstance(v, np.ndarray) for v in (which.values if isinstance(which, PerDevice) else (which,)))


def while_loop(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """Evaluates the body as long as the condition holds."""
    tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body, carry = values[:tests], values[tests : tests + bodies], list(values[tests + bodies :])
    while True:
        (more,) = interpreter.closed(eqn.params["cond_jaxpr"], [*test, *carry], axes)
        if not _is_known(more) and isinstance(interpreter.domain, JoiningDomain):
            return _any_number_of_times(interpreter, interpreter.domain, eqn, (test, body, carry), axes)
        if np.shape(more):
            running = _running(interpreter, eqn, more)
            if not running.any():
                return carry
            after = interpreter.closed(eqn.params["body_jaxpr"], [*body, *carry], axes)
            kinds = [type_of(var.aval) for var in eqn.outvars]
            carry = [_stepped(interpreter, running, *each) for each in zip(carry, after, kinds, strict=True)]
            continue
        go = _predicate(interpreter, eqn, more, 0, 1)
        if not isinstance(go, int):
            count = len(go)
            each = [while_loop(interpreter, eqn, devices.on([*test, *body, *carry], d), Axes()) for d in range(count)]
            return [PerDevice(tuple(outputs)) for outputs in zip(*each, strict=True)]
        if not go:
            return carry
        carry = interpreter.closed(eqn.params["body_jaxpr"], [*body, *carry], axes)


def _any_number_of_times(
    interpreter: InterpreterProtocol,
    domain: JoiningDomain,
    eqn: Any,
    operands: tuple[list[Value], list[Value], list[Value]],
    axes: Axes,
) -> list[Value]:
    """Evaluates the body until one more time changes nothing that a domain holds of the carried values."""
    test, body, carry = operands
    kinds = tuple(type_of(var.aval) for var in eqn.outvars)
    (predicate,) = (type_of(var.aval) for var in eqn.params["cond_jaxpr"].jaxpr.outvars)
    step = Step(eqn.primitive.name, eqn.params, (predicate,), kinds, eqn)
    while True:
        (more,) = interpreter.closed(eqn.params["cond_jaxpr"], [*test, *carry], axes)
        after = interpreter.closed(eqn.params["body_jaxpr"], [*body, *carry], axes)
        joined = domain.either(step, more, [carry, after])
        if all(same(domain, *each) for each in zip(carry, joined, strict=True)):
            return joined
        carry = joined


def _running(interpreter: InterpreterProtocol, eqn: Any, more: Value) -> Any:
    """Which loops of a batch go on."""
    if isinstance(more, PerDevice):
        raise NotCovered(f"{Step.of(eqn)} is a batch of loops, of which devices run different ones")
    return np.asarray(interpreter.domain.concrete(Step.of(eqn), more))


def _stepped(interpreter: InterpreterProtocol, running: Any, before: Value, after: Value, kind: Type) -> Value:
    """The carried value of a batch of loops: of those that go on the new one."""
    ids = np.arange(math.prod(kind.shape)).reshape(kind.shape)
    chosen = running.reshape(running.shape + (1,) * (len(kind.shape) - running.ndim))
    return interpreter.taken([before, after], np.where(chosen, ids + ids.size, ids), kind)


def scan(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """Evaluates the body for each element of the leading axis."""
    params = eqn.params
    consts, carries = scan_sizes(params)
    fixed, carry, stacked = values[:consts], values[consts : consts + carries], values[consts + carries :]
    order = range(params["length"])
    collected: list[list[Value]] = []
    for number in reversed(order) if params["reverse"] else order:
        rows = [
            _row(interpreter, value, number, type_of(var.aval))
            for value, var in zip(stacked, eqn.invars[consts + carries :], strict=True)
        ]
        outputs = interpreter.closed(params["jaxpr"], [*fixed, *carry, *rows], axes)
        carry = outputs[:carries]
        collected.append(outputs[carries:])
    if params["reverse"]:
        collected.reverse()
    ys = [
        interpreter.stacked([row[number] for row in collected], type_of(var.aval))
        for number, var in enumerate(eqn.outvars[carries:])
    ]
    return [*carry, *ys]


def linear_solve(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """The solver that goes with a linear operator."""
    lengths = list(eqn.params["const_lengths"])
    before, own = sum(lengths[:2]), lengths[2]  # those of the operator and of its transpose come first
    operands = values[sum(lengths) :]
    return interpreter.closed(eqn.params["jaxprs"][2], [*values[before : before + own], *operands], axes)


def high_primitive(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """What a primitive written in Python expands to."""
    return interpreter.closed(_expanded(eqn), values, axes)


@functools.lru_cache(maxsize=256)
def _expanded(eqn: Any) -> Any:
    primitive = eqn.params["_prim"]

    def program(*flat: Any) -> Any:
        return jax.tree.leaves(primitive.expand(*jax.tree.unflatten(primitive.in_tree, flat)))

    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    wide = any(type_of(aval).dtype.itemsize == 8 and not type_of(aval).is_key for aval in avals)
    types = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
    with jax.enable_x64(wide), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
        return live(jax.make_jaxpr(program)(*types))


def kernel(interpreter: InterpreterProtocol, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
    """A Pallas kernel, as a program without references to memory; its copies may be done early or late.

    Raises:
        BrokenPromise: it uses its memory wrongly, and what it computes is undefined.
    """
    faults = kernel_memory(eqn, [value if isinstance(value, np.ndarray) else None for value in values]).faults
    if faults:
        raise BrokenPromise.of(Step.of(eqn), str(faults[0]), "")
    outputs = interpreter.closed(without_references(eqn), values, axes)
    if copies(eqn):
        late = interpreter.closed(without_references(eqn, late=True), values, axes)
        if not all(same(interpreter.domain, *each) for each in zip(outputs, late, strict=True)):
            raise BrokenPromise.of(
                Step.of(eqn), "its results depend on when a copy is done between its start and its wait", ""
            )
    return outputs


def _row(interpreter: InterpreterProtocol, value: Value, number: int, kind: Type) -> Value:
    size = math.prod(kind.shape[1:])
    index = (number * size + np.arange(size)).reshape(kind.shape[1:])
    return interpreter.taken([value], index, Type(kind.shape[1:], kind.dtype))


def _predicate(interpreter: InterpreterProtocol, eqn: Any, value: Value, low: int, high: int) -> int | list[int]:
    """A predicate or branch number: one for all devices, or one per device where they differ."""
    step = Step.of(eqn)
    each = value.values if isinstance(value, PerDevice) else (value,)
    numbers = [min(max(int(interpreter.domain.concrete(step, v)), low), high) for v in each]
    return numbers[0] if len(set(numbers)) == 1 else numbers


CONTROL: dict[str, Callable[[InterpreterProtocol, Any, list[Value], Axes], Sequence[Value]]] = {
    "call_hi_primitive": high_primitive,
    "cond": cond,
    "custom_linear_solve": linear_solve,
    "pallas_call": kernel,
    "platform_index": platform_index,
    "scan": scan,
    "while": while_loop,
}
"""By primitive, its rule."""
