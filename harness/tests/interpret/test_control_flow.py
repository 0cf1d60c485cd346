"""Branches, loops and calls: the interpreter and jax, forward and gradient, and devices in different branches."""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from samebits.errors import NotCovered
from samebits.interpret import control_flow
from samebits.interpret.equation import Type
from samebits.interpret.field.domain import Field
from samebits.interpret.interpreter import CALLS, Interpreter
from samebits.interpret.labels import LabelDomain
from samebits.interpret.oracle import Oracle
from tests.interpret.executed import agree, check, missing

Function = Callable[..., Any]

X = np.random.default_rng(3).normal(size=(4, 3))
N = np.array([2, 0, 5, -1], np.int32)


def branches(x: Any, n: Any) -> Any:
    """Predicates of the input and of constants; indices out of range are clamped."""
    sides = (jnp.sin, jnp.cos, lambda y: y * 2)
    found = [lax.cond(x[0, 0] > limit, jnp.sin, jnp.cos, x) for limit in (-9.0, 9.0)]
    found += [lax.switch(n[at], sides, x) for at in range(4)]
    return found, lax.cond(True, lambda y: (y, y + 1), lambda y: (y - 1, y), x)


def while_loops(x: Any, n: Any) -> Any:
    def more(carry: Any) -> Any:
        return (carry[0] < n[2]) & (jnp.sum(carry[1]) < 1e3)

    _, y = lax.while_loop(more, lambda carry: (carry[0] + 1, carry[1] * 1.5 + x), (0, x))
    never = lax.while_loop(lambda y: jnp.sum(y) > 1e9, lambda y: y * 2, x)
    return y, never, lax.fori_loop(0, n[2], lambda i, y: y + i * x, x), lax.fori_loop(0, n[3], lambda i, y: y * 2, x)


def scanned(length: int, reverse: bool) -> Function:
    """Constants, a carry of two parts, two inputs, two outputs, and an integer among each."""

    def program(x: Any, n: Any) -> Any:
        scale = x[0] * 2

        def body(carry: Any, row: Any) -> Any:
            (total, count), (xs, number) = carry, row
            total = total * scale + xs
            return (total, count + number), (total + count, number * 2)

        rows = (x[:length], n[:length]) if length else (x[:0], n[:0])
        return lax.scan(body, (x[1], np.int32(1)), rows, reverse=reverse)

    return program


@jax.custom_jvp
def doubled(x: Any) -> Any:
    return jnp.sin(x) * 2


@doubled.defjvp
def _doubled_jvp(primals: Any, tangents: Any) -> Any:
    return doubled(primals[0]), 3 * jnp.cos(primals[0]) * tangents[0]  # not the derivative, so that it shows


@jax.custom_vjp
def tripled(x: Any) -> Any:
    return jnp.cos(x) * 3


tripled.defvjp(lambda x: (tripled(x), x), lambda x, cotangent: (5 * x * cotangent,))


def calls(x: Any, n: Any) -> Any:
    kept = partial(jax.checkpoint, policy=jax.checkpoint_policies.nothing_saveable)
    inner = jax.jit(lambda y, count: (jax.jit(jnp.sin)(y) * count, count + 1))
    found = [kept(lambda y: jnp.sin(jnp.sin(y)))(x), doubled(x), tripled(x), *inner(x, n[0]), jax.nn.relu(x)]
    return found, jax.nn.silu(x), jax.named_call(jnp.tanh, name="named")(x)


PROGRAMS: dict[str, Function] = {
    "branches": branches,
    "while loops": while_loops,
    "a scan": scanned(4, reverse=False),
    "a scan from the end": scanned(4, reverse=True),
    "a scan of one": scanned(1, reverse=True),
    "a scan of none": scanned(0, reverse=False),
    "a scan without inputs": lambda x, n: lax.scan(lambda carry, _: (carry * 2 + x, carry[0]), x, None, length=3),
    "calls": calls,
}


def gradient(program: Function) -> Function:
    """Of a weighted sum of the floats, weighted so that every output matters in its own way."""

    def loss(x: Any, n: Any) -> Any:
        outputs = [out for out in jax.tree.leaves(program(x, n)) if jnp.issubdtype(out.dtype, jnp.floating)]
        return sum(jnp.sum(out * (number + 1.5)) for number, out in enumerate(outputs))

    return jax.grad(loss)


@functools.cache
def forward(name: str) -> set[str]:
    """The primitives that a program and jax agree on."""
    return check(PROGRAMS[name], X, N)


@functools.cache
def backward(name: str) -> set[str]:
    return check(gradient(PROGRAMS[name]), X, N)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_and_gradient_are_what_jax_computes(name: str) -> None:
    forward(name)
    if name != "while loops":  # which have no gradient backwards
        backward(name)


NEWER = {"empty2", "eval_jaxpr"}
"""What only some versions of jax make of these programs."""


ELSEWHERE = {"call_hi_primitive", "composite", "compute_on", "custom_linear_solve", "custom_vmap_call", "linear_call"}
ELSEWHERE |= {"call", "pallas_call", "remat_opt", "xla_metadata_call"}
"""Met by tests of special functions, composite primitives and kernels; `call` only older versions of jax make."""


def closed(x: Any) -> Any:
    if not hasattr(primitives, "closed_call_p"):
        return x
    inner = jax.make_jaxpr(lambda y: jnp.sin(y) * 2)(x)
    call: Any = primitives.closed_call_p
    return call.bind(x, **call.get_bind_params({"call_jaxpr": inner}))


def unread(x: Any) -> Any:
    """Memory that is neither written nor read; the gradient of a branch has some, too."""
    return jnp.where(True, x, lax.empty(x.shape, x.dtype))


