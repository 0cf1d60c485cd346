"""Maxima of numbers that float64 cannot tell apart: functions of their set; near ties where an index is asked for."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Step, Type
from samebits.interpret.field import arithmetic, residues
from samebits.interpret.field.comparisons import best_of
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from tests.interpret.executed import asked

Function = Callable[..., Any]


def said(first: Function, second: Function, *args: Any) -> list[FieldIdentity]:
    return list(identity(asked(first, second, *args)).values())


def pair_of(difference: float) -> Any:
    return np.array([1.0, 3.0]), np.array([1.0 + difference, 2.0])


BEST: dict[str, tuple[Function, Function, Function]] = {
    "max": (jnp.maximum, lambda x, y: jnp.maximum(y, x), lambda x, y: jnp.maximum(x, 2 * y - x)),
    "reduce_min": (
        lambda x, y: jnp.stack([x, y, x + 1]).min(0),
        lambda x, y: jnp.stack([y, x + 1, x, y]).min(0),
        lambda x, y: jnp.stack([x, y - 1, x + 1]).min(0),
    ),
    "relu": (
        lambda x, y: jax.nn.relu(x - y),
        lambda x, y: jnp.maximum(0, -y + x),
        lambda x, y: jax.nn.relu(y - x),
    ),
    "a mask": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y, x + 5]) - np.array([1e9, 1e9, 0])[:, None], 0),
        lambda x, y: jnp.stack([0 * x, 0 * y, x / x]),
        lambda x, y: jnp.stack([0 * x, y / y, x * 0]),
    ),
    "a masked row": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]) - 1e9, 0),
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]), 0),
        lambda x, y: jax.nn.softmax(jnp.stack([x, 2 * y]), 0),
    ),
    "a softmax": (
        lambda x, y: jax.nn.softmax(jnp.stack([x, y]), 0),
        lambda x, y: jnp.exp(jnp.stack([x, y])) / (jnp.exp(x) + jnp.exp(y)),
        lambda x, y: jnp.exp(jnp.stack([x, y])) / (1 + jnp.exp(x)),
    ),
}


@pytest.mark.parametrize("difference", [0.0, 1e-13, 0.25])
@pytest.mark.parametrize("name", BEST)
def test_the_best_of_near_ties_is_a_function_of_their_set(name: str, difference: float) -> None:
    first, second, twin = BEST[name]
    with jax.enable_x64(True):
        assert said(first, second, *pair_of(difference))[0].equal
        assert not said(first, twin, *pair_of(difference))[0].equal


def test_which_of_near_ties_is_chosen_is_not_told() -> None:
    """The derivative of a maximum goes to the larger element, and an index names it."""
    function = jax.grad(lambda x, y: jnp.max(jnp.stack([x, y])))
    with jax.enable_x64(True), pytest.raises(NearTie):
        said(function, function, np.array(1.0), np.array(1.0 + 1e-13))


def test_near_ties_below_what_is_chosen_do_not_count() -> None:
    x = np.array([1.0, 1 + 1e-13, 2.0, 3.0])
    with jax.enable_x64(True):
        for function in (lambda x: x[jnp.argmax(x)], lambda x: lax.top_k(x, 2)[0], lambda x: -x[jnp.argmin(-x)]):
            assert said(function, function, x)[0].equal
        with pytest.raises(NearTie):
            said(lambda x: lax.top_k(x, 3)[0], lambda x: lax.top_k(x, 3)[0], x)
        with pytest.raises(NearTie):
            said(lambda x: x[jnp.argmin(x)], lambda x: x[jnp.argmin(x)], x)


def test_bfloat16_numbers_that_are_equal_do_not_end_a_proof() -> None:
    x = np.array([[1.5, 1.5, 0.25], [2.0, -1.0, 2.0]], jnp.bfloat16)
    wide = x.astype(np.float32)
    assert said(lambda x: jax.nn.softmax(x, -1), lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), wide)[
        0
    ].equal
    assert said(lambda x: jnp.max(x, -1), lambda x: jnp.max(x[:, ::-1], -1), wide)[0].equal
    assert not said(lambda x: jnp.max(x, -1), lambda x: jnp.max(x[:, :2], -1), wide)[0].equal


def test_a_nan_is_the_largest_of_its_row_alone() -> None:
    domain, kind = Field(), Type((2, 2), np.dtype(np.float32))
    step = Step("reduce_max", {"axes": (1,)}, (kind,), (Type((2,), kind.dtype),))
    rows = domain.input("x", np.array([[np.nan, 1.0], [3.0, 2.0]]), kind)
    assert np.array_equal(best_of(domain, step, rows, 1).shadow, [np.nan, 3.0], equal_nan=True)
    x = np.array([[0.5, np.nan], [1.0, 2.0]], np.float32)
    for of in (lambda x: jnp.max(x, 0), lambda x: jnp.maximum(x[0], x[1]), lambda x: jnp.minimum(x[1], x[0])):
        with pytest.raises(NotCovered, match="NaN"):
            said(of, of, x)
        first = lambda x, of=of: of(x)[:1]  # noqa: E731
        assert said(first, first, x)[0].equal


MASK = -0.7 * float(np.finfo(np.float32).max)
VALUES = [np.random.default_rng(4).standard_normal(shape) for shape in ((3, 5), (6, 5), (6, 2))]


def online(first: int = 4, mask: float = MASK, added: bool = True, of: str = "all", is_zero: Any = None) -> Function:
    """Softmax attention in three blocks of two keys, of which all before the first one are masked.

    Args:
        added: whether the mask is added to the scores, or stands in their place.
        of: of which scores the maximum is, or which maximum is forgotten.
        is_zero: of the sum of a block's exponentials, whether nothing is divided by.
    """

    def call(x: Any, keys: Any, values: Any) -> Any:
        best, total, out = jnp.full(3, -jnp.inf), jnp.zeros(3), jnp.zeros((3, 2))
        for start in (0, 2, 4):
            plain, hidden = x @ keys[start : start + 2].T, np.arange(start, start + 2) < first
            scores = plain + np.where(hidden, mask, 0) if added else jnp.where(hidden, mask, plain)
            now = (plain if of == "what is not masked yet" else scores[:, : 1 if of == "one key" else 2]).max(1)
            new = jnp.maximum(best, now)
            parts, old = jnp.exp(scores - new[:, None]), jnp.exp(best - (now if of == "this block" else new))
            before, total, best = old * total, old * total + parts.sum(1), new
            inverse = jnp.where(total == 0 if is_zero is None else is_zero(total), 1, 1 / total)
            out = (out * before[:, None] + parts @ values[start : start + 2]) * inverse[:, None]
        return out

    return call


def plain(x: Any, keys: Any, values: Any) -> Any:
    return jax.nn.softmax(x @ keys[4:].T, -1) @ values[4:]


HONEST = {
    "a mask that is added": online(),
    "a mask of -1e30": online(mask=-1e30),
    "a mask in place of scores": online(added=False),
    "a maximum of scores without a mask": online(of="what is not masked yet"),
    "a maximum of one key of each block": online(of="one key"),
    "a sum that must be positive": online(is_zero=lambda total: ~(total > 0)),
}
WRONG = {
    "a mask that ends a block early": online(first=2),
    "a mask that ends a key late": online(first=5),
    "a mask of the other sign": online(mask=-MASK),
    "a mask that is too small": online(mask=-10.0),
    "a maximum of the wrong block": online(of="this block", first=0),
}


@pytest.mark.parametrize("name", HONEST)
def test_a_sum_of_exponentials_is_not_zero(name: str) -> None:
    with jax.enable_x64(True):
        assert said(plain, HONEST[name], *VALUES)[0].equal


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_mask_or_maximum_is_no_softmax(name: str) -> None:
    right = online(first=0) if "block" in name and "maximum" in name else plain
    with jax.enable_x64(True):
        assert not said(right, WRONG[name], *VALUES)[0].equal


def test_only_the_sign_of_a_sum_of_exponentials_is_known() -> None:
    """Not that of its negative, of a difference, or which of two such sums is larger: 128 is noise, and so is 1."""
    for is_zero in (
        lambda total: -total == 0,
        lambda total: total + -1 == 0,
        lambda total: (total - 2).sum() == 0,
        lambda total: total[::-1] > total,
        lambda total: total > 1,
        lambda total: total * jnp.array([1.0, -1.0, 0.0]) > 0,
    ):
        with jax.enable_x64(True), pytest.raises(NearTie):
            said(plain, online(is_zero=is_zero), *VALUES)


def test_a_negative_term_that_counts_as_none_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "_not_negative", lambda field, element: np.ones(element.shape, bool))
    with jax.enable_x64(True):  # so that the test above can fail
        assert said(plain, online(is_zero=lambda total: total + -1 == 0), *VALUES)[0].equal


def test_a_set_that_forgets_an_element_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = residues.digest

    def blind(name: str, keys: Any, *rest: Any) -> Any:
        return np.zeros_like(keys[0]) if name == "one of a set" else right(name, keys, *rest)

    monkeypatch.setattr("samebits.interpret.field.residues.digest", blind)
    x = np.array([1.5, 1.5, 1.5], np.float32)
    assert said(lambda x: jnp.max(x), lambda x: jnp.max(x[:2]), x)[0].equal  # so that the test above can fail
