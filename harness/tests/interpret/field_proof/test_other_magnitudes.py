"""Proofs of formulas at inputs of other magnitudes: thresholds that normal numbers never pass."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.problem import Input, Question

Side = Callable[..., Any]


def proof(
    reference: Side, variant: Side, names: str = "x", *, stated: bool = False, dtype: str = "float32"
) -> FieldIdentity:
    rng = np.random.default_rng(7)
    arrays: Mapping[str, Any] = {name: rng.standard_normal((4, 6)).astype(jnp.dtype(dtype)) for name in names}
    first, second = (jax.make_jaxpr(side)(*arrays.values()) for side in (reference, variant))
    inputs = [Input(name, array, magnitudes="stated" if stated else "all") for name, array in arrays.items()]
    return identity(Question(first, second, inputs, ["out"]))["out"]


def clipped(g: Any) -> Any:
    return g * jnp.minimum(1.0, 1.0 / jnp.sqrt(jnp.sum(g * g)))


def normalised(g: Any) -> Any:
    return g / jnp.sqrt(jnp.sum(g * g))


def with_history(x: Any, history: Any) -> Any:
    return x / jnp.maximum(jnp.max(jnp.abs(4 * x)), jnp.max(jnp.abs(history)))


def without_history(x: Any, history: Any) -> Any:
    return x / jnp.max(jnp.abs(4 * x))


def routed(x: Any, router: Any, *, capacity: int, in_order: bool = True) -> Any:
    """Each row is multiplied by the number of its expert, or dropped where the expert is full."""
    chosen = jax.nn.one_hot(jnp.argmax(x @ router.T, -1), router.shape[0])
    before = jnp.cumsum(chosen, 0) - chosen
    kept = chosen * (before < capacity) if in_order else chosen
    return x * (kept @ jnp.arange(1.0, router.shape[0] + 1))[:, None]


FAULTS: dict[str, tuple[Side, Side, str, str]] = {
    "saturation at 6": (jax.nn.relu, jax.nn.relu6, "x", "with the inputs 64 times as large"),
    "clip at 50": (lambda x: 2 * x, lambda x: 2 * jnp.clip(x, -50, 50), "x", "with the inputs 64 times as large"),
    "a norm that is clipped": (clipped, normalised, "x", "with the inputs 1024 times smaller"),
    "a history that is ignored": (with_history, without_history, "xh", "with 'h' 64 times as large"),
    "a branch": (lambda x: jnp.where(x > 20, 0, x), lambda x: x + 0, "x", "with the inputs 64 times as large"),
    "a clip beside a fill": (
        lambda x: jnp.where(np.tri(4, 6, dtype=bool), jnp.clip(x, -20, 20), -1e30),
        lambda x: jnp.where(np.tri(4, 6, dtype=bool), jnp.clip(x, -40, 40), -1e30),
        "x",
        "with the inputs 64 times as large",
    ),
    "a capacity": (
        lambda x, router: routed(x, router, capacity=3),
        lambda x, router: routed(x, router, capacity=3, in_order=False),
        "xr",
        "with the rows of 'x' nearly alike",
    ),
}


def logs(x: Any) -> Any:
    return jnp.log(jnp.abs(x) + 1) + jnp.log(jnp.abs(x) + 2)


def log(x: Any) -> Any:
    """The same, by a law that the fields do not know."""
    return jnp.log((jnp.abs(x) + 1) * (jnp.abs(x) + 2))


def angles(x: Any) -> Any:
    return jnp.sin(x) * jnp.cos(x)


def twice(x: Any) -> Any:
    return 0.5 * jnp.sin(2 * x)


LARGE = "with the inputs 64 times as large"

UNDECIDED: dict[str, tuple[Side, Side, str, str]] = {
    "saturation": (lambda x: jax.nn.relu(x) + logs(x), lambda x: jnp.minimum(jax.nn.relu(x), 6) + log(x), "x", LARGE),
    "a clip": (lambda x: jnp.clip(x, -20, 20) + angles(x), lambda x: x + twice(x), "x", LARGE),
    "a clip in bfloat16": (lambda x: jnp.clip(x, -90, 90) + angles(x), lambda x: x + twice(x), "x", LARGE),
    "a branch": (lambda x: jnp.where(x > 30, 0, x) + logs(x), lambda x: x + log(x), "x", LARGE),
    "a clipped gradient": (
        jax.grad(lambda x: (angles(x) + jnp.clip(x, -40, 40) ** 2).sum()),
        jax.grad(lambda x: (twice(x) + x**2).sum()),
        "x",
        LARGE,
    ),
    "a small norm": (lambda x: clipped(x) + logs(x), lambda x: normalised(x) + log(x), "x", "1024 times smaller"),
    "a history": (
        lambda x, h: with_history(x, h) + logs(x),
        lambda x, h: without_history(x, h) + log(x),
        "xh",
        "with 'h' 64 times as large",
    ),
    "a capacity": (
        lambda x, r: routed(x, r, capacity=3) * logs(x),
        lambda x, r: routed(x, r, capacity=3, in_order=False) * log(x),
        "xr",
        "with the rows of 'x' nearly alike",
    ),
}
"""Beside what fields leave undecided."""

ROOTS: dict[str, tuple[Side, Side]] = {
    "of a shifted square": (lambda x: jnp.sqrt((x + 100) ** 2), lambda x: x + 100),
    "of a square in parts": (lambda x: jnp.sqrt(x * x + 80 * x + 1600), lambda x: x + 40),
    "of a product": (lambda x: jnp.sqrt((x + 50) * (x + 50)) * x, lambda x: x * x + 50 * x),
    "in a gradient": (
        jax.grad(lambda x: (x * jnp.sqrt((x + 60) ** 2)).sum()),
        jax.grad(lambda x: (x * x + 60 * x).sum()),
    ),
}
"""Whose sign is one at the inputs of the case, and another one elsewhere."""

LATE: dict[str, tuple[Side, Side, str, str]] = {
    "a capacity": (
        lambda a, b, c, r, x: routed(x, r, capacity=3) + a + b + c,
        lambda a, b, c, r, x: routed(x, r, capacity=3, in_order=False) + a + b + c,
        "abcrx",
        "with the rows of 'x' nearly alike",
    ),
    "its gradient": (
        lambda a, b, c, r, x: jax.grad(lambda x: (routed(x, r, capacity=3) * (a + b) * c).sum())(x),
        lambda a, b, c, r, x: jax.grad(lambda x: (routed(x, r, capacity=3, in_order=False) * (a + b) * c).sum())(x),
        "abcrx",
        "with the rows of 'x' nearly alike",
    ),
    "a share that is capped": (
        lambda a, b, c, d, e: (a + b + c + d) * jax.nn.one_hot(jnp.argmax(e, -1), 6).mean(0).max(),
        lambda a, b, c, d, e: (a + b + c + d) * jnp.minimum(jax.nn.one_hot(jnp.argmax(e, -1), 6).mean(0).max(), 0.75),
        "abcde",
        "with the rows of 'e' nearly alike",
    ),
    "rows that are far apart": (
        lambda a, b, c, d, e: a * b * c * d * jnp.maximum(jnp.var(e, 0).sum(), 1e-2),
        lambda a, b, c, d, e: a * b * c * d * jnp.var(e, 0).sum(),
        "abcde",
        "with the inputs 1024 times smaller",
    ),
}
"""What only an argument shows that is not one of the first three."""


@pytest.mark.parametrize(
    "fault", [*UNDECIDED, *(f"root {name}" for name in ROOTS), *(f"late: {name}" for name in LATE)]
)
def test_nothing_is_left_out_at_other_magnitudes(fault: str) -> None:
    root, late = fault.removeprefix("root "), fault.removeprefix("late: ")
    if fault in UNDECIDED:
        reference, variant, names, words = UNDECIDED[fault]
    elif root in ROOTS and root != fault:
        (reference, variant), names, words = ROOTS[root], "x", LARGE
    else:
        reference, variant, names, words = LATE[late]
    result = proof(reference, variant, names, dtype="bfloat16" if "bfloat16" in fault else "float32")
    assert not result.equal and not result.undecided
    assert result.witness is not None and f"{words} (their values are not stated)" in result.witness
    assert proof(reference, variant, names, stated=True).undecided == (fault in UNDECIDED)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("first", "second"), [(90.0, 100.0), (90.0, 90.5), (60.0, 61.0), (41.0, 50.0)])
def test_a_short_dtype_hides_no_threshold(dtype: str, first: float, second: float) -> None:
    def clip(limit: float) -> Side:
        return lambda x: jnp.clip(x, -limit, limit)

    assert LARGE in str(proof(clip(first), clip(second), dtype=dtype).witness)
    assert proof(clip(first), lambda x: jnp.maximum(jnp.minimum(x, first), -first), dtype=dtype).equal


def test_where_nothing_was_found_it_is_assumed() -> None:
    far = proof(lambda x: jax.nn.relu(x) + logs(x), lambda x: jnp.minimum(jax.nn.relu(x), 1e6) + log(x))
    assert far.undecided and far.assumed == "comparisons"
    shifted = proof(lambda x: jnp.sqrt((x + 1e5) ** 2), lambda x: x + 1e5)
    assert shifted.equal and "roots" in shifted.assumed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_threshold_out_of_reach_is_a_fault(fault: str) -> None:
    reference, variant, names, words = FAULTS[fault]
    result = proof(reference, variant, names)
    assert not result.equal and not result.undecided
    assert result.witness is not None
    assert f"in float64, {words} (their values are not stated)" in result.witness


def test_what_a_drawn_array_shows_is_no_note_on_a_given_one() -> None:
    """Both are stretched together; all that are drawn hide it, since one divides the other."""

    def limited(most: float, given: float) -> Side:
        return lambda x, y, h: jnp.minimum(jnp.abs(x) / (1 + jnp.abs(y)), most) + jnp.minimum(h, given)

    arrays = {name: np.random.default_rng(7).standard_normal((4, 6)).astype(np.float32) for name in "xyh"}
    first, second = (jax.make_jaxpr(side)(*arrays.values()) for side in (limited(20, 40), limited(30, 50)))
    inputs = [Input(name, array, magnitudes="given" if name == "h" else "all") for name, array in arrays.items()]
    found = identity(Question(first, second, inputs, ["out"]))["out"]
    assert not found.equal and found.witness is not None and "with 'x' 64 times as large" in found.witness


@pytest.mark.parametrize("fault", FAULTS)
def test_stated_values_are_taken_at_their_word(fault: str) -> None:
    reference, variant, names, _ = FAULTS[fault]
    result = proof(reference, variant, names, stated=True)
    assert result.equal and "comparisons" in result.assumed


def masked(x: Any) -> Any:
    return jax.nn.softmax(jnp.where(jnp.tri(4, 6, dtype=bool), x, -1e30), -1)


def by_parts(x: Any) -> Any:
    shifted = jnp.where(jnp.tri(4, 6, dtype=bool), x, -jnp.inf)
    powers = jnp.exp(shifted - shifted.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax_gradient(softmax: Side) -> Side:
    """Of scores of which the largest, 64 times as large, is between 355 and 709.

    Its exponential is in float64's range, and the reciprocal of the square of it is not.
    """
    weights = np.arange(24.0).reshape(4, 6)
    return jax.grad(lambda x: jnp.sum(weights * softmax(5 * x)))


def without_maximum(x: Any) -> Any:
    powers = jnp.exp(x)
    return powers / powers.sum(-1, keepdims=True)


def with_maximum(x: Any) -> Any:
    return without_maximum(x - x.max(-1, keepdims=True))


def beside_a_sink(x: Any, largest: Any) -> Any:
    """The weight of a small score beside a large one and beside a sink, whose score is 0.

    64 times as large, the scores are 800 and 400: without a maximum that is subtracted, the normaliser is infinite and
    the weight zero; with it, the weight is e^-400.
    """
    scores = jnp.stack([41.85 * x[0, 1], 20.92 * x[0, 1]])
    powers = jnp.exp(scores - largest(scores))
    return (powers / (jnp.exp(-largest(scores)) + powers.sum()))[1:]


LAWS: dict[str, tuple[Side, Side]] = {
    "a product of logarithms": (logs, log),
    "beside a relu": (lambda x: jax.nn.relu(x) + logs(x), lambda x: jnp.where(x > 0, x, 0) + log(x)),
    "double angles": (angles, twice),
    "a logarithm of a softmax": (lambda x: jnp.log(jax.nn.softmax(9 * x)), lambda x: jax.nn.log_softmax(9 * x)),
    "one over a softplus": (lambda x: 1 / jnp.log1p(jnp.exp(x)), lambda x: 1 / jax.nn.softplus(9 * x / 9)),
    "a swish by its logarithm": (lambda x: x * jnp.exp(jax.nn.log_sigmoid(x)), jax.nn.silu),
    "its gradient": (
        jax.grad(lambda x: (x * jnp.exp(jax.nn.log_sigmoid(x))).sum()),
        jax.grad(lambda x: jax.nn.silu(x).sum()),
    ),
    "a choice beside logarithms": (
        lambda x: jnp.sort(x, -1) + logs(x),
        lambda x: -jnp.sort(-x, -1)[..., ::-1] + log(x),
    ),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_honest_laws_are_not_refuted_at_other_magnitudes(law: str, dtype: str) -> None:
    result = proof(*LAWS[law], dtype=dtype)
    assert result.undecided or result.equal, result.witness


HONEST: dict[str, tuple[Side, Side]] = {
    "gradient of a softmax without its maximum": (softmax_gradient(with_maximum), softmax_gradient(without_maximum)),
    "a sink beside an infinity": (
        lambda x: beside_a_sink(x, lambda scores: jnp.maximum(scores.max(), 0)),
        lambda x: beside_a_sink(x, lambda scores: 0.0),
    ),
    "softplus, linear above 20": (
        lambda x: jnp.log1p(jnp.exp(x)),
        lambda x: jnp.where(x > 20, x, jnp.log1p(jnp.exp(jnp.minimum(x, 20.0)))),
    ),
    "sigmoid by cases": (
        lambda x: 1 / (1 + jnp.exp(-x)),
        lambda x: jnp.where(x >= 0, 1 / (1 + jnp.exp(-x)), jnp.exp(x) / (1 + jnp.exp(x))),
    ),
    "masked softmax": (masked, by_parts),
    "a capacity by ranks": (
        lambda x: x * (jnp.cumsum(x[:, :1] > 0, 0) <= 2),
        lambda x: jnp.where(jnp.tril(jnp.ones((4, 4))) @ jnp.where(x[:, :1] > 0, 1.0, 0.0) < 2.5, x, 0),
    ),
    "relu by max": (jax.nn.relu, lambda x: jnp.where(x > 0, x, 0)),
    "absolute value": (jnp.abs, lambda x: jnp.maximum(x, -x)),
}


@pytest.mark.parametrize("rewrite", HONEST)
def test_honest_rewrites_stay_the_same_formulas(rewrite: str) -> None:
    assert proof(*HONEST[rewrite]).equal
