"""Lines for what is no other formula: another dtype of an output, and accuracy that is lost."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits

Function = Callable[..., Any]


def doubled(x: Any) -> Any:
    return x * 2


def cast_at_the_end(x: Any) -> Any:
    return (x * 2).astype(jnp.bfloat16)


def cast_before(x: Any) -> Any:
    narrow = x.astype(jnp.bfloat16)
    return narrow * 2


@jax.jit
def cast_in_a_call(x: Any) -> Any:
    return (x * 2).astype(jnp.float16)


def summed(x: Any) -> Any:
    return jax.lax.scan(lambda total, row: (total + row, total), jnp.zeros(16), x)[1]


def summed_narrow(x: Any) -> Any:
    start = jnp.zeros(16, jnp.bfloat16)
    return jax.lax.scan(lambda total, row: (total + row.astype(total.dtype), total), start, x)[1]


TYPES: list[tuple[Function, Function, str, str]] = [
    (doubled, cast_at_the_end, "(x * 2).astype(jnp.bfloat16)", ""),
    (cast_at_the_end, doubled, "", "(x * 2).astype(jnp.bfloat16)"),
    (doubled, cast_before, "x.astype(jnp.bfloat16)", ""),
    (doubled, cast_in_a_call, "(x * 2).astype(jnp.float16)", ""),
    (
        lambda x: jnp.mean(x.astype(jnp.bfloat16), dtype=jnp.float32),
        lambda x: jnp.mean(x.astype(jnp.bfloat16)),
        "jnp.mean(x.astype(jnp.bfloat16))",
        "jnp.mean(x.astype(jnp.bfloat16), dtype=jnp.float32)",
    ),
    (summed, summed_narrow, "jnp.zeros(16, jnp.bfloat16)", ""),
    (
        lambda x: jnp.where(x.sum() > 1e9, jnp.float32(2), jnp.float32(3)),
        lambda x: jnp.where(x.sum() > 1e9, 2.0, 3.0),
        "jnp.where(x.sum() > 1e9, 2.0, 3.0)",
        "",
    ),
    (lambda x: x > 0, lambda x: (x > 0).astype(jnp.int32), "(x > 0).astype(jnp.int32)", "x > 0"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(TYPES)))
def test_the_line_that_sets_a_dtype(number: int) -> None:
    """In `check` and in `prove`, and in a gradient that is not compared for it."""
    reference, variant, mine, theirs = TYPES[number]
    x = jax.random.normal(jax.random.key(0), (8, 16))
    for call in (samebits.check, samebits.prove):
        compared = call(reference, variant, x, gradients=number < 2)
        assert compared.verdict == "different"
        for leaf in compared.leaves:
            (line,) = leaf.named.lines
            assert line.change == "dtype" and line.variant_code == mine
            assert line.reference_code.startswith(theirs) if theirs else True
            assert str(line).endswith(": the dtype of the output is set there")


def test_an_argument_of_another_dtype_has_no_line() -> None:
    x = jax.random.normal(jax.random.key(0), (8, 16))
    args = x, x.astype(jnp.bfloat16)
    (leaf,) = samebits.check(lambda a, b: a, lambda a, b: b, *args, gradients=False).leaves
    assert leaf.named.lines == () and leaf.named.why == "on either side the output has the dtype of an argument"


def softmax_narrow(x: Any) -> Any:
    scores = x.astype(jnp.float16)
    return jax.nn.softmax(scores).astype(jnp.float32)


def carry_narrow(x: Any) -> Any:
    def step(total: Any, row: Any) -> tuple[Any, Any]:
        narrow = (total + row).astype(jnp.bfloat16)
        return narrow.astype(jnp.float32), total

    return jax.lax.scan(step, jnp.zeros(16), x)[1]


LOSSES: list[tuple[Function, Function, str]] = [
    (jax.nn.softmax, softmax_narrow, "x.astype(jnp.float16)"),
    (
        lambda x: jnp.sum(x, -1),
        lambda x: jnp.sum(x.astype(jnp.bfloat16), axis=-1, dtype=jnp.bfloat16).astype(jnp.float32),
        "x.astype(jnp.bfloat16)",
    ),
    (summed, carry_narrow, "(total + row).astype(jnp.bfloat16)"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(len(LOSSES)))
def test_the_line_from_which_numbers_are_narrower(number: int) -> None:
    reference, variant, code = LOSSES[number]
    compared = samebits.check(reference, variant, jax.random.normal(jax.random.key(0), (8, 16)), gradients=False)
    assert "loses accuracy" in compared.failure()
    (line,) = compared.leaves[0].named.lines
    assert line.change == "narrower" and line.variant_code == code
    assert "floats are narrower from there than anywhere in the reference" in compared.failure()
