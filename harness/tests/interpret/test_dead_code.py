"""Equations whose results are unused do not end a proof, wherever they are; used ones do."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from samebits.errors import NotCovered
from samebits.interpret import dead_code
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelProver
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error.estimate import estimate_errors
from tests.interpret.executed import asked

Array = Any
Function = Callable[[Array, int], Array]

X = np.random.default_rng(5).uniform(0.3, 2, (4, 4)).astype(np.float32)


def drawn(like: Array) -> Array:
    """Numbers of this shape, from a primitive that no domain covers: floats read as bits."""
    return lax.bitcast_convert_type(lax.bitcast_convert_type(like, np.int32), np.float32)


def of_a_loop(x: Array, used: int) -> Array:
    def body(carry: Any) -> Any:
        return carry[0] + 1, carry[1][::-1], carry[2] + drawn(x)

    return lax.while_loop(lambda carry: carry[0] < 3, body, (0, x, x))[1 + used]


@jax.custom_vjp
def _with_rule(x: Array) -> tuple[Array, Array]:
    drawn(x)
    return x.T, drawn(x)


_with_rule.defvjp(lambda x: (_with_rule(x), None), lambda kept, pulled: (pulled[0].T,))


@jax.custom_jvp
def _with_tangent(x: Array) -> tuple[Array, Array]:
    return x.T, drawn(x)


_with_tangent.defjvp(lambda primals, tangents: (_with_tangent(*primals), (tangents[0].T, tangents[0])))


def of_a_device(x: Array, used: int) -> Array:
    mesh = AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))
    body: Any = jax.shard_map(lambda x: (x, drawn(x)), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    return body(x)[used]


def of_a_message(x: Array, used: int) -> Array:
    rare = drawn(x)

    def body(carry: Array, row: Array) -> tuple[Array, Array]:
        jax.debug.print("{}", drawn(row))
        return carry, row

    jax.debug.callback(lambda value: None, rare)
    return (lax.scan(body, x[0], x)[1], rare)[used]


def of_a_nest(x: Array, used: int) -> Array:
    def body(carry: Array, row: Array) -> tuple[Array, Array]:
        found = jax.jit(lambda row: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[2], c[1]), (0, row, row)))
        return carry, jnp.stack([found(row)[1], of_a_loop(row, 1) if used else of_a_loop(row, 0)])

    return lax.scan(body, x[0], x)[1]


NESTS: dict[str, Function] = {
    "a call": lambda x, used: jax.jit(lambda x: (x[::-1], drawn(x)))(x)[used],
    "a scan": lambda x, used: lax.scan(lambda carry, row: (carry + drawn(carry), (row, carry)), x[0], x)[1][used],
    "the carry of a scan": lambda x, used: lax.scan(
        lambda carry, row: ((row, carry[1] + drawn(row)), None), (x[0], x[1]), x
    )[0][used],
    "the carry of a while": of_a_loop,
    "a cond": lambda x, used: lax.cond(jnp.arange(3)[1] > 0, lambda x: (x[::-1], drawn(x)), lambda x: (x, x), x)[used],
    "a checkpoint": lambda x, used: jax.checkpoint(lambda x: (x.T, drawn(x)))(x)[used],
    "a custom_vjp": lambda x, used: _with_rule(x)[used],
    "a custom_jvp": lambda x, used: _with_tangent(x)[used],
    "a shard_map": of_a_device,
    "a message": of_a_message,
    "a loop in a call in a scan": of_a_nest,
}


@pytest.mark.parametrize("name", NESTS)
def test_what_is_thrown_away_ends_no_proof(name: str) -> None:
    function = NESTS[name]
    question = asked(lambda x: function(x, 0), lambda x: function(x, 0), X)
    (found,) = Interpreter(Oracle())(question.reference, X)
    assert np.array_equal(found, np.asarray(function(X, 0)) if name != "a shard_map" else X)
    assert LabelProver(question).movement(question)["out"].equal  # labels
    assert identity(question)["out"].equal  # fields
    judged = estimate_errors(question.variant, question, "cpu")  # bounds
    assert not judged.bounds["out"].any()


@pytest.mark.parametrize("name", NESTS)
def test_what_is_used_still_ends_it(name: str) -> None:
    function = NESTS[name]
    question = asked(lambda x: function(x, 1), lambda x: function(x, 1), X)
    with pytest.raises(NotCovered):
        identity(question)


@pytest.mark.parametrize(
    ("function", "repeated"),
    [
        (lambda x: jnp.sin(x) + jnp.sin(x), 1),
        (lambda x: jnp.sin(x.T @ x) * jnp.sin(x.T @ x) + 2.0 * x, 3),
        (lambda x: jnp.sin(x) + jnp.cos(x) + lax.sin(x, accuracy=lax.AccuracyMode.HIGHEST), 0),
        (lambda x: x[:2].sum() + x[2:].sum(), 0),
        (lambda x: (x + 1) * (x + 2) + 1 * x.astype(int) * True, 0),
    ],
)
def test_what_is_computed_twice_is_computed_once(function: Any, repeated: int) -> None:
    program = jax.make_jaxpr(function)(X)
    single = dead_code.once(program)
    assert len(program.eqns) - len(single.eqns) == repeated
    for given, expected in zip(jax.core.eval_jaxpr(single.jaxpr, single.consts, X), [function(X)], strict=True):
        np.testing.assert_array_equal(given, expected)


def test_levels_effects_and_memory_are_kept_apart() -> None:
    def body(carry: Any, _: Any) -> Any:
        return jnp.sin(carry) + jnp.sin(carry), None

    def effects(x: Array) -> Array:
        return sum(io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) for _ in range(2))

    def memory(x: Array) -> Array:
        cells = [jax.new_ref(x), jax.new_ref(x)]
        cells[0][0, 0] = 7.0
        return cells[1][...]

    (loop,) = dead_code.once(jax.make_jaxpr(lambda x: lax.scan(body, x, None, length=2)[0])(X)).eqns
    assert [eqn.primitive.name for eqn in loop.params["jaxpr"].eqns] == ["sin", "add"]
    for kept in (effects, memory):
        program = jax.make_jaxpr(kept)(X)
        assert len(dead_code.once(program).eqns) == len(dead_code.live(program).eqns)


def test_what_is_written_elsewhere_is_not_thrown_away() -> None:
    """Of all effects only messages are left out: what another one writes may be read again."""

    def function(x: Array) -> Array:
        io_callback(lambda value: value, x, x, ordered=True)
        return x

    question = asked(function, function, X)
    with pytest.raises(NotCovered, match="io_callback"):
        identity(question)


def test_the_inputs_and_outputs_stay_and_so_do_the_lines() -> None:
    closed = jax.make_jaxpr(lambda x, y: (x * 2.0, x, drawn(y).sum() * 0 + 1))(X, X)
    found = dead_code.live(jax.make_jaxpr(lambda x, y: (x * 2.0, drawn(y))[0])(X, X))
    assert len(found.in_avals) == 2 and [eqn.primitive.name for eqn in found.eqns] == ["mul"]
    assert dead_code.live(closed).out_avals == closed.out_avals
    assert found.eqns[0].source_info.traceback is not None


# -- planted faults


def test_a_walk_that_keeps_what_nothing_uses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samebits.interpret.interpreter.live", lambda closed: closed)
    with pytest.raises(NotCovered):
        test_what_is_thrown_away_ends_no_proof("a call")


def test_a_walk_that_removes_what_is_used_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(closed: Any) -> Any:
        found = dead_code.live(closed)
        return found.replace(jaxpr=found.jaxpr.replace(eqns=found.jaxpr.eqns[1:]))

    monkeypatch.setattr("samebits.interpret.interpreter.live", forgetful)
    with pytest.raises(KeyError):
        test_what_is_thrown_away_ends_no_proof("a cond")
