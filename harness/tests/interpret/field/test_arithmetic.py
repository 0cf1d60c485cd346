"""Random formulas and rewrites: what is true is the same in the fields, what is the same there is so in float64."""

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Type
from samebits.interpret.field import residues
from samebits.interpret.field.arithmetic import FORMULAS
from samebits.interpret.field.base import HeldValues
from samebits.interpret.field.domain import Field
from samebits.interpret.field.residues import PRIMES, Ring
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.field_proof.result import ENOUGH
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from tests.interpret.executed import asked
from tests.interpret.programs import MOVING, Op, Program, Tape, few, resized, scattered
from tests.interpret.rewrites import FALSE, TRUE, Formula, follow, formula, number, of, paths, rewritten


def inputs(seed: int) -> list[Any]:
    return [np.random.default_rng([seed, k]).uniform(0.5, 2, 3).astype(np.float32) for k in range(3)]


def with_gradient(node: Formula) -> Callable[..., Any]:
    weights = np.array([1.0, -0.5, 0.25], np.float32)
    return lambda *x: (node(*x), *jax.grad(lambda *y: jnp.sum(node(*y) * weights), (0, 1, 2))(*x))


def decided(first: Formula, second: Formula, seed: int = 0) -> list[FieldIdentity] | None:
    """What the fields say of two formulas and their gradients; None where they cannot decide."""
    try:
        return list(identity(asked(with_gradient(first), with_gradient(second), *inputs(seed))).values())
    except NotCovered:
        return None


def in_float64(node: Formula, seed: int) -> list[Any]:
    x = [array.astype(np.float64) for array in inputs(seed)]
    return [np.asarray(out) for out in Interpreter(Oracle())(jax.make_jaxpr(with_gradient(node))(*x), *x)]


def apart(first: list[Any], second: list[Any]) -> bool:
    """Whether results differ by what no rounding explains."""
    return any(
        np.abs(one - other).max() > 1e-6 * max(np.abs(one).max(), 1e-3)
        for one, other in zip(first, second, strict=True)
    )


@pytest.mark.slow
@few(30)
@given(tape=st.binary(min_size=80, max_size=80))
def test_true_rewrites_are_the_same_formula(tape: bytes) -> None:
    pick = Tape(tape)
    first = second = formula(pick, 3)
    for _ in range(4):
        second = rewritten(second, TRUE, pick)
    found = decided(first, second)
    assume(found is not None and np.isfinite(in_float64(first, 0)[0]).all())
    assert found is not None
    assert all(one.equal and one.log2_error <= ENOUGH for one in found), (first, second)


@pytest.mark.slow
@few(50)
@given(tape=st.binary(min_size=90, max_size=90))
def test_the_same_formula_is_the_same_in_float64(tape: bytes) -> None:
    """Whatever the rewrite, at other inputs than those of the proof; and what is not equal is refuted or undecided."""
    pick = Tape(tape)
    first = second = formula(pick, 3)
    second = rewritten(rewritten(second, FALSE, pick), TRUE, pick)
    found = decided(first, second)
    assume(found is not None)
    assert found is not None
    if apart(in_float64(first, 0), in_float64(second, 0)):
        assert not all(one.equal for one in found), (first, second)
    if all(one.equal for one in found):
        assert not apart(in_float64(first, 1), in_float64(second, 1)), (first, second)


def test_the_rules_fit_often_enough_to_say_something() -> None:
    for rules in (TRUE, FALSE):
        for name, rule in rules.items():
            assert any(rule(node, number(2.0)) not in (None, node) for node in SOME), name


SOME = [formula(Tape(random.Random(seed).randbytes(60)), 3) for seed in range(300)]
SOME += [follow(node, path) for node in SOME for path in paths(node)]


# -- random polynomials


def told_apart() -> bool:
    """Of 2000 pairs of degree 7 that differ in one coefficient, by one: every pair, at each random point alone."""
    rng = np.random.default_rng(0)
    coefficients = rng.integers(-9, 10, (2000, 8))
    changed = coefficients.copy()
    changed[np.arange(2000), rng.integers(0, 8, 2000)] += 1
    domain = Field(repetitions=4, levels=1)
    x = domain.input("x", rng.normal(size=(2000, 1)), Type((2000, 1), np.dtype(np.float32)))
    powers = np.arange(8)

    def interpreted(weights: Any) -> Any:
        program = jax.make_jaxpr(lambda x: sum(x[:, 0] ** int(k) * weights[:, k].astype(np.float32) for k in powers))
        return Interpreter(domain)(program(x.shadow), x)[0].parts[0]

    first, second, again = interpreted(coefficients), interpreted(changed), interpreted(coefficients)
    assert np.array_equal(first, again)
    return not np.any(first == second)


