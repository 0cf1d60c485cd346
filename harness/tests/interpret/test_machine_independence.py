"""Which bits do not depend on the machine: what is accepted, and what each shape of term is rejected for."""

import dataclasses
import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.errors import NotCovered
from samebits.interpret.arrays import to_integers
from samebits.interpret.machine_independence import independence, independence_at_all_inputs, quantum_of
from tests.interpret.executed import asked

NORMAL = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
SMALL = np.random.default_rng(1).integers(-5, 6, (4, 6)).astype(np.float32)
SHORT = NORMAL.astype(jnp.bfloat16)
HOT = np.eye(6, dtype=np.float32)[[2, 0, 5, 1]]
EXTREME = np.array([[np.nan, np.inf, -np.inf, 1e30, -1e30, -1.0]] * 4, np.float32)
GROUPS = np.array([0, 1, 1, 2, 0, 0])


def found(function: Callable[..., Any], *args: Any) -> Any:
    return independence(asked(function, function, *args))["out"]


HOLDS: dict[str, tuple[Callable[..., Any], Any]] = {
    "moved": (lambda x: x[::-1].T, NORMAL),
    "integers": (lambda x: (x * 7919).sum(1), SMALL.astype(np.int32)),
    "sums of small integers": (lambda x: x.sum(1), SMALL),
    "products of matrices of them": (lambda x: (x @ x.T).sum(), SMALL),
    "a product and a sum of them, contracted or not": (lambda x: x * x + x, SMALL),
    "running sums of them": (lambda x: jnp.cumsum(x, 1), SMALL),
    "a scatter-add of them": (lambda x: jnp.zeros(3).at[GROUPS].add(x[0]), SMALL),
    "their mean over a power of two": (lambda x: x.mean(0), SMALL),
    "a mean of them in bfloat16, rounded once": (lambda x: x.sum(1).astype(jnp.bfloat16), 0.125 * SMALL),
    "rows picked by a one-hot matrix": (lambda x: HOT @ x.T, NORMAL),
    "a mask": (lambda x: (x + x[::-1]) * (HOT > 0), NORMAL),
    "a count": (lambda x: (x > 0).sum(1), NORMAL),
    "the place of the largest": (lambda x: jnp.argmax(x, 1), NORMAL),
    "sorted": (lambda x: jnp.sort(x, 1), NORMAL),
    "one product": (lambda x: x * x[::-1], NORMAL),
    "one sum": (lambda x: x + x[::-1], NORMAL),
    "one sum with zeros beside it": (lambda x: jnp.zeros(3).at[np.array([0, 1, 2, 2, 1, 0])].add(x[0]), NORMAL),
    "one quotient": (lambda x: x / x[::-1], NORMAL),
    "one root": (lambda x: jnp.sqrt(jnp.abs(x)), NORMAL),
    "one product in bfloat16": (lambda x: x * x[::-1], SHORT),
    "one product, rounded to bfloat16": (lambda x: (x * x[::-1]).astype(jnp.bfloat16), NORMAL),
    "one sum, negated, chosen and scaled": (lambda x: 4 * jnp.where(x > 0, -(x + x[::-1]), x[0, 0]), NORMAL),
}


@pytest.mark.parametrize("what", HOLDS)
def test_bits_that_every_machine_has(what: str) -> None:
    assert found(*HOLDS[what]).holds


