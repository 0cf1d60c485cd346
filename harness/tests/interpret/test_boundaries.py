"""Floats at which conditions tie: literals, the ends of clips, halves and integers, behind a shift or a scale."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from samebits.interpret.conditions import conditions
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Ties
from samebits.interpret.other_values import Counterexample, boundaries, counterexamples
from samebits.interpret.problem import Input, Magnitudes, Question
from tests.interpret.sweep.calls import programs
from tests.interpret.sweep.jax_calls import jax_calls
from tests.interpret.sweep.layer_calls import layer_calls

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 8)).astype(np.float32)
Y = RANDOM.standard_normal((4, 8)).astype(np.float32)
Side = Callable[..., Any]


def asked(
    reference: Side,
    variant: Side,
    *arrays: Any,
    magnitudes: Magnitudes = "all",
    between: tuple[float, float] | None = None,
) -> Question:
    given = arrays or (X,)
    first, second = (jax.make_jaxpr(side)(*given) for side in (reference, variant))
    inputs = [
        Input(name, np.asarray(array), False, magnitudes, between=between)
        for name, array in zip("xyzw", given, strict=False)
    ]
    return Question(first, second, inputs, ["out"])


def seen(*of: Any, **more: Any) -> Counterexample | None:
    return counterexamples(asked(*of, **more)).get("out")


def doubled(where: Side) -> Side:
    return lambda x, *more: jnp.where(where(x, *more), 2 * x, x)


def slopes(side: Side) -> Side:
    return jax.grad(lambda *args: jnp.sum(side(*args) ** 2))


def on_a_mesh(side: Side) -> Side:
    spec = PartitionSpec("a")
    mesh = AbstractMesh((4,), ("a",), axis_types=(AxisType.Auto,))
    return jax.shard_map(side, mesh=mesh, in_specs=spec, out_specs=spec)


FAULTS: dict[str, tuple[Side, Side, str]] = {
    "a literal": (doubled(lambda x: x > 0.5), doubled(lambda x: x >= 0.5), "with 0.5 in 'x'"),
    "one that no dtype has": (doubled(lambda x: x > 0.3), doubled(lambda x: x >= 0.3), "with 0.3 in 'x'"),
    "behind a shift": (doubled(lambda x: x + 0.1 > 0.3), doubled(lambda x: x + 0.1 >= 0.3), "with 0.2 in 'x'"),
    "behind a scale": (doubled(lambda x: 3 * x - 1 > 0.3), doubled(lambda x: 3 * x - 1 >= 0.3), "with 0.433333 in 'x'"),
    "behind a function": (
        doubled(lambda x: jnp.tanh(x) > 0.3),
        doubled(lambda x: jnp.tanh(x) >= 0.3),
        "with 0.30952 in 'x'",
    ),
    "half up": (lambda x: jnp.floor(x + 0.5), jnp.round, "0.5, 1.5"),
    "half away from zero": (jax.lax.round, jnp.round, "0.5, 1.5"),
    "an exact number": (lambda x: jnp.where(x == 0.5, 0, x), lambda x: x, "with 0.5 in 'x'"),
    "an integer": (lambda x: jnp.floor(x - 0.25), lambda x: jnp.ceil(x - 0.25) - 1, "0.25"),
    "casts": (lambda x: (x + 7.75).astype(jnp.int32) - 7, lambda x: 8 - (8.25 - x).astype(jnp.int32), "-7.75"),
    "the ends of a window": (
        doubled(lambda x: jnp.abs(x - 0.6) < 0.05),
        doubled(lambda x: jnp.abs(x - 0.6) <= 0.05),
        "0.55, 0.65 in 'x'",
    ),
    "behind a map": (
        doubled(lambda x: jax.lax.map(lambda row: row + 0.25, x) > 0.75),
        doubled(lambda x: jax.lax.map(lambda row: row + 0.25, x) >= 0.75),
        "with 0.5 in 'x'",
    ),
    "a sign": (lambda x: jnp.sign(x - 0.5), lambda x: jnp.where(x >= 0.5, 1.0, -1.0), "with 0.5 in 'x'"),
    "a mean of many": (
        lambda x: doubled(lambda x: x > 0.5)(x).mean(),
        lambda x: doubled(lambda x: x >= 0.5)(x).mean(),
        "with 0.5 in 'x'",
    ),
    "a slope at the knee": (
        slopes(lambda x: jnp.where(x > 0.5, x, 0.1 * (x - 0.5) + 0.5)),
        slopes(lambda x: jnp.where(x >= 0.5, x, 0.1 * (x - 0.5) + 0.5)),
        "with 0.5 in 'x'",
    ),
    "a slope at the end of a clip": (
        slopes(lambda x: jnp.where((x > -1) & (x < 0.5), x, 0)),
        slopes(lambda x: jnp.where((x >= -1) & (x < 0.5), x, 0)),
        "-1",
    ),
    "a mesh": (on_a_mesh(doubled(lambda x: x > 0.5)), doubled(lambda x: x >= 0.5), "with 0.5 in 'x'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_tie_decides_is_seen_and_refutes_nothing(fault: str) -> None:
    reference, variant, words = FAULTS[fault]
    shown = seen(reference, variant)
    assert shown is not None and not shown.allowed and words in shown.words


def test_a_tie_of_two_inputs_and_of_the_last_of_four_is_seen() -> None:
    shown = seen(lambda x, y: jnp.where(x > y, x, 2 * y), lambda x, y: jnp.where(x >= y, x, 2 * y), X, Y)
    assert shown is not None and "in 'x'" in shown.words
    last = [
        lambda x, y, z, w, above=above: x * y * z * jnp.where(above(w, 0.5), 2 * w, w)
        for above in (jnp.greater, jnp.greater_equal)
    ]
    shown = seen(*last, X, Y, X + 1, Y + 2)
    assert shown is not None and "with 0.5 in 'w'" in shown.words
    every = [
        lambda *inputs, above=above: sum(jnp.where(above(each, 0.5), 2 * each, each) for each in inputs)
        for above in (jnp.greater, jnp.greater_equal)
    ]
    assert [words for _, words, _ in boundaries(asked(*every, X, Y, X + 1, Y + 2))] == [
        " and ".join(f"0.5 in '{name}'" for name in "xyzw")
    ]


def test_ties_of_a_scale_of_each_row_are_found() -> None:
    x = RANDOM.standard_normal((64, 8)).astype(np.float32)
    scale = np.abs(x[:, :1]) + np.float32(0.1)
    half_even = lambda x, y: jnp.round(x / y) * y  # noqa: E731
    shown = seen(half_even, lambda x, y: jnp.floor(x / y + 0.5) * y, x, scale)
    assert shown is not None and "in 'x'" in shown.words
    assert seen(half_even, lambda x, y: y * jnp.round(x / y), x, scale) is None


def test_scalars_are_tried_one_by_one() -> None:
    side = [
        lambda x, y, above=above: jnp.where(above(x, 0.5) & above(y, 0.25), x, y)
        for above in (jnp.greater, jnp.greater_equal)
    ]
    tried = [words for _, words, _ in boundaries(asked(*side, np.float32(0.7), np.float32(0.1)))]
    assert tried[:2] == ["0.5 in 'x'", "0.25 in 'y'"]


TWINS: dict[str, tuple[Side, Side]] = {
    "where is maximum": (lambda x: jnp.where(x > 0, x, 0), lambda x: jnp.maximum(x, 0)),
    "a product is a quotient": (doubled(lambda x: x * 0.1 > 0.3), doubled(lambda x: x / 10 > 0.3)),
    "a reciprocal": (doubled(lambda x: x * (1 / 49) >= 1), doubled(lambda x: x / 49 >= 1)),
    "a sum in another order": (doubled(lambda x: (x + 0.1) + 0.2 > 0.3), doubled(lambda x: x + (0.1 + 0.2) > 0.3)),
    "not at most": (doubled(lambda x: x > 0.5), doubled(lambda x: ~(x <= 0.5))),
    "a clip": (lambda x: jnp.clip(x, -0.7, 0.3), lambda x: jnp.minimum(jnp.maximum(x, -0.7), 0.3)),
    "tenths": (lambda x: jnp.floor(x * 10) / 10, lambda x: jnp.floor(x / 0.1) / 10),
    "leaky": (lambda x: jax.nn.leaky_relu(x, 0.1), lambda x: jnp.maximum(x, 0.1 * x)),
    "the other sign": (lambda x: jnp.where(x - 0.3 > 0, x, 0), lambda x: jnp.where(-x < -0.3, x, 0)),
    "slopes": (slopes(lambda x: jnp.where(x > 0.5, x, 0.5)), slopes(lambda x: jnp.where(jnp.less(0.5, x), x, 0.5))),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_honest_rewrites_tie_alike(twin: str) -> None:
    assert seen(*TWINS[twin]) is None


def test_a_tie_that_a_declared_range_includes_refutes() -> None:
    sides = doubled(lambda x: x > 0.5), doubled(lambda x: x >= 0.5)
    shown = seen(*sides, magnitudes="stated", between=(0.0, 1.0))
    assert shown is not None and shown.allowed
    assert seen(*sides, magnitudes="stated", between=(0.6, 1.0)) is None
    assert seen(*sides, magnitudes="stated") is None
    sides = doubled(lambda x: jnp.tanh(x) > 0.3), doubled(lambda x: jnp.tanh(x) >= 0.3)
    shown = seen(*sides, magnitudes="stated", between=(0.0, 1.0))
    assert shown is not None and not shown.allowed  # no float32 is that number


def test_ties_of_a_few_elements_are_tried_one_after_the_other() -> None:
    tried = list(boundaries(asked(jnp.round, lambda x: jnp.floor(x + 0.5), np.array([0.7, 0.1], np.float32))))
    assert [words for _, words, _ in tried] == ["-0.5, 0.5 in 'x'", "1.5, 2.5 in 'x'", "-1.5 in 'x'"]


def test_complex_numbers_have_no_ties() -> None:
    size = lambda x: jnp.abs(x.astype(jnp.complex64)) - jnp.sign(x - 0.25)  # noqa: E731
    assert [words for _, words, _ in boundaries(asked(size, size))] == ["0.25 in 'x'"]


def test_a_long_chain_ends_no_search() -> None:
    def chained(x: Any) -> Any:
        y = x
        for _ in range(600):
            y = y * 0.999 + 0.001
        return jnp.where(y > 0.5, jnp.where(x > 0.25, y, x), x)

    assert [words for _, words, _ in boundaries(asked(chained, chained))] == ["0.25 in 'x'"]


def test_a_tie_is_bisected_and_counts_as_one_but_for_rounding() -> None:
    (condition,) = conditions(jax.make_jaxpr(doubled(lambda x: 3 * x > 1))(X))
    near = condition.crossings(0, {}, np.linspace(-5, 5, 7))
    assert near[0] <= 1 / 3 <= near[-1] and near[-1] - near[0] < 1e-15
    compared = jax.make_jaxpr(lambda x: (x * 0.1 > 0.3, x * 0.1 - 0.3 > 0, x > 0.3, jnp.floor(x * 0.7)))(np.float32(3))
    assert [float(value) for value in Interpreter(Ties())(compared, np.float64(3))] == [0, 0, 1, 2]
    assert float(Interpreter(Ties())(compared, np.float64(10))[3]) == 7


WHOLE: dict[str, Side] = {
    "an operation without operands": lambda x: jnp.linalg.slogdet(x)[1],
    "a gradient that is made of zeros": jax.grad(lambda x: jnp.sum(jnp.diagonal(x) ** 2)),
    "a gather without an index": jax.grad(lambda x: jnp.sum(jnp.polyadd(x, 2 * x))),
    "several outputs of one operation": lambda x: jnp.linalg.eigh(x),
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_is_not_elementwise_ends_no_search(what: str) -> None:
    conditions(jax.make_jaxpr(WHOLE[what])(X[:, :4]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of the libraries' own functions
def test_no_function_of_jax_ends_a_search() -> None:
    wrong = {}
    for call in chain(jax_calls(), layer_calls()):
        for name, program in programs(call):
            try:
                conditions(program)
            except Exception as error:
                wrong[name] = repr(error)
    assert wrong == {}
