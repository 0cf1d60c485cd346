"""Every assumption of a proof is printed: values that it took as given, products that it took as exact."""

import dataclasses
import io
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from samebits.check.prove_points import prove_points
from samebits.errors import NotCovered
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.labels import movement
from samebits.interpret.problem import Input
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.prove.prover import Prover, Unproved
from samebits.report.prove import pair_block
from samebits.report.terminal import show_blocks
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from tests.interpret.executed import asked
from tests.support.toys import toy


def proved(pair: Pair) -> tuple[list[Finding], str]:
    """What is proved of a pair, and how it is printed."""
    found = list(prove_points(pair, Locator(name=pair.name), plan(pair, Request(full=True), 8)))
    console = Console(file=io.StringIO(), width=200)
    show_blocks(console, [pair_block(pair.name, found)])
    assert isinstance(console.file, io.StringIO)
    return found, console.file.getvalue()


# -- integers and booleans, which fields take as they are


def thrice(x: Any, *, factor: float = 1.0) -> Any:
    return x * 3


def summed(x: Any, *, factor: float = 1.0) -> Any:
    return x + (x + x)


def test_a_field_proof_assumes_integers_that_do_not_route() -> None:
    def function(x: Any, n: Any, which: Any) -> Any:
        return (x + x) * n * which

    question = asked(function, function, np.ones(3), np.arange(3), np.array([True, False, True]), index_operands=(1,))
    assert question.routing == ("y",) and question.fixed == ("y", "z")


def test_they_are_published_and_printed() -> None:
    pair = dataclasses.replace(toy(thrice, summed=summed), dtypes=("float32", "int32"))
    found, text = proved(pair)
    forward = {
        one.place.dtype: one.proof.routing
        for one in found
        if one.place.direction == "forward" and one.proof.method == "fields"
    }
    assert forward == {"float32": (), "int32": ("x",)}
    assert "assumes    these values of x; false where other integers or booleans are given" in text


@pytest.mark.slow
def test_each_assumption_is_published_and_printed() -> None:
    def clipped(x: Any, *, factor: float = 1.0) -> Any:
        return jnp.exp(jnp.clip(x, -1000, 1000))

    found, text = proved(toy(lambda x, *, factor=1.0: jnp.exp(x), clipped=clipped))
    forward = [one for one in found if one.place.variant == "clipped" and one.place.direction == "forward"]
    for one in forward:
        words = {each.word: each for each in one.proof.assumptions}
        assert {"shapes", "casts", "comparisons", "range"} == set(words)
        assert words["shapes"].inherent and words["casts"].inherent and not words["range"].inherent
        for each in words.values():
            assert f"assumes    {each.text}; false where {each.false_where}" in text


@pytest.mark.slow
def test_without_assumptions_only_what_rests_on_none_is_proved() -> None:
    def masked(x: Any, *, factor: float = 1.0) -> Any:
        return jnp.where(x > -1e3, x, 0.0)

    def moved(x: Any, *, factor: float = 1.0) -> Any:
        return x[::-1][::-1]

    pair = toy(lambda x, *, factor=1.0: x * 1.0, masked=masked, moved=moved)
    chosen = plan(pair, Request(full=True), 8)
    with_them, without = (
        list(prove_points(pair, Locator(name=pair.name), chosen, assuming=assuming)) for assuming in (True, False)
    )
    assert {one.ruling.verdict for one in with_them if one.place.variant == "masked"} == {"rounding"}
    assert {one.ruling.verdict for one in without if one.place.variant == "masked"} == {"error"}
    (reason,) = {
        one.ruling.reason for one in without if one.place.variant == "masked" and one.place.direction == "forward"
    }
    assert reason == "the proof rests on assumptions (comparisons, range), and none are accepted"
    assert not any(one.ruling.ok for one in without if one.place.variant == "masked")


def test_another_value_is_another_proof() -> None:
    """What was proved for some integers is not handed out for others."""
    programs = Programs(threads=1)
    try:
        prover, x = Prover(TracedSides(toy(), programs), None), np.ones(3, np.float32)
        question = asked(*(lambda x, n, k=k: jnp.where(n > 0, x, k * x) for k in (2, 3)), x, np.ones(3, int))
        inputs = (question.inputs[0], Input("y", np.zeros(3, int)))
        first, second = (
            prover.identity({"ordinary": one}) for one in (question, dataclasses.replace(question, inputs=inputs))
        )
    finally:
        programs.close()
    assert not isinstance(first, Unproved) and not isinstance(second, Unproved)
    assert isinstance(first["out"], FieldIdentity) and isinstance(second["out"], FieldIdentity)
    assert first["out"].equal and not second["out"].equal