def test_different_polynomials_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_apart()
    monkeypatch.setattr(residues, "draw", lambda shape, p, *names: np.zeros(shape, np.int64))
    assert not told_apart()


# -- the fields themselves


RING: dict[str, Op] = {
    **MOVING,
    "add": Op("f", lambda pick, x, others: x + resized(pick.of(others), x.shape)),
    "cumprod": Op("f", lambda pick, x, others: lax.cumprod(x.reshape(-1), reverse=bool(pick(2)))),
    "cumsum": Op("f", lambda pick, x, others: lax.cumsum(x.reshape(-1), reverse=bool(pick(2)))),
    "dot_general": Op("f", lambda pick, x, others: x.reshape(1, -1) @ resized(pick.of(others), (x.size, 2))),
    "integer_pow": Op("f", lambda pick, x, others: lax.integer_pow(x, pick(4))),
    "mul": Op("f", lambda pick, x, others: x * resized(pick.of(others), x.shape)),
    "neg": Op("f", lambda pick, x, others: -x),
    "reduce_prod": Op("f", lambda pick, x, others: jnp.prod(x, pick.some(x.ndim, pick(x.ndim + 1)))),
    "reduce_sum": Op("f", lambda pick, x, others: jnp.sum(x, pick.some(x.ndim, pick(x.ndim + 1)))),
    "scatter-add": Op("f", lambda pick, x, others: scattered(pick, x, others, add=True)),
    "sub": Op("f", lambda pick, x, others: x - resized(pick.of(others), x.shape)),
}


