"""Integers, booleans and counts that only comparisons make: whether both sides change them at the same inputs."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import samebits
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.probes import other_jumps
from samebits.interpret.problem import Input, Question

Side = Callable[..., Any]
BIAS = np.random.default_rng(5).normal(size=16).astype(np.float32)


def asked(reference: Side, variant: Side, names: str = "x", dtype: Any = np.float32) -> Question:
    random = np.random.default_rng(1)
    arrays = [random.normal(size=(6, 16)).astype(dtype) for _ in names]
    first, second = (jax.make_jaxpr(side)(*arrays) for side in (reference, variant))
    inputs = [Input(name, array, magnitudes="given") for name, array in zip(names, arrays, strict=True)]
    return Question(first, second, inputs, ["out"])


def proof(reference: Side, variant: Side, names: str = "x", dtype: Any = np.float32) -> FieldIdentity:
    return identity(asked(reference, variant, names, dtype))["out"]


def quantised(factor: float) -> Side:
    def quantise(x: Any) -> Any:
        scale = jnp.abs(x).max(-1, keepdims=True) / 120 * factor
        return jnp.clip(jnp.round(x / scale), -128, 127).astype(jnp.int8)

    return quantise


def sampled(temperature: float) -> Side:
    return lambda x: jnp.argmax(x / temperature + BIAS, -1)


def noisy(temperature: float, *, by_ratio: bool = False) -> Side:
    """A choice by Gumbel noise, also as that of the smallest ratio."""

    def choose(x: Any, u: Any) -> Any:
        waited = -jnp.log(jax.nn.sigmoid(u))
        if by_ratio:
            return jnp.argmin(waited / jnp.exp(x / temperature), -1)
        return jnp.argmax(x / temperature - jnp.log(waited), -1)

    return choose


def hinge(margin: float) -> Side:
    return jax.grad(lambda x: jnp.maximum(x - margin, 0).sum())


FAULTS: dict[str, tuple[Side, Side, str]] = {
    "an int8 scale 1e-5 off": (quantised(1.0), quantised(1 + 1e-5), "x"),
    "a cast": (lambda x: (10 * x).astype(jnp.int8), lambda x: (10.0001 * x).astype(jnp.int8), "x"),
    "argmax at another temperature": (sampled(0.7), sampled(0.701), "x"),
    "a sample at another temperature": (noisy(0.7), noisy(0.702), "xu"),
    "a count": (lambda x: (x > 0.5).sum(), lambda x: (x > 0.50001).sum(), "x"),
    "a share": (lambda x: (x > 0.5).mean(), lambda x: (x > 0.5001).mean(), "x"),
    "a mask": (lambda x: x > x.mean(), lambda x: x > 1.01 * x.mean(), "x"),
    "bins": (
        lambda x: jnp.searchsorted(np.linspace(-2, 2, 9, dtype=np.float32), x, method="compare_all"),
        lambda x: jnp.searchsorted(np.linspace(-2, 2.001, 9, dtype=np.float32), x, method="compare_all"),
        "x",
    ),
    "counts of experts": (
        lambda x: jnp.zeros(16, jnp.int32).at[jnp.argmax(x + BIAS, -1)].add(1),
        lambda x: jnp.zeros(16, jnp.int32).at[jnp.argmax(x + 1.001 * BIAS, -1)].add(1),
        "x",
    ),
    "packed": (
        lambda x: jnp.round(3 * x).astype(jnp.int32).reshape(-1, 2) @ np.array([1, 16]),
        lambda x: jnp.round(3.0001 * x).astype(jnp.int32).reshape(-1, 2) @ np.array([1, 16]),
        "x",
    ),
    "the gradient of a hinge": (hinge(0.5), hinge(0.5001), "x"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_jumps_elsewhere_is_another_formula(fault: str) -> None:
    reference, variant, names = FAULTS[fault]
    result = proof(reference, variant, names)
    assert not result.equal and not result.undecided
    assert result.witness is not None and "inputs between those of the case and others of their elements" in str(
        result.witness
    )


HONEST: dict[str, tuple[Side, Side, str]] = {
    "argmax of a softmax": (lambda x: jnp.argmax(x, -1), lambda x: jnp.argmax(jax.nn.softmax(x, -1), -1), "x"),
    "argmax of its logarithm": (
        lambda x: jnp.argmax(x, -1),
        lambda x: jnp.argmax(jax.nn.log_softmax(3 * x, -1), -1),
        "x",
    ),
    "a sample by ratios": (noisy(0.7), noisy(0.7, by_ratio=True), "xu"),
    "a count of the others": (lambda x: (x > 0.5).sum(), lambda x: x.size - (x <= 0.5).sum(), "x"),
    "a third": (lambda x: (x > 1 / 3).sum(), lambda x: (3 * x > 1).sum(), "x"),
    "bins by sums": (
        lambda x: jnp.searchsorted(np.linspace(-2, 2, 9, dtype=np.float32), x, method="compare_all"),
        lambda x: (np.linspace(-2, 2, 9, dtype=np.float32) < x[..., None]).sum(-1, dtype=jnp.int32),
        "x",
    ),
    "top_k and argsort": (
        lambda x: jax.lax.top_k(x, 3)[1],
        lambda x: jnp.argsort(-x, -1)[..., :3].astype(jnp.int32),
        "x",
    ),
    "half up": (lambda x: jnp.floor(x + 0.5).astype(jnp.int32), lambda x: jnp.round(x).astype(jnp.int32), "x"),
}


NO_TIES = ("argmax of a softmax", "argmax of its logarithm", "a count of the others", "a third")
"""In bfloat16, where the others compare numbers that are equal."""


@pytest.mark.parametrize(
    ("rewrite", "dtype"),
    [(rewrite, "float32") for rewrite in HONEST] + [(rewrite, "bfloat16") for rewrite in HONEST if rewrite in NO_TIES],
)
def test_what_decides_alike_is_equal_at_the_values_tried(rewrite: str, dtype: str) -> None:
    reference, variant, names = HONEST[rewrite]
    result = proof(reference, variant, names, jnp.dtype(dtype))
    assert result.equal and result.tried
    assert result.same.startswith("the same numbers at the inputs tried, which only decisions make (not by formulas; ")


def test_integers_that_are_one_rounded_formula_are_that_formula() -> None:
    def by_product(x: Any) -> Any:
        scale = 120 / jnp.abs(x).max(-1, keepdims=True)
        return jnp.clip(jnp.round(x * scale), -128, 127).astype(jnp.int8)

    result = proof(quantised(1.0), by_product)
    assert result.equal and not result.tried and result.same.startswith("the same formulas (error probability 2^-")


def test_integers_of_integers_are_formulas() -> None:
    integers = np.arange(6, dtype=np.int32)
    first, second = (jax.make_jaxpr(side)(integers) for side in (lambda n: 2 * n + 1, lambda n: (n << 1) | 1))
    (result,) = identity(Question(first, second, [Input("n", integers)], ["out"])).values()
    assert result.equal and not result.tried


def test_what_the_rounding_of_a_constant_moves_is_no_other_jump() -> None:
    threshold = np.float32(0.7) ** 7
    rounded = threshold.astype(jnp.bfloat16)
    question = asked(lambda x: x > threshold, lambda x: x > rounded.astype(x.dtype), dtype=jnp.bfloat16)
    assert other_jumps(question, ["out"], "") == {}
    assert other_jumps(asked(lambda x: x > threshold, lambda x: x > 1.05 * threshold), ["out"], "")


def test_without_values_between_there_is_nothing_to_say() -> None:
    def called(x: Any) -> Any:
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x) > 0.5

    assert other_jumps(asked(called, lambda x: x > 0), ["out"], "") == {}
    ramp = Input("x", np.arange(6, dtype=np.float32))
    first, second = (jax.make_jaxpr(lambda x, limit=limit: x > limit)(ramp.values) for limit in (0.5, 0.6))
    assert other_jumps(Question(first, second, [ramp], ["out"]), ["out"], "") == {}


def test_infinities_beside_what_jumps_stay() -> None:
    x, mask = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32), np.triu(np.full((4, 4), -np.inf), 1)
    inputs = [Input("mask", mask.astype(np.float32)), Input("x", x)]
    first, second = (
        jax.make_jaxpr(lambda mask, x, limit=limit: x + mask > limit)(*(each.values for each in inputs))
        for limit in (0.5, 0.5001)
    )
    assert "out" in other_jumps(Question(first, second, inputs, ["out"]), ["out"], "")  # warnings are errors


def test_a_tie_at_the_inputs_of_the_case_hides_no_scale() -> None:
    """The largest element is 127 scales: rounded to an integer, it is too close to the next one for the fields."""

    def quantise(x: Any, factor: float) -> Any:
        return (x / (jnp.abs(x).max() / 127) * factor).astype(jnp.int8)

    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    off = samebits.prove(lambda x: quantise(x, 1.0), lambda x: quantise(x, 1 - 1e-4), x, gradients=False)
    assert off.verdict == "different"
    by_product = samebits.prove(
        lambda x: quantise(x, 1.0), lambda x: (x * (127 / jnp.abs(x).max())).astype(jnp.int8), x, gradients=False
    )
    assert by_product.verdict != "different"


def test_integers_that_the_fields_do_not_cover_are_refuted() -> None:
    """Multiples of a quarter tie, and choices of rounded numbers are never covered; alone, and beside a formula."""

    def by_row(x: Any, factor: float) -> Any:
        return jnp.round(x / (jnp.abs(x).max(-1, keepdims=True) / 127) * factor).astype(jnp.int8)

    def chosen(x: Any, factor: float) -> Any:
        return jnp.argmax(jnp.round(x * 2 * factor), -1)

    random = np.random.default_rng(0)
    drawn = random.normal(size=(4, 6)).astype(np.float32)
    quarters = (random.integers(-8, 8, size=(4, 6)) / 4).astype(np.float32)
    for side, x in ((by_row, quarters), (chosen, drawn), (lambda x, factor: (x * x, chosen(x, factor)), drawn)):
        off = samebits.prove(lambda x, side=side: side(x, 1.0), lambda x, side=side: side(x, 0.999), x, gradients=False)
        assert off.verdict == "different", off
        same = samebits.prove(lambda x, side=side: side(x, 1.0), lambda x, side=side: side(+x, 1.0), x, gradients=False)
        assert same.verdict != "different", same


SLOW = tuple(fault for fault in FAULTS if fault not in ("a count", "an int8 scale 1e-5 off"))


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.slow) if fault in SLOW else fault for fault in FAULTS]
)
def test_functions_that_decide_otherwise_fail(fault: str) -> None:
    reference, variant, names = FAULTS[fault]
    args = [jax.ShapeDtypeStruct((6, 16), jnp.float32) for _ in names]
    with pytest.raises(AssertionError, match=r"others of their elements|times smaller"):
        samebits.assert_same(reference, variant, *args, gradients=False)
    assert samebits.prove(reference, variant, *args, gradients=False).verdict == "different"


NOTED = ("argmax of a softmax", "argmax of its logarithm", "a sample by ratios", "half up")
"""At inputs 4e6 times smaller a softmax rounds what it compares, and half up is not half to even at ties."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # a softmax of tiny numbers ties; halves round apart
@pytest.mark.parametrize("rewrite", HONEST)
def test_functions_that_decide_alike_pass(rewrite: str) -> None:
    reference, variant, names = HONEST[rewrite]
    args = [jax.ShapeDtypeStruct((8, 16), jnp.float32) for _ in names]
    specs = [PartitionSpec("dp")] * len(args)
    for passed in ({}, {"mesh": "dp2", "specs": tuple(specs)}):
        with pytest.warns(samebits.OtherInputsWarning) if rewrite in NOTED else contextlib.nullcontext():
            compared = samebits.check(reference, variant, *args, gradients=False, **passed)
        assert compared.ok and "the same numbers at the inputs tried" in str(compared)


@pytest.mark.slow
def test_what_decides_otherwise_on_a_mesh_fails() -> None:
    args = (jax.ShapeDtypeStruct((8, 16), jnp.float32),)
    for fault in ("a count", "argmax at another temperature", "a mask"):
        reference, variant, _ = FAULTS[fault]
        compared = samebits.check(reference, variant, *args, gradients=False, mesh="dp2", specs=PartitionSpec("dp"))
        assert compared.verdict == "different"