def by_platform(x: Any) -> Any:
    return lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.tan, default=jnp.cos)


def test_every_call_and_every_branch_is_met() -> None:
    met = check(closed, X) | check(by_platform, X, platform="cpu")
    met |= check(unread, X) | backward("branches")
    for name in PROGRAMS:
        met |= forward(name)
    assert set(missing({*CALLS, *control_flow.CONTROL, "empty", "empty2"}, met)) <= NEWER | ELSEWHERE


@pytest.mark.parametrize(("platform", "function"), [("cpu", np.sin), ("tpu", np.tan), ("gpu", np.cos), (None, np.cos)])
def test_the_branch_of_the_platform_is_walked(platform: str | None, function: Any) -> None:
    (found,) = Interpreter(Oracle(), platform)(jax.make_jaxpr(by_platform)(X), X)
    assert agree(found, function(X))


def test_a_predicate_that_names_cannot_decide_is_refused() -> None:
    domain = LabelDomain()
    kind = Type(X.shape, np.dtype(np.float32))
    program = jax.make_jaxpr(lambda x: lax.cond(x[0, 0] > 0, lambda y: y, lambda y: y[::-1], x))(X)
    with pytest.raises(NotCovered, match=r"gt\(.*labels.*|gt\(.*values"):
        Interpreter(domain)(program, domain.input("x", kind))


# -- devices that go different ways


def on_devices(body: Function, mesh: Any) -> Function:
    return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"))


def parting(x: Any) -> Any:
    """Another branch, and another number of rounds, on every device; then they meet again."""
    me = lax.axis_index("d")
    x = lax.cond(me % 2 == 0, jnp.sin, lambda y: y * 2, x)
    x = lax.switch(me, [partial(lambda k, y: y + k, k) for k in range(3)], x)
    x = lax.while_loop(lambda carry: carry[0] < me, lambda carry: (carry[0] + 1, carry[1] * 1.5 + 1), (0, x))[1]
    x = lax.fori_loop(0, me + 1, lambda i, y: y + i * me, x)
    return x + lax.psum(x, "d")


def agreeing(x: Any) -> Any:
    """The branches hold a collective, and all devices take the same one."""
    total = lax.psum(jnp.sum(x), "d")
    x = lax.cond(total > -1e9, lambda y: lax.ppermute(y, "d", [(0, 1), (1, 2), (2, 0)]), lambda y: y, x)
    return lax.fori_loop(0, 3, lambda i, y: lax.pmax(y, "d") + i * y, x)


@pytest.mark.parametrize("body", [parting, agreeing])
def test_devices_part_and_meet_as_in_jax(body: Function) -> None:
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    check(on_devices(body, mesh), np.random.default_rng(0).normal(size=(8, 2)))


def _in_a_branch(x: Any) -> Any:
    return lax.cond(lax.axis_index("d") < 2, lambda y: lax.ppermute(y, "d", [(0, 1), (1, 0)]), lambda y: y, x)


def _in_a_loop(x: Any) -> Any:
    me = lax.axis_index("d")
    around = [(0, 1), (1, 0)]
    return lax.while_loop(lambda c: c[0] < me, lambda c: (c[0] + 1, lax.ppermute(c[1], "d", around)), (0, x))[1]


@pytest.mark.parametrize("body", [_in_a_branch, _in_a_loop])
def test_a_collective_that_only_some_devices_reach_is_refused(body: Function) -> None:
    program = jax.make_jaxpr(on_devices(body, AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))))(
        np.zeros((4, 2), np.float32)
    )
    with pytest.raises(NotCovered, match=r"ppermute\(.*test_control_flow\.py:\d+.*axis 'd' is not there"):
        Interpreter(Oracle())(program, np.zeros((4, 2)))


# -- the fields, on the same programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_shadow_of_the_fields_is_the_float64_walk(name: str) -> None:
    for program in (PROGRAMS[name], gradient(PROGRAMS[name]))[: 1 if name == "while loops" else 2]:
        with jax.enable_x64(True):
            traced = jax.make_jaxpr(program)(X, N)
        domain = Field()
        found = Interpreter(domain)(traced, domain.input("x", X, Type(X.shape, np.dtype(np.float64))), N)
        expected = Interpreter(Oracle())(traced, X, N)
        for one, other in zip(found, expected, strict=True):
            assert agree(np.asarray(getattr(one, "shadow", one)), other)


# -- planted faults


def _once_more(interpreter: Any, eqn: Any, values: Any, axes: Any) -> Any:
    out = RIGHT["while"](interpreter, eqn, values, axes)
    tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    return interpreter.closed(eqn.params["body_jaxpr"], [*values[tests : tests + bodies], *out], axes)


RIGHT = dict(control_flow.CONTROL)
FAULTS = {
    "a scan runs backwards": (
        "scan",
        lambda interpreter, eqn, values, axes: RIGHT["scan"](
            interpreter, eqn.replace(params={**eqn.params, "reverse": not eqn.params["reverse"]}), values, axes
        ),
        scanned(4, reverse=False),
    ),
    "the other branch": (
        "cond",
        lambda interpreter, eqn, values, axes: RIGHT["cond"](
            interpreter, eqn.replace(params={**eqn.params, "branches": eqn.params["branches"][::-1]}), values, axes
        ),
        branches,
    ),
    "one round too many": ("while", _once_more, while_loops),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_walk_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong, program = FAULTS[fault]
    monkeypatch.setitem(control_flow.CONTROL, name, wrong)
    with pytest.raises(AssertionError):
        check(program, X, N)