@few(30)
@given(tape=st.binary(min_size=90, max_size=90), extended=st.booleans())
def test_a_program_of_whole_numbers_has_their_residues(tape: bytes, extended: bool) -> None:
    """In both rings and modulo each prime: what float64 computes exactly, up to 2^53."""
    rng = np.random.default_rng(list(tape[:4]))
    values = [rng.integers(-2, 3, shape) for shape in ((2, 3), (3,), (3, 2, 2))]
    program = jax.make_jaxpr(Program(tape, RING, outputs=20))(*(value.astype(np.float32) for value in values))
    domain = Field(repetitions=2, levels=3, extended=extended)
    found = Interpreter(domain)(program, *(domain.lift(value, Type(value.shape, value.dtype)) for value in values))
    exact = Interpreter(Oracle())(program, *(value.astype(np.float64) for value in values))
    for one, expected in zip(found, exact, strict=True):
        element = domain.element(one, Type(expected.shape, np.dtype(np.float32)))
        known = np.abs(expected) < 2**53  # and no NaN, which a gather gives out of range
        assert np.array_equal(element.shadow, expected, equal_nan=True)
        whole = np.where(known, expected, 0).astype(np.int64)
        for p, part in zip(domain.primes, element.parts, strict=True):
            assert np.array_equal(part[:, known], domain.everywhere(whole % p)[:, known])


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "sums for products": lambda patch: patch.setattr(Ring, "multiply", lambda self, a, b, p: residues.add(a, b, p)),
    "differences for sums": lambda patch: patch.setitem(FORMULAS, "add", FORMULAS["sub"]),
    "negation does nothing": lambda patch: patch.setitem(FORMULAS, "neg", lambda field, step, x: x),
    "an exponential that is linear": lambda patch: patch.setattr(
        Ring, "exponential", lambda self, a, level: a % PRIMES[level]
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_fields_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (Formula("input", (), k) for k in range(2))
    rewrites = [
        (of("mul", a, of("add", a, b)), of("add", of("mul", a, a), of("mul", a, b))),
        (of("exp", of("add", a, b)), of("mul", of("exp", a), of("exp", b))),
        (of("sub", a, b), of("neg", of("sub", b, a))),
    ]

    def hold() -> bool:
        return all(one.equal for pair in rewrites for one in decided(*pair) or [FieldIdentity(False, 0)])

    assert hold()
    FAULTS[fault](monkeypatch)
    assert not hold()


# --- square roots in GF(p) and GF(p^2): of each square one, of nothing else one --------------------------------------

P = residues.PRIMES[0]
POINTS = 3


def drawn(seed: int, rows: int, elements: int = 200) -> Array:
    """Residues, with small numbers and 0 among them."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, elements)) < 0.2, rng.integers(0, 3, elements), rng.integers(0, P, elements))


@pytest.mark.parametrize("extended", [False, True])
def test_squares_have_roots(extended: bool) -> None:
    ring = Ring(POINTS, extended)
    values = drawn(1, ring.rows)
    squares = ring.multiply(values, values, P)
    roots, known = ring.root(squares)
    assert known.all()
    assert np.array_equal(ring.multiply(roots, roots, P), squares)


def test_a_number_of_the_field_has_a_root_in_the_extension() -> None:
    ring = Ring(POINTS, True)
    values = ring.real(drawn(2, POINTS))
    roots, known = ring.root(values)
    assert known.all() and np.array_equal(ring.multiply(roots, roots, P), values)


@pytest.mark.parametrize("extended", [False, True])
def test_a_root_is_known_where_there_is_one_at_every_point(extended: bool) -> None:
    ring = Ring(POINTS, extended)
    values = drawn(3, ring.rows) | 1
    squares = ring.multiply(values, values, P)
    factor = ring.real(np.ones((POINTS, values.shape[1]), np.int64))
    factor[::POINTS, ::2] = _no_square()[:, None] if extended else P - 1  # at the first point alone
    roots, known = ring.root(ring.multiply(squares, factor, P))
    assert not known[::2].any() and known[1::2].all()
    assert np.array_equal(ring.multiply(roots, roots, P)[:, 1::2], squares[:, 1::2])


def _no_square() -> Array:
    """A number without a root in GF(p^2): its norm has none in GF(p)."""
    for second in range(1, 50):
        if pow(1 + second**2, (P - 1) // 2, P) != 1:
            return np.array([1, second])
    raise AssertionError("no such number")


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_roots_have_the_shape_of_the_numbers(shape: tuple[int, ...]) -> None:
    ring = Ring(POINTS, True)
    roots, known = ring.root(np.ones((ring.rows, *shape), np.int64))
    assert roots.shape == (ring.rows, *shape) and known.shape == shape


# --- signs of roots: those of the positive values that were held, however many were held before and after ------------


def found(held: HeldValues, *roots: list[int]) -> list[list[int] | None]:
    """The signed roots, each a column of residues; None where the sign is not known."""
    signed, known = held.absolute(np.array(roots).T)
    return [column if sure else None for column, sure in zip(signed.T.tolist(), known.tolist(), strict=True)]


def test_a_root_takes_the_sign_of_the_positive_number() -> None:
    held = HeldValues(1)
    held.hold(np.array([[5, 7, 9]]), np.array([1.5, -1.5, 0.0]))
    assert found(held, [5], [P - 5]) == [[5], [5]], "5 is positive"
    assert found(held, [7], [P - 7]) == [[P - 7], [P - 7]], "7 is negative"
    assert found(held, [9], [4]) == [None, None], "of 9 the sign is not sure, and 4 was not held"


def test_each_random_point_has_a_sign_of_its_own() -> None:
    held = HeldValues(2)  # two points, and two rows of each: the rows of the second coordinate follow
    held.hold(np.array([[5], [6], [7], [8]]), np.array([-2.0]))
    opposite = [P - 5, P - 6, P - 7, P - 8]
    assert found(held, [5, P - 6, 7, P - 8]) == [opposite]
    assert found(held, [5, P - 6, 7, 8]) == [None], "both coordinates of a point change their signs together"


def test_the_first_value_that_was_held_decides() -> None:
    held = HeldValues(1)
    held.hold(np.array([[5, P - 5]]), np.array([1.0, 1.0]))
    assert found(held, [5], [P - 5]) == [[5], [P - 5]], "a value itself comes before its negative"
    for rest in (1, 100):
        held = HeldValues(1)
        held.hold(np.array([[5, 5]]), np.array([1.0, -1.0]))
        assert found(held, [5]) == [[5]]
        held.hold(np.full((1, rest), 5), np.full(rest, -1.0))
        assert found(held, [5]) == [[5]]


@pytest.mark.parametrize("seed", range(3))
def test_values_are_found_whenever_they_were_held(seed: int) -> None:
    """The sorted runs in which they are kept are joined as they grow; each is searched."""
    rng, held = np.random.default_rng(seed), HeldValues(1)
    signs: dict[int, int] = {}
    for length in rng.integers(1, 60, 40).tolist():
        values = rng.integers(1, 3000, length)
        shadows = rng.choice([-1.0, 1.0], length)
        held.hold(values[None], shadows)
        for value, shadow in zip(values.tolist(), shadows.tolist(), strict=True):
            signs.setdefault(value, value if shadow > 0 else P - value)
        asked = rng.integers(1, 3000, 50).tolist()
        wanted = [None if each not in signs else [signs[each]] for each in asked]
        assert found(held, *([each] for each in asked)) == wanted
    assert len(signs) > 500