# -- products with one-hot matrices


def hot(precision: Any = None) -> Any:
    """Two rows exchanged by a product."""

    def function(x: Any, *, factor: float = 1.0) -> Any:
        return jnp.matmul(np.eye(len(x))[::-1].astype(x.dtype), x, precision=precision)

    return function


def turned(x: Any, *, factor: float = 1.0) -> Any:
    return x[::-1]


X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
LONG = {"float32": np.float32, "float16": np.float16}


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
@pytest.mark.parametrize("dtype", LONG)
def test_a_one_hot_product_is_movement_where_it_is_exact(platform: str, dtype: str) -> None:
    x = X.astype(LONG[dtype])
    for precision in (None, "high"):
        question = asked(turned, hot(precision), x)
        with pytest.raises(
            NotCovered, match=rf"one-hot matrix, which on {platform} keeps {dtype} with precision HIGHEST"
        ):
            movement(dataclasses.replace(question, platform=platform))
        for kept in (None, "cpu"):
            found = movement(dataclasses.replace(question, platform=kept))["out"]
            assert found.equal and found.products
    question = dataclasses.replace(asked(turned, hot("highest"), x), platform=platform)
    assert movement(question)["out"].equal and not movement(question)["out"].products


def test_short_floats_and_integers_are_kept_everywhere() -> None:
    for dtype in (jnp.bfloat16, np.int32):
        question = dataclasses.replace(asked(turned, hot(), X.astype(dtype)), platform="tpu")
        assert movement(question)["out"].equal and not movement(question)["out"].products


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
def test_bfloat16_that_was_widened_is_kept_everywhere(platform: str) -> None:
    """As in the gradient of a bfloat16 table: what comes from an input of few digits loses none."""

    def widened(function: Any) -> Any:
        return lambda x: function(x.astype(jnp.float32))

    question = asked(widened(turned), widened(hot()), X.astype(jnp.bfloat16))
    found = movement(dataclasses.replace(question, platform=platform))["out"]
    assert found.equal and not found.products


def test_a_long_constant_among_short_elements_is_not_kept() -> None:
    def padded(function: Any, number: float) -> Any:
        return lambda x: function(jnp.concatenate([x.astype(jnp.float32), jnp.full((1, 3), number, jnp.float32)]))

    for number, kept in ((255.0, True), (257.0, False)):
        question = asked(padded(turned, number), padded(hot(), number), X.astype(jnp.bfloat16))
        question = dataclasses.replace(question, platform="gpu")
        if kept:
            assert movement(question)["out"].equal
        else:
            with pytest.raises(NotCovered, match="precision HIGHEST"):
                movement(question)


def test_a_single_one_and_a_named_algorithm_are_no_exceptions() -> None:
    one = X[:1]
    with pytest.raises(NotCovered, match="precision HIGHEST"):
        movement(dataclasses.replace(asked(turned, hot(), one), platform="gpu"))
    with pytest.raises(NotCovered, match="asks for the algorithm"):
        movement(asked(turned, hot("BF16_BF16_F32"), X))


def test_a_product_that_rounds_its_result_is_no_movement() -> None:
    def into(dtype: Any) -> Any:
        return lambda x: jnp.matmul(np.eye(2, dtype=x.dtype)[::-1], x, preferred_element_type=dtype)

    with pytest.raises(NotCovered, match=r"convert_element_type.* is arithmetic on input elements"):
        movement(asked(into(jnp.bfloat16), into(jnp.bfloat16), X))
    narrow = X.astype(jnp.bfloat16)
    assert movement(asked(turned, lambda x: into(np.float32)(x).astype(x.dtype), narrow))["out"].equal


@pytest.mark.slow
def test_the_report_names_products_where_there_are_some() -> None:
    def flipped(x: Any, *, factor: float = 1.0) -> Any:
        return jnp.flip(x, 0)

    pair = toy(turned, hot=hot(), flipped=flipped)
    found, text = proved(pair)
    clause = "products of matrices keep float32, as on a CPU; false where"
    assert {one.place.variant for one in found if one.proof.products} == {"hot"}
    assert [clause in line for line in text.splitlines() if "assumes" in line].count(True) == 2  # forward, gradient
    assert all(one.proof.method == "labels" and one.ruling.verdict == "proved" for one in found)
