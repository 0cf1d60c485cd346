"""Proofs by labels: what they prove, under which promises, what they reject, and the witness of every fault."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret.label_proof import LabelIdentity, movement
from samebits.schema.domain import RequiredFact
from tests.interpret.executed import asked, outcomes, run
from tests.interpret.programs import MOVING, Program, few


def _bits(array: Any) -> Any:
    return np.array(array).view(np.uint32)


def words(question: Any) -> tuple[str, ...]:
    """What must hold of the inputs for a proof."""
    (found,) = movement(question).values()
    assert found.equal
    assert {promise.subject for promise in found.promises} <= {"x"}
    return tuple(promise.fact for promise in found.promises)


V = np.arange(1, 7, dtype=np.float32)
ORDER = np.array([2, 0, 5, 1, 4, 3])
HOT = np.eye(6, dtype=np.float32)[ORDER]


ZERO_ADDED = ("no_negative_zero", "no_subnormal", "no_signalling_nan")
TOUCHED = ("no_nan", "no_subnormal")


def test_each_promise_is_named() -> None:
    def moved(x: Any) -> Any:
        return x[ORDER]

    assert words(asked(moved, lambda x: jnp.take(x, ORDER, unique_indices=True), V)) == ()
    assert words(asked(moved, lambda x: jnp.zeros(6).at[np.argsort(ORDER)].add(x), V)) == ZERO_ADDED
    assert words(asked(moved, lambda x: HOT @ x, V)) == ("finite", *ZERO_ADDED[:2])
    assert words(asked(moved, lambda x: (x * 1.0)[ORDER], V)) == TOUCHED
    narrow = V.astype(jnp.bfloat16)
    assert words(asked(moved, lambda x: x.astype(np.float32)[ORDER].astype(x.dtype), narrow)) == TOUCHED
    assert words(asked(moved, lambda x: (x + -0.0)[ORDER], V)) == TOUCHED
    assert words(asked(moved, lambda x: (x * 1.0 + 0.0)[ORDER], V)) == (*ZERO_ADDED, "no_nan")
    added = movement(asked(lambda x: -x, lambda x: -x + 0.0, V))["out"]
    assert added.equal
    assert {RequiredFact("no_negative_zero", subject) for subject in ("x", "neg of x")} <= set(added.promises)


def test_only_index_operands_are_part_of_the_proof() -> None:
    def gather(x: Any, n: Any) -> Any:
        return x[n]

    def scatter(x: Any, n: Any) -> Any:
        return jnp.zeros(6).at[np.argsort(ORDER)].set(x)

    assert words(asked(gather, scatter, V, ORDER, index_operands=(1,))) == ()
    assert not movement(asked(gather, scatter, V, ORDER[::-1].copy(), index_operands=(1,)))["out"].equal
    with pytest.raises(NotCovered, match=r"lt\(int32.*has no rule in the domain 'labels'"):
        movement(asked(gather, scatter, V, ORDER))


# -- one operation on moved elements


def same(first: Callable[..., Any], second: Callable[..., Any], *args: Any) -> bool:
    return movement(asked(first, second, *args))["out"].equal


def test_an_operation_is_equal_to_itself_alone() -> None:
    assert same(lambda x, y: 3 * x, lambda x, y: x * 3, V, V)
    assert same(lambda x, y: (x + y)[::-1], lambda x, y: x[::-1] + y[::-1], V, V)
    for other in (lambda x, y: x * 2, lambda x, y: y * 3, lambda x, y: x + 3, lambda x, y: 3 - x, lambda x, y: x / 3):
        with pytest.raises(NotCovered, match="computed by different operations"):
            same(lambda x, y: x * 3, other, V, V)
    with pytest.raises(NotCovered, match="computed by different operations"):
        same(lambda x, y: x - y, lambda x, y: y - x, V, V)


@pytest.mark.parametrize(
    "twice", [lambda x: x * 3 * 2, lambda x: x * 3 + x, lambda x: -jnp.maximum(x, 2), lambda x: x.sum()]
)
def test_more_than_one_operation_is_refused(twice: Any) -> None:
    with pytest.raises(NotCovered, match=r"test_label_proof\.py:\d+ is arithmetic on input elements"):
        movement(asked(twice, twice, V))


def test_nothing_moved_is_no_proof() -> None:
    with pytest.raises(NothingCompared):
        movement(asked(lambda x: jnp.ones(3), lambda x: jnp.ones(3), V))


REJECTED: dict[str, Callable[[Any], Any]] = {
    "an index repeated in a scatter-add": lambda x: jnp.zeros(6).at[np.array([0, 1, 1, 2, 3, 4])].add(x),
    "an index repeated in a scatter": lambda x: jnp.zeros(6).at[np.array([0, 1, 1, 2, 3, 4])].set(x),
    "a cast that rounds": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    "a cast to integers": lambda x: x.astype(np.int32),
    "a row of two ones": lambda x: (HOT + HOT[::-1]) @ x,
    "a row of zeros": lambda x: (HOT * np.arange(6)[:, None].clip(0, 1)) @ x,
    "an infinite constant times zero": lambda x: HOT @ jnp.concatenate([x[:5], jnp.array([jnp.inf])]),
    "a product that may overflow times zero": lambda x: HOT @ (x * 3),
    "a comparison": lambda x: jnp.where(x > 2, x, 0),
}


@pytest.mark.parametrize("what", REJECTED)
def test_what_is_no_movement_is_refused(what: str) -> None:
    with pytest.raises(NotCovered, match=r"test_label_proof\.py:\d+"):
        movement(asked(lambda x: x, REJECTED[what], V))


# -- what was once wrongly proved


def test_a_sort_that_is_not_stable_has_no_order_of_ties() -> None:
    def by(*keys: Any, stable: bool = False) -> Callable[..., Any]:
        given = [jnp.array(key) for key in keys]
        return lambda x: lax.sort((*given, x), num_keys=len(given), is_stable=stable)[-1]

    tied, apart = [2, 0, 2, 1, 4, 3], [2, 0, 5, 1, 4, 3]
    with pytest.raises(NotCovered, match="is not stable, and keys are equal"):
        movement(asked(by(tied), by(tied, stable=True), V))
    with pytest.raises(NotCovered, match="is not stable, and keys are equal"):
        movement(asked(by(tied, [0, 1, 0, 0, 0, 0]), by(tied, stable=True), V))
    for keys in ((apart,), (tied, apart), (tied, [0, 1, 1, 0, 0, 0])):
        assert words(asked(by(*keys), by(*keys, stable=True), V)) == ()
    alone = lax.sort(jnp.array(tied), is_stable=False)
    assert words(asked(lambda x: x[lax.sort(jnp.array(tied), is_stable=False)], lambda x: x[alone], V)) == ()


def test_two_nans_do_not_commute() -> None:
    """Of two NaNs the first operand's payload remains, so x + y and y + x are not the same bits."""
    nans = [np.array([bit], np.uint32).view(np.float32) for bit in (0x7FC00001, 0x7FC00002)]
    first, second = (lambda x, y: x + y), (lambda x, y: y + x)
    if _bits(run(first, *nans)) != _bits(run(second, *nans)):
        with pytest.raises(NotCovered, match="computed by different operations"):
            same(first, second, V, V)