LOST: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "a sum of floats": (lambda x: x.sum(1), NORMAL, "reduce_sum.* has no fixed order of adding"),
    "three terms": (lambda x: x[0] + x[1] + x[2], NORMAL, "add.* contracted .* or reassociated"),
    "a product of matrices": (lambda x: x @ x.T, NORMAL, "dot_general.* has no fixed order"),
    "running sums": (lambda x: jnp.cumsum(x, 1), NORMAL, "cumsum.* has no fixed order"),
    "a scatter-add with three at one place": (
        lambda x: jnp.zeros(3).at[GROUPS].add(x[0]),
        NORMAL,
        "scatter-add.* has no fixed order",
    ),
    "a product that feeds a sum": (lambda x: x * x + x, NORMAL, "add.* may be contracted"),
    "the same, negated between": (lambda x: x - -(x * x[::-1]), NORMAL, "sub.* may be contracted"),
    "the same, cast between": (
        lambda x: (x * x).astype(jnp.bfloat16) + x.astype(jnp.bfloat16),
        NORMAL,
        "add.* may be contracted",
    ),
    "a sum that feeds a product": (lambda x: (x + x[::-1]) * x, NORMAL, "mul.* rounds what was computed before"),
    "exp": (jnp.exp, NORMAL, "exp.* not rounded alike"),
    "rsqrt": (lambda x: jax.lax.rsqrt(jnp.abs(x)), NORMAL, "rsqrt.* not rounded alike"),
    "tanh": (jnp.tanh, SHORT, "tanh.* not rounded alike"),
    "a power": (lambda x: jnp.abs(x) ** 0.5**x, NORMAL, "pow.* not rounded alike"),
    "a cube": (lambda x: x**3, NORMAL, "integer_pow.* another order"),
    "a division by three": (lambda x: x / 3, NORMAL, "divides by a constant"),
    "a mean over six of small integers": (lambda x: x.mean(1), SMALL, "divides by a constant"),
    "a chain in bfloat16": (lambda x: (x + x[::-1]) + x, SHORT, "add.* reassociated"),
    "a bfloat16 result, widened": (lambda x: (x + x[::-1]).astype(jnp.float32), SHORT, "may be left out"),
    "a narrowed number, widened": (
        lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
        NORMAL,
        "convert_element_type.* may be left out",
    ),
    "integers that together leave float32": (lambda x: x.sum(1), SMALL * 2.0**21 + 1, "no fixed order"),
    "exact in the order as written only": (
        lambda x: (x[0] + -x[0]) + 0.5 * x[1],
        2.0**24 * (1 + np.abs(SMALL)) + SMALL,
        "reassociated",
    ),
    "integers that leave bfloat16": (
        lambda x: jax.lax.reduce_sum(x, (0, 1)),
        np.full((4, 6), 31, jnp.bfloat16),
        "order",
    ),
    "the largest of two sums": (lambda x: jnp.argmax(x @ x.T, 1), NORMAL, "dot_general.* no fixed order"),
    "0.0 or -0.0": (lambda x: jnp.maximum(x, 0), -0.0 * np.abs(NORMAL), "chooses between 0.0 and -0.0"),
    "a sum of nothing but -0.0": (lambda x: x.sum(1), -0.0 * np.abs(NORMAL), "no fixed order"),
    "subnormal numbers": (lambda x: x * x[::-1], 1e-20 * NORMAL, "mul.* rounds"),
    "NaN": (lambda x: x + x[::-1], np.full((4, 6), np.nan, np.float32), "add.*"),
    "infinities of both signs": (lambda x: x.sum(1), EXTREME[:, 1:], "reduce_sum.*"),
    "running sums of them": (lambda x: jnp.cumsum(x, 1), EXTREME[:, 1:], "cumsum.*"),
    "one sum of them": (lambda x: x + x[:, ::-1], EXTREME[:, 1:3], "add.*"),
    "an integer from NaN": (lambda x: x.astype(jnp.int32), EXTREME[:, :1], "meets NaN or a number out of .* int32"),
    "an integer from infinity": (lambda x: x.astype(jnp.int8), EXTREME[:, 1:3], "out of the range of int8"),
    "an integer from too large a number": (lambda x: x.astype(jnp.uint32), EXTREME[:, 3:], "range of uint32"),
    "an integer of 4 bits from a larger one": (lambda x: x.astype(jnp.int4), 8 + np.abs(SMALL), "range of int4"),
    "an integer of unknown bits, counted with": (
        lambda x: jax.lax.population_count(jnp.exp(x).astype(jnp.int32)) + 1,
        NORMAL,
        "exp.* not rounded alike",
    ),
}


SHORTENED: dict[str, tuple[Callable[..., Any], Any, bool]] = {
    "small integers in float32": (lambda x: x @ x.T, SMALL, True),
    "bfloat16, widened before the product": (lambda x: HOT @ x.T.astype(jnp.float32), SHORT, True),
    "eight digits": (lambda x: HOT @ x.T, 255.0 + 0 * SMALL, True),
    "nine digits": (lambda x: HOT @ x.T, 257.0 + 0 * SMALL, False),
    "one long number among short ones": (lambda x: HOT @ x.T, SMALL + NORMAL * np.eye(4, 6, dtype="f4"), False),
    "float32": (lambda x: HOT @ x.T, NORMAL, False),
    "the other operand is long": (lambda x: jnp.dot(x, HOT.T), NORMAL, False),
    "with all digits": (lambda x: jnp.dot(HOT, x.T, precision="highest"), NORMAL, True),
    "rounded to bfloat16, which may be left out": (lambda x: HOT @ (x + x[::-1]).T.astype(jnp.float32), SHORT, False),
}


