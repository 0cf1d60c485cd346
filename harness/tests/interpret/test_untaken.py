"""Integers that no constant and no end of a range names: found by z3 where a condition decides by them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from samebits.interpret.conditions import conditions, value_of
from samebits.interpret.other_values import MOST_SOLUTIONS, Counterexample, IntegerSolver, counterexamples, solutions
from samebits.interpret.problem import Input, Magnitudes, Question

X = np.arange(1, 9, dtype=np.float32) / 8
IDS = np.arange(8, dtype=np.int32)
STEP = np.int32(5)
THOUSAND, FAR = (0, 1000), (0, 100_000)
Side = Callable[..., Any]


def asked(
    reference: Side, variant: Side, values: Sequence[Any], ranges: Sequence[Any], magnitudes: Magnitudes = "all"
) -> Question:
    integers = [np.asarray(each) for each in values]
    first, second = (jax.make_jaxpr(side)(X, *integers) for side in (reference, variant))
    given = zip("nmk", integers, ranges, strict=False)
    inputs = [Input(name, each, True, magnitudes, between) for name, each, between in given]
    return Question(first, second, [Input("x", X), *inputs], ["out"])


def seen(*of: Any, **more: Any) -> Counterexample | None:
    return counterexamples(asked(*of, **more)).get("out")


def doubled(where: Side) -> Side:
    return lambda x, *n: jnp.where(where(*n), 2 * x, x)


def same(x: Any, *n: Any) -> Any:
    return x


def in_a_branch_of_a_branch(x: Any, n: Any, m: Any) -> Any:
    return jax.lax.cond(n // 100 == 7, lambda x: jnp.where(m // 10 == 5, 2 * x, x), lambda x: x, x)


def in_a_gradient(x: Any, n: Any) -> Any:
    return jax.grad(lambda x: jnp.sum(jnp.where(n // 100 == 7, 2 * x, x) ** 2))(x)


def on_a_mesh(side: Side) -> Side:
    spec = PartitionSpec("a")
    mesh = AbstractMesh((4,), ("a",), axis_types=(AxisType.Auto,))  # newer versions of jax make others by default
    return jax.shard_map(side, mesh=mesh, in_specs=(spec, spec), out_specs=spec)


def three_others(x: Any, n: Any, m: Any) -> Any:
    for number in range(3):
        x = jnp.where(n < 900 - number, x, x + 1)
    return x


def behind_others(x: Any, n: Any, m: Any) -> Any:
    x = three_others(x, n, m)
    return jnp.where(n == 3, jnp.where(m == 5, 2 * x, x), x)


def switched(x: Any, n: Any) -> Any:
    return jax.lax.switch(n // 200_003 % 5, [same, same, lambda x: 2 * x, same, same], x)


def turned(x: Any, n: Any) -> Any:
    return jax.lax.scan(lambda x, _: (jnp.where(n // 100 == 7, 2 * x, x), None), x, None, length=3)[0]


FAULTS: dict[str, tuple[Side, Side, Sequence[Any], Sequence[tuple[int, int]]]] = {
    "a hundred of steps": (doubled(lambda n: n // 100 == 7), same, [STEP], [THOUSAND]),
    "a remainder": (doubled(lambda n: (31 * n + 17) % 1009 == 500), same, [STEP], [FAR]),
    "two at once": (doubled(lambda n, m: (n == 3) & (m == 5)), same, [STEP, STEP + 9], [THOUSAND, THOUSAND]),
    "one inside the other": (
        lambda x, n, m: jnp.where(n == 3, jnp.where(m == 5, 2 * x, x), x),
        same,
        [STEP, STEP + 9],
        [THOUSAND, THOUSAND],
    ),
    "two at once behind others": (behind_others, three_others, [STEP, STEP + 9], [THOUSAND, THOUSAND]),
    "a sum of two": (doubled(lambda n, m: n + m == 777), same, [STEP, STEP], [THOUSAND, THOUSAND]),
    "a cast that wraps": (doubled(lambda n: n.astype(jnp.uint8) == 17), same, [STEP + 200], [(100, 1000)]),
    "a cast that is negative": (doubled(lambda n: n.astype(jnp.int8) == -3), same, [STEP], [(0, 1001)]),
    "a branch": (lambda x, n: jax.lax.cond(n // 100 == 7, lambda x: 2 * x, same, x), same, [STEP], [THOUSAND]),
    "a branch of a branch": (in_a_branch_of_a_branch, same, [STEP, STEP], [THOUSAND, THOUSAND]),
    "one of five branches": (
        lambda x, n: jax.lax.switch(n // 17 % 5, [same, same, same, lambda x: 2 * x, same], x),
        same,
        [STEP],
        [(0, 1000)],
    ),
    "a branch that the ends do not take": (switched, same, [STEP], [(0, 1_000_000)]),
    "a scan": (turned, same, [STEP], [THOUSAND]),
    "a clamp": (
        lambda x, n: x * jax.lax.clamp(0, (31 * n + 17) % 100_003, 100_000),
        lambda x, n: x * ((31 * n + 17) % 100_003),
        [STEP],
        [FAR],
    ),
    "a place": (doubled(lambda n: (31 * n + jnp.arange(8)) % 10_007 == 500), same, [STEP], [FAR]),
    "what a branch gives": (
        doubled(lambda n: jax.lax.cond(n > 3, lambda n: 31 * n + 17, lambda n: n, n) % 10_007 == 500),
        same,
        [STEP],
        [FAR],
    ),
    "a ceiling": (
        lambda x, n: x * -(-(31 * n + 17) // 10_007),
        lambda x, n: x * ((31 * n + 17) // 10_007 + 1),
        [STEP],
        [FAR],
    ),
    "bits": (doubled(lambda n: (n >> 5) & 7 == 5), same, [STEP], [THOUSAND]),
    "division towards zero": (
        lambda x, n: x * jax.lax.div(n, 8),
        lambda x, n: x * (n >> 3),
        [STEP],
        [(-100_000, 100_000)],
    ),
    "a part of the way": (
        doubled(lambda n, m: (n / m > 0.37) & (n / m < 0.375)),
        same,
        [STEP, np.int32(1000)],
        [THOUSAND, (1000, 1003)],
    ),
    "a part of the way, or a flag": (
        doubled(lambda n, m: n * 0.1 + jnp.where(m, 50.0, 0) > 140),
        same,
        [STEP, np.bool_(False)],
        [THOUSAND, (0, 1)],
    ),
    "an element": (doubled(lambda n: (31 * n + 17) % 1009 == 500), same, [IDS], [FAR]),
    "any element": (lambda x, n: x * jnp.any((31 * n + 17) % 1009 == 500), lambda x, n: x * 0, [IDS], [FAR]),
    "a loop": (
        lambda x, n: jax.lax.fori_loop(0, n // 100, lambda i, x: jnp.where(n % 100 == 37, x, x * 1.5), x),
        lambda x, n: jax.lax.fori_loop(0, n // 100, lambda i, x: x * 1.5, x),
        [STEP + 200],
        [THOUSAND],
    ),
    "a sum of elements": (lambda x, n: jnp.where(jnp.sum(n) == 8 * 77, 2 * x, x), same, [IDS], [THOUSAND]),
    "a table": (
        doubled(lambda n: jnp.isin(n, jnp.array([31, 517, 77]))),
        doubled(lambda n: jnp.isin(n, jnp.array([31, 518, 77]))),
        [STEP],
        [THOUSAND],
    ),
    "a place of a table": (
        lambda x, n: x * jnp.array([1.0, 2, 3, 4, 5, 6, 7, 8])[n // 128],
        lambda x, n: x * jnp.array([1.0, 2, 3, 4, 4, 6, 7, 8])[n // 128],
        [STEP],
        [(0, 1023)],
    ),
    "places of a table": (
        lambda x, n: x * jnp.array([1.0, 2, 3, 4, 5, 6, 7, 8])[n // 128],
        lambda x, n: x * jnp.array([1.0, 2, 3, 4, 4, 6, 7, 8])[n // 128],
        [IDS],
        [(0, 1023)],
    ),
    "a gradient": (in_a_gradient, lambda x, n: 2 * x, [STEP], [THOUSAND]),
    "gathered on a mesh": (
        on_a_mesh(lambda x, n: x * jnp.any((31 * jax.lax.all_gather(n, "a") + 17) % 10_007 == 500)),
        on_a_mesh(lambda x, n: x * 0),
        [IDS],
        [FAR],
    ),
    "a mesh": (on_a_mesh(doubled(lambda n: n // 100 == 7)), same, [IDS], [THOUSAND]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_conditions_decide_between_the_literals_is_seen(fault: str) -> None:
    reference, variant, values, ranges = FAULTS[fault]
    shown = seen(reference, variant, values, ranges)
    assert shown is not None and shown.allowed and shown.words.startswith("out[")
    other = seen(variant, reference, values, ranges)
    assert other is not None and other.allowed


TWINS: dict[str, tuple[Side, Side, Sequence[tuple[int, int]]]] = {
    "a shift is a division": (lambda x, n: x * (n // 8), lambda x, n: x * (n >> 3), [(-1000, 1000)]),
    "a mask is a remainder": (doubled(lambda n: n % 8 == 7), doubled(lambda n: n & 7 == 7), [(-1000, 1000)]),
    "a schedule in two spellings": (
        lambda x, n: x * jnp.where(n < 285, n / 285, 1.0),
        lambda x, n: x * jnp.minimum(n / 285, 1.0),
        [FAR],
    ),
    "a window in two spellings": (
        doubled(lambda n: n // 100 == 7),
        doubled(lambda n: (n >= 700) & (n < 800)),
        [THOUSAND],
    ),
    "a clip": (lambda x, n: x * jnp.clip(n, 3, 700), lambda x, n: x * jnp.maximum(jnp.minimum(n, 700), 3), [THOUSAND]),
}


@pytest.mark.parametrize("twin", TWINS)
def test_honest_rewrites_have_no_such_integers(twin: str) -> None:
    reference, variant, ranges = TWINS[twin]
    assert seen(reference, variant, [STEP], ranges) is None
    assert seen(reference, variant, [IDS], ranges) is None


OPERATIONS: dict[str, Side] = {
    "abs": lambda n: jnp.abs(n - 200),
    "bits": lambda n: ((n & 52) | 3) ^ ~n,
    "clamp": lambda n: jax.lax.clamp(3, n, 700),
    "division": lambda n: jax.lax.div(n - 500, 7),
    "division by zero": lambda n: jax.lax.div(n, n - 37),
    "extrema": lambda n: jnp.maximum(jnp.minimum(n, 500), 7),
    "power": lambda n: (n - 500) ** 3,
    "product that wraps": lambda n: n.astype(jnp.int8) * jnp.int8(5),
    "remainder": lambda n: jax.lax.rem(n - 500, 7),
    "shifts": lambda n: jax.lax.shift_right_logical(5 - n, 3) + ((5 - n) >> 2) + (n << 3),
    "sign": lambda n: jnp.sign(n - 500),
    "unsigned": lambda n: n.astype(jnp.uint8) - jnp.uint8(40),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_z3_and_the_interpreter_agree(operation: str) -> None:
    function = OPERATIONS[operation]
    program = jax.make_jaxpr(lambda n: function(n) == function(np.int32(37)))(STEP)
    for condition in conditions(program):
        for side in condition.sides():
            solution = IntegerSolver({0: THOUSAND}).solution(side)
            taken = value_of(side, {0: np.arange(1001, dtype=np.int32)}, {})
            assert taken[solution[0]] if solution is not None else not taken.any()


def test_stated_integers_are_not_asked_for() -> None:
    question = asked(*FAULTS["a hundred of steps"], magnitudes="stated")
    assert list(solutions(question, [])) == []
    assert not seen(*FAULTS["a hundred of steps"], magnitudes="given").allowed  # type: ignore[union-attr]


def test_z3_is_not_asked_where_every_condition_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IntegerSolver, "solution", pytest.fail)
    everything = np.arange(8, dtype=np.int32)
    assert list(solutions(asked(doubled(lambda n: n > 3), same, [everything], [(0, 7)]), [])) == []
    assert list(solutions(asked(lambda x, n: x * n, same, [STEP], [THOUSAND]), [])) == []


def test_the_answers_are_few_and_the_same_each_time() -> None:
    def many(x: Any, n: Any) -> Any:
        for number in range(40):
            x = jnp.where(n // 7 == number * 11, x + number, x)
        return x

    first, second = (list(solutions(asked(many, same, [STEP], [FAR]), [])) for _ in range(2))
    assert first == second and len(first) == MOST_SOLUTIONS


def test_a_condition_is_found_in_every_branch_and_loop() -> None:
    found = conditions(jax.make_jaxpr(in_a_branch_of_a_branch)(X, STEP, STEP))
    within = [condition for condition in found if condition.within is not None and 2 in condition.first.inputs]
    assert within and {1, 2} == set(within[-1].sides()[0].inputs)