def test_a_sum_starts_from_zero() -> None:
    """Of -0.0 and a constant -0.0 it makes 0.0."""
    minus = -jnp.zeros(6)
    assert words(asked(lambda x: x, lambda x: jnp.stack([x, minus]).sum(0), V)) == ZERO_ADDED


def test_elements_multiplied_by_zero_must_be_finite_too() -> None:
    def picked(x: Any, y: Any) -> Any:
        return jnp.eye(3, 6) @ jnp.concatenate([x[:3], y[:3]])

    with pytest.raises(NotCovered, match="dot_general"):
        movement(asked(lambda x, y: x[:3], picked, V, V))


# -- faults of programs: not equal, and the witness names the element


@few(12)
@given(tape=st.binary(min_size=60, max_size=60), places=st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_two_exchanged_elements_are_told_apart(tape: bytes, places: tuple[int, int]) -> None:
    """After any movement: the witness is the first place where the executed bits differ."""
    program, args = Program(tape, MOVING, outputs=1), [(np.arange(12, dtype=np.float32) + 101).reshape(2, 3, 2)]

    def exchanged(x: Any) -> Any:
        out = program(x)[0]
        order = np.arange(out.size)
        one, other = (place % out.size for place in places)
        order[[one, other]] = order[[other, one]]
        return out.reshape(-1)[order].reshape(out.shape)

    def plain(x: Any) -> Any:
        return program(x)[0]

    try:
        (found,) = movement(asked(plain, exchanged, *args)).values()
    except NothingCompared:  # constants alone
        return
    lowered = jax.jit(lambda x: (plain(x), exchanged(x))).lower(*args)
    assert any(told_apart(found, *both) for both in outcomes(lowered, *args)), found


def told_apart(found: LabelIdentity, one: Any, other: Any) -> bool:
    """Whether what labels say of two outputs is what their executed bits say."""
    differs = _bits(one) != _bits(other)
    if not differs.any():
        return found.equal
    at = np.unravel_index(np.argmax(differs), differs.shape)
    witness = "" if found.equal else found.witness or ""
    place = f"out[{', '.join(str(int(i)) for i in at)}] is "
    return witness.startswith(place) and element(one[at]) in witness and element(other[at]) in witness


def element(value: Any) -> str:
    """Where a number is in the input; else it is a constant."""
    if not 101 <= value <= 112:
        return "the constant"
    return f"x[{', '.join(str(int(i)) for i in np.unravel_index(int(value) - 101, (2, 3, 2)))}]"


def _one_off(x: Any) -> Any:
    return x[np.array([2, 0, 5, 1, 4, 4])]


FAULTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "one index off": (lambda x: x[ORDER], _one_off, r"out\[5\] is x\[3\] in the reference and x\[4\] in the variant"),
    "a slice off by one": (lambda x: x[1:4], lambda x: x[2:5], r"out\[0\] is x\[1\] in .* and x\[2\] in"),
    "transposed": (
        lambda x: x.reshape(2, 3).T,
        lambda x: x.reshape(3, 2),
        r"out\[0, 1\] is x\[3\] in the reference and x\[1\] in",
    ),
    "another pad": (
        lambda x: lax.pad(x, np.float32(0.0), [(0, 2, 0)]),
        lambda x: lax.pad(x, np.float32(-0.0), [(0, 2, 0)]),
        r"out\[6\] is the constant 0\.0 in the reference and the constant -0\.0 in",
    ),
    "a constant for an element": (lambda x: x, lambda x: x.at[3].set(7), r"out\[3\] is x\[3\] .* the constant 7\.0 in"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_witness_of_a_fault_names_the_element(fault: str) -> None:
    reference, variant, witness = FAULTS[fault]
    found = movement(asked(reference, variant, V))["out"]
    assert not found.equal and not found.promises
    assert found.witness is not None and re.search(witness, found.witness), found.witness


def test_another_shape_or_dtype_is_no_equal_output() -> None:
    narrow = V.astype(jnp.bfloat16)
    question = asked(lambda x: (x, x, x), lambda x: (x, x.reshape(2, 3), x.astype(np.float32)), narrow)
    witnesses = [found.witness for found in movement(question).values()]
    shape, dtype = "bfloat16[6] and bfloat16[2, 3]", "bfloat16[6] and float32[6]"
    assert witnesses == [None, f"out1: {shape}", f"out2: {dtype}"]