@pytest.mark.parametrize("what", SHORTENED)
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_products_of_a_matrix_unit_that_shortens_its_operands(what: str, platform: str) -> None:
    """Numbers that bfloat16 holds are kept by all of them."""
    function, array, holds = SHORTENED[what]
    question = dataclasses.replace(asked(function, function, array), platform=platform)
    if holds:
        assert independence(question)["out"].holds
    else:
        with pytest.raises(NotCovered, match="precision HIGHEST only"):
            independence(question)
    assert found(function, array).holds or "may be left out" in what


@pytest.mark.parametrize("what", LOST)
def test_bits_that_a_machine_may_choose(what: str) -> None:
    function, array, why = LOST[what]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")  # as errors they would end up where a rule is missing
        one = found(function, array)
    assert not warned, warned[0].message
    assert not one.holds
    assert re.search(why, one.how), one.how


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8", "int16", "int32", "uint32"])
def test_a_cast_to_integers_is_that_of_the_compiler(dtype: str) -> None:
    """No number gives a warning either: it saturates, and NaN is 0."""
    edges = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.7, -0.0, 0.7, 7.5, -8.9, 127.9, 255.0, 2.0**31, -(2.0**31)]
    numbers = np.array([*edges, *NORMAL.reshape(-1), *100 * NORMAL.reshape(-1)], np.float32)
    compiled = jax.jit(lambda x: jax.lax.convert_element_type(x, dtype))(numbers)
    interpreted = to_integers(numbers.astype(np.float64), np.dtype(dtype))
    assert interpreted.dtype == compiled.dtype
    assert interpreted.tolist() == np.asarray(compiled).tolist()


def test_both_sides_count() -> None:
    for sides in ((lambda x: x, lambda x: jnp.log(jnp.exp(x))), (lambda x: jnp.exp(x) * 0 + x, lambda x: x)):
        assert not independence(asked(*sides, NORMAL))["out"].holds


def test_one_input_where_it_does_not_hold_is_enough() -> None:
    def total(x: Any) -> Any:
        return x.sum(1)

    good, bad = asked(total, total, SMALL), asked(total, total, NORMAL)
    assert independence_at_all_inputs([good, good])["out"].holds
    assert (
        not independence_at_all_inputs([good, bad])["out"].holds
        and not independence_at_all_inputs([bad, good])["out"].holds
    )


def test_a_branch_by_a_machine_dependent_number_ends_it() -> None:
    def branched(x: Any) -> Any:
        return jax.lax.cond((x @ x.T).sum() > 1, lambda y: y, lambda y: -y, x)

    with pytest.raises(NotCovered, match=r"decides by numbers that depend on the machine: .*dot_general"):
        found(branched, NORMAL)
    assert found(branched, SMALL).holds


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
def test_a_quantum_divides_its_number_and_is_the_largest(numbers: list[float]) -> None:
    values = np.array(numbers)
    quanta = quantum_of(values)
    for value, quantum in zip(values, quanta, strict=True):
        if value == 0:
            assert quantum == np.inf
        else:
            assert (value / quantum) == np.round(value / quantum) and (value / quantum) % 2 == 1


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_what_is_exact_has_one_value_in_every_order(seed: int) -> None:
    """Sums in random orders and groupings, in the dtype itself: where the argument holds, all have the same bits."""
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(0, 14)
    terms = (rng.integers(-50, 51, 12) * np.where(rng.random(12) < 0.3, scale, 1)).astype(np.float32)
    holds = found(lambda x: x.sum(keepdims=True), terms).holds
    sums = set()
    for _ in range(40):
        left = list(rng.permutation(terms))
        while len(left) > 1:
            at = int(rng.integers(len(left) - 1))
            left[at : at + 2] = [np.float32(left[at] + left[at + 1])]
        sums.add(float(left[0]))
    assert not holds or len(sums) == 1
