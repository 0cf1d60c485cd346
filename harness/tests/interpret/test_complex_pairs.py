"""Complex numbers as pairs: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from samebits.errors import NotCovered
from samebits.interpret import complex_pairs
from samebits.interpret.equation import Step, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import movement
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.step_bounds import exactly
from tests.interpret.executed import answers, asked, check, compared

Function = Callable[..., Any]

RNG = np.random.default_rng(26)
X, Y = (RNG.normal(size=(3, 4)).astype(np.float32) for _ in range(2))


def z(x: Any, y: Any) -> Any:
    return lax.complex(x, y)


def parts(value: Any) -> Any:
    return jnp.stack([jnp.real(value), jnp.imag(value)])


def of(function: Function) -> Function:
    """A function of one complex number, as one of two arrays of its parts."""
    return lambda x, y: parts(function(z(x, y)))


def of_two(function: Function) -> Function:
    return lambda x, y: parts(function(z(x, y), z(y + 2, x)))


EXECUTED: dict[str, Function] = {
    "mul": of_two(lambda a, b: a * b),
    "div": of_two(lambda a, b: a / b),
    "add, sub, neg": of_two(lambda a, b: -(a + b) - b),
    "dot_general": of_two(lambda a, b: a @ b.T),
    "conj": of_two(lambda a, b: jnp.vdot(a, b)),
    "exp": of(jnp.exp),
    "log": of(jnp.log),
    "abs": lambda x, y: jnp.abs(z(x, y)),
    "angle": lambda x, y: jnp.angle(z(x, y)),
    "sign": of(jnp.sign),
    "integer_pow": of(lambda a: a**3 + a**-2),
    "square": of(jnp.square),
    "sums": of(lambda a: jnp.cumsum(a, 0) + a.sum(1, keepdims=True) + a.mean()),
    "prod": of(lambda a: jnp.prod(a, 0)),
    "comparisons": lambda x, y: [z(x, y) == z(x, y), z(x, y) != z(y, x), jnp.isfinite(z(x, y))],
    "moves": of(lambda a: jnp.pad(a.T[::-1], 1).at[0].add(1j).reshape(-1)[3:]),
    "a choice": of_two(lambda a, b: jnp.where(jnp.real(a) > 0, a, b)),
    "a real factor": lambda x, y: parts(x * z(x, y) + y),
    "iota": lambda x, y: parts(z(x, y) * jnp.arange(4, dtype=np.complex64)),
    "a scan": of(lambda a: lax.scan(lambda c, r: (c * r, c + r), jnp.ones(4, a.dtype), a)[1]),
    "a loop": of(lambda a: lax.fori_loop(0, 3, lambda _, c: c * a, a)),
    "a gradient": jax.grad(lambda x, y: jnp.sum(jnp.abs(z(x, y) * jnp.exp(1j * y))), (0, 1)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    check(EXECUTED[name], X.astype(np.float64), Y.astype(np.float64))


def test_a_step_without_an_equation_has_indices_of_its_own() -> None:
    """Moves of parts are steps that end at once, and their memory is used again for the next one."""
    interpreter, kinds = Interpreter(Oracle()), [Type((20,), np.dtype(np.int32)), Type((1,), np.dtype(np.int32))]
    for start in range(20):
        bounds = {"start_indices": (start,), "limit_indices": (start + 1,), "strides": None}
        step = Step("slice", bounds, (kinds[0],), (kinds[1],))
        (moved,) = interpreter.local(step, [np.arange(20, dtype=np.int32)])
        assert moved.tolist() == [start]
        del step


def rotated(x: Any, angles: Any) -> Any:
    """Rotary embedding by a complex product."""
    pairs = z(x[:, 0::2], x[:, 1::2]) * jnp.exp(1j * angles[:, :2])
    return parts(pairs)


def turned(x: Any, angles: Any, sign: int = 1) -> Any:
    """The same in real numbers."""
    a, b, angle = x[:, 0::2], x[:, 1::2], sign * angles[:, :2]
    return jnp.stack([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)])


def summed(x: Any, y: Any) -> Any:
    mesh = AbstractMesh((3,), ("d",), axis_types=(AxisType.Auto,))
    body: Any = jax.shard_map(lambda v: lax.psum(v[0], "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    return parts(body(z(x, y)))


EQUAL: dict[str, tuple[Function, Function]] = {
    "rotary embedding": (rotated, turned),
    "its gradients": (
        jax.grad(lambda x, y: jnp.sum(rotated(x, y) ** 3), (0, 1)),
        jax.grad(lambda x, y: jnp.sum(turned(x, y) ** 3), (0, 1)),
    ),
    "z conj(z)": (lambda x, y: jnp.real(z(x, y) * jnp.conj(z(x, y))), lambda x, y: jnp.abs(z(x, y)) ** 2),
    "a quotient undoes": (of_two(lambda a, b: a / b * b), of(lambda a: a)),
    "powers": (of(lambda a: a**5), of(lambda a: a * a * a * a * a)),
    "exp of a sum": (of_two(lambda a, b: jnp.exp(a + b)), of_two(lambda a, b: jnp.exp(a) * jnp.exp(b))),
    "a product of matrices": (of_two(lambda a, b: (a @ b.T).T), of_two(lambda a, b: b @ a.T)),
    "an adjoint": (of_two(lambda a, b: (a @ b.T).conj().T), of_two(lambda a, b: b.conj() @ a.conj().T)),
    "a sum over devices": (of(lambda a: a.sum(0)), summed),
}

DIFFERENT: dict[str, tuple[Function, Function]] = {
    "the other direction": (rotated, lambda x, y: turned(x, y, -1)),
    "without the conjugate": (of_two(lambda a, b: jnp.vdot(a, b)), of_two(lambda a, b: jnp.sum(a * b))),
    "the parts exchanged": (of(lambda a: a), lambda x, y: parts(z(y, x))),
    "the conjugate of one factor": (of_two(lambda a, b: (a * b).conj()), of_two(lambda a, b: a.conj() * b)),
    "a modulus without its root": (lambda x, y: jnp.abs(z(x, y)), lambda x, y: x * x + y * y),
    "one power less": (of(lambda a: a**4), of(lambda a: a**3)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    answer = compared(*EQUAL[name], X, Y)
    # The fields know cos and sin by no law but their signs, so a sum of angles may stay undecided.
    assert answer == ("undecided" if name == "exp of a sum" else "equal")


test_their_unequal_twins_are_different = answers("different", DIFFERENT, X, Y)


def test_labels_move_complex_numbers() -> None:
    def moved(x: Any, y: Any) -> Any:
        return parts(z(x, y).T[::-1])

    def other(x: Any, y: Any) -> Any:
        return jnp.stack([x.T, y.T])[:, ::-1]

    assert movement(asked(moved, other, X, Y))["out"].equal
    assert not movement(asked(moved, lambda x, y: other(y, x), X, Y))["out"].equal


def test_bounds_hold_for_products_and_none_for_quotients() -> None:
    function = of_two(lambda a, b: (a * jnp.exp(3 * b)) @ jnp.conj(b.T))
    (bounded,) = Interpreter(RoundingDomain(jax.default_backend()))(
        jax.make_jaxpr(function)(X, Y), exactly(X), exactly(Y)
    )
    assert bounded.used(np.asarray(jax.jit(function)(X, Y))).max() <= 1
    with pytest.raises(NotCovered, match=r"div.* of complex numbers has no rule in the domain 'rounding'"):
        Interpreter(RoundingDomain())(jax.make_jaxpr(EXECUTED["div"])(X, Y), exactly(X), exactly(Y))


FAULTS: dict[str, tuple[str, Function, str]] = {
    "a conjugate that does nothing": ("conj", lambda x: x, "conj"),
    "a product with the wrong sign": (
        "mul",
        lambda x, y: (x[0] * y[0] + x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        "mul",
    ),
    "a quotient that forgets a part": ("div", lambda x, y: (x[0] / y[0], x[1] / y[0]), "div"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    primitive, wrong, program = FAULTS[name]
    monkeypatch.setitem(complex_pairs.PROGRAMS, primitive, wrong)
    with pytest.raises(AssertionError, match="output 0"):
        check(EXECUTED[program], X.astype(np.float64), Y.astype(np.float64))
