"""Functions that are the same at the inputs tried and differ at other magnitudes, through every front door."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import samebits
from tests.functions import specimens as f
from tests.support.invoke import samebits as samebits_command

Side = Callable[..., Any]
X = jax.ShapeDtypeStruct((8, 4), jnp.float32)
ROUTER = jax.ShapeDtypeStruct((3, 4), jnp.float32)


def routed(x: Any, router: Any, capacity: int) -> Any:
    """Each row is multiplied by the number of its expert, or dropped where the expert is full."""
    chosen = jax.nn.one_hot(jnp.argmax(x @ router.T, -1), router.shape[0])
    kept = chosen * (jnp.cumsum(chosen, 0) - chosen < capacity)
    return x * (kept @ jnp.arange(1.0, router.shape[0] + 1))[:, None]


def layers(params: Any, x: Any, capacity: int) -> Any:
    for weights in params["before"]:
        x = x + jnp.tanh(x @ weights)
    return routed(x, params["router"], capacity)


PARAMETERS = {"before": [jax.ShapeDtypeStruct((4, 4), jnp.float32)] * 12, "router": ROUTER}


def logs(x: Any) -> Any:
    return jnp.log(jnp.abs(x) + 1) + jnp.log(jnp.abs(x) + 2)


def log(x: Any) -> Any:
    return jnp.log((jnp.abs(x) + 1) * (jnp.abs(x) + 2))


def short(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


FAULTS: dict[str, tuple[Side, Side, tuple[Any, ...]]] = {
    "a capacity, x last": (
        lambda a, b, c, r, x: routed(x, r, 7) + a + b + c,
        lambda a, b, c, r, x: routed(x, r, 8) + a + b + c,
        (X, X, X, ROUTER, X),
    ),
    "a capacity behind parameters": (
        lambda params, x: layers(params, x, 7),
        lambda params, x: layers(params, x, 8),
        (PARAMETERS, X),
    ),
    "saturation beside a law": (
        lambda x: jax.nn.relu(x) + logs(x),
        lambda x: jnp.minimum(jax.nn.relu(x), 6) + log(x),
        (X,),
    ),
    "a root": (lambda x: jnp.sqrt((x + 80) ** 2), lambda x: x + 80, (X,)),
    "a clip in bfloat16": (lambda x: jnp.clip(x, -60, 60), lambda x: jnp.clip(x, -61, 61), (short(8, 16),)),
    "a branch in bfloat16": (lambda x: jnp.where(x > 40, x * 1.02, x), lambda x: x, (short(8, 16),)),
}
FAST = ("a capacity, x last", "saturation beside a law", "a root", "a clip in bfloat16")


@pytest.mark.parametrize(
    "fault", [fault if fault in FAST else pytest.param(fault, marks=pytest.mark.slow) for fault in FAULTS]
)
@pytest.mark.parametrize("ask", [samebits.prove, pytest.param(samebits.check, marks=pytest.mark.slow)])
def test_thresholds_are_seen_whatever_hid_them(ask: Any, fault: str) -> None:
    reference, variant, args = FAULTS[fault]
    assert ask(reference, variant, *args, gradients=False).verdict == "different"
    assert ask(reference, lambda *args: reference(*args) * 1, *args, gradients=False).ok


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_gradients_and_meshes_see_them_too(fault: str) -> None:
    reference, variant, args = FAULTS[fault]
    with pytest.raises(AssertionError, match=r"64 times as large|nearly alike"):
        samebits.assert_same(reference, variant, *args)
    specs = jax.tree.map(lambda array: PartitionSpec("dp" if array.shape[0] == 8 else None), args)
    assert samebits.check(reference, variant, *args, mesh="dp4", specs=specs, gradients=False).verdict == "different"


def clipped_loss(x: Any) -> Any:
    """The loss of probabilities that are clipped at 1e-7: at most 16.1."""
    return -jnp.log(jnp.clip(jax.nn.softmax(x), 1e-7, 1 - 1e-7))[:, 0]


def test_the_witness_is_of_the_inputs_that_show_it() -> None:
    """At the inputs of the case the sides differ by rounding, which says nothing of the verdict."""
    compared = samebits.check(lambda x: -jax.nn.log_softmax(x)[:, 0], clipped_loss, X, gradients=False)
    text = compared.failure()
    assert "16.1180954 (0x4180f1dc)" in text and "by rounding" not in text, text
    assert "input     ordinary, with the inputs 64 times as large" in text and "has `jnp.clip(" in text, text


def test_of_given_arrays_it_is_a_note() -> None:
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    reference, variant, _ = FAULTS["saturation beside a law"]
    with pytest.warns(samebits.OtherInputsWarning, match="with the inputs 64 times as large"):
        samebits.assert_same(reference, variant, x, gradients=False)
    with pytest.warns(samebits.OtherInputsWarning, match="with the inputs negated and 64 times as large"):
        samebits.assert_same(lambda x: jnp.sqrt(x * x), lambda x: x, np.abs(x) + 1, gradients=False)
    with pytest.warns(samebits.OtherInputsWarning, match=r"'e' zero in row [34]"):
        samebits.assert_same(
            lambda a, b, c, d, e: a + b + c + d + e / jnp.abs(e).max(-1, keepdims=True),
            lambda a, b, c, d, e: a + b + c + d + e / jnp.maximum(jnp.abs(e).max(-1, keepdims=True), 1e-30),
            *(x[:, ::-1] + number for number in range(4)),
            x,
            gradients=False,
        )


@pytest.mark.slow
def test_a_gradient_that_cancels_out_is_not_noted() -> None:
    def biased(q: Any, k: Any, v: Any, b: Any) -> Any:
        return jax.nn.softmax(q @ (k + b).T, -1) @ v

    def beside(q: Any, k: Any, v: Any, b: Any) -> Any:
        return jax.nn.softmax(q @ k.T + (q @ b)[:, None], -1) @ v

    samebits.assert_same(biased, beside, X, X, X, jax.ShapeDtypeStruct((4,), jnp.float32))  # warnings are errors


# --- two functions whose difference hangs on a condition that no value at hand takes, through each front door --------

STEP = jax.ShapeDtypeStruct((), jnp.int32)


def in_one_hundred(x: Any, step: Any) -> Any:
    return jnp.where(step // 100 == 7, 2 * x, x)


def in_the_same_hundred(x: Any, step: Any) -> Any:
    return jnp.where((step >= 700) & (step < 800), 2 * x, x)


def never(x: Any, step: Any) -> Any:
    return jnp.where(step < step, 2 * x, x)


def test_an_integer_between_the_literals_refutes_and_is_shown() -> None:
    with pytest.raises(AssertionError, match=r"with 'step' = 7\d\d"):
        samebits.assert_same(in_one_hundred, never, f.rows(), STEP, gradients=False)
    proved = samebits.prove(in_one_hundred, never, f.rows(), STEP, gradients=False)
    assert proved.verdict == "different" and "step // 100 == 7" in proved.failure()
    with pytest.warns(samebits.OtherInputsWarning, match=r"'step' = 7\d\d"):  # of a given one it is a note
        samebits.assert_same(in_one_hundred, never, f.rows(), np.int32(3), gradients=False)


@pytest.mark.slow
def test_two_spellings_of_one_schedule_pass() -> None:
    samebits.assert_same(in_one_hundred, in_the_same_hundred, f.rows(), STEP)
    samebits.assert_same(in_one_hundred, in_the_same_hundred, f.rows(), np.int32(3))
    with pytest.raises(AssertionError, match=r"with 'step' = 7\d\d"):
        samebits.assert_same(in_one_hundred, never, f.rows(), STEP)
    assert samebits.prove(in_one_hundred, in_the_same_hundred, f.rows(), STEP, gradients=False).ok


def above_half(x: Any) -> Any:
    return jnp.where(x > 0.5, 2 * x, x)


def from_half(x: Any) -> Any:
    return jnp.where(x >= 0.5, 2 * x, x)


def far_away(x: Any) -> Any:
    """A norm that no input at hand reaches, an end that none is below, and a comparison that comes out both ways."""
    norm = jnp.sqrt(jnp.sum(x * x))
    kept = jnp.maximum(jnp.where(norm > 1e9, x / norm, x), -1e9)
    return jnp.where(x > 0.25, 2 * kept, x)


def test_a_tie_is_a_note_and_refutes_within_a_declared_range() -> None:
    with pytest.warns(samebits.OtherInputsWarning, match="with 0.5 in 'x'"):
        samebits.assert_same(above_half, from_half, f.rows(), gradients=False)
    samebits.assert_same(above_half, lambda x: above_half(x), f.rows(), gradients=False)
    ended = samebits_command("compare", f"{__name__}:above_half", f"{__name__}:from_half", "--arg", "x=f32[8]:0..1")
    assert ended.code == 1 and "with 0.5 in 'x'" in ended.out


def test_what_came_out_one_way_only_is_named() -> None:
    (leaf,) = samebits.prove(far_away, lambda x: far_away(x) + 0.0, f.rows(), gradients=False).leaves
    (text,) = [each.text for each in leaf.proof.assumptions if each.word == "comparisons"]
    named = text.partition("; one way only at everything tried: ")[2]
    assert "gt at " in named and "max at " in named and len(named.split(", ")) == 2
    (leaf,) = samebits.prove(above_half, lambda x: above_half(x) + 0.0, f.rows(), gradients=False).leaves
    assert not any("one way only" in each.text for each in leaf.proof.assumptions)
