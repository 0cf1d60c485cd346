"""Convolutions and reductions over windows: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret import composite_primitives
from samebits.interpret import composite_primitives as windows_of_arrays
from samebits.interpret.equation import Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain
from tests.interpret.executed import check, compared

Function = Callable[..., Any]

RNG = np.random.default_rng(22)
IMAGE = RNG.normal(size=(2, 4, 4, 2)).astype(np.float32)
KERNEL = RNG.normal(size=(2, 3, 2, 4)).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def conv(strides: tuple[int, int] = (1, 1), padding: Any = "SAME", **more: Any) -> Function:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=LAYOUT, **more)


def pool(computation: Any, start: float, padding: str = "VALID", **more: Any) -> Function:
    return lambda x: lax.reduce_window(x, start, computation, (1, 2, 2, 1), (1, 2, 2, 1), padding, **more)


def loss(function: Function) -> Function:
    return lambda *args: jnp.sum(jnp.sin(function(*args)))


EXECUTED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "a convolution": (conv(), (IMAGE, KERNEL)),
    "strides and negative padding": (conv((2, 1), ((1, -1), (0, 2))), (IMAGE, KERNEL)),
    "dilated": (conv(padding=((0, 0), (1, 0)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)), (IMAGE, KERNEL)),
    "groups": (conv(feature_group_count=2), (IMAGE, KERNEL[:, :, :1])),
    "batch groups": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", batch_group_count=2),
        (IMAGE.transpose(0, 3, 1, 2), KERNEL.transpose(3, 2, 0, 1)),
    ),
    "gradients": (jax.grad(loss(conv((2, 1))), (0, 1)), (IMAGE, KERNEL)),
    "integers": (conv(), (np.arange(64).reshape(2, 4, 4, 2), np.arange(48).reshape(2, 3, 2, 4))),
    "a maximum": (pool(lax.max, -np.inf), (IMAGE,)),
    "a padded minimum": (pool(lax.min, np.inf, "SAME", base_dilation=(1, 2, 1, 1)), (IMAGE,)),
    "a sum": (pool(lax.add, 0.0, window_dilation=(1, 1, 2, 1)), (IMAGE,)),
    "the gradient of a maximum": (jax.grad(loss(pool(lax.max, -np.inf, "SAME"))), (IMAGE,)),
    "the tangent of a maximum": (lambda x: jax.jvp(pool(lax.max, -np.inf), (x,), (x * x,))[1], (IMAGE,)),
}


@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    function, args = EXECUTED[name]
    check(function, *(arg.astype(np.float64) if arg.dtype.kind == "f" else arg for arg in args))


def by_shifts(x: Any, w: Any) -> Any:
    """A convolution without padding as a sum over the places of its kernel."""
    rows, columns = 4 - w.shape[0] + 1, 4 - w.shape[1] + 1
    return sum(x[:, r : r + rows, c : c + columns] @ w[r, c] for r in range(w.shape[0]) for c in range(w.shape[1]))


def in_tiles(reduce: Function) -> Function:
    return lambda x: reduce(x.reshape(2, 2, 2, 2, 2, 2), (2, 4))


EQUAL: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "a convolution, a sum": (conv(padding="VALID"), by_shifts, (IMAGE, KERNEL)),
    "its gradients": (
        jax.grad(loss(conv(padding="VALID")), (0, 1)),
        jax.grad(loss(by_shifts), (0, 1)),
        (IMAGE, KERNEL),
    ),
    "a pointwise convolution": (conv(), lambda x, w: x @ w[0, 0], (IMAGE, KERNEL[:1, :1])),
    "a mean of windows": (lambda x: pool(lax.add, 0.0)(x) / 4, in_tiles(jnp.mean), (IMAGE,)),
    "a maximum of windows": (pool(lax.max, -np.inf), in_tiles(jnp.max), (IMAGE,)),
    "the gradient of a maximum": (
        jax.grad(loss(pool(lax.max, -np.inf))),
        jax.grad(loss(in_tiles(jnp.max))),
        (IMAGE,),
    ),
}

DIFFERENT: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "a flipped kernel": (conv(padding="VALID"), lambda x, w: by_shifts(x, w[::-1]), (IMAGE, KERNEL)),
    "padding on the other side": (conv(padding=((0, 1), (1, 1))), conv(padding=((1, 0), (1, 1))), (IMAGE, KERNEL)),
    "features exchanged": (conv(), lambda x, w: conv()(x, w[:, :, ::-1]), (IMAGE, KERNEL)),
    "the padding counts": (
        lambda x: pool(lax.add, 0.0, "SAME")(x[:, :3]) / 4,
        lambda x: pool(lax.add, 0.0, "SAME")(x[:, :3]) / np.array([4.0, 2.0], np.float32)[:, None, None],
        (IMAGE,),
    ),
    "windows one further": (pool(lax.max, -np.inf), lambda x: pool(lax.max, -np.inf)(jnp.roll(x, 1, 1)), (IMAGE,)),
    "a minimum": (pool(lax.max, -np.inf), in_tiles(jnp.min), (IMAGE,)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    first, second, args = EQUAL[name]
    assert compared(first, second, *args) == "equal"


@pytest.mark.parametrize("name", DIFFERENT)
def test_their_unequal_twins_are_different(name: str) -> None:
    first, second, args = DIFFERENT[name]
    assert compared(first, second, *args) == "different"


def test_labels_take_no_convolution_for_a_matrix_product() -> None:
    """It may be computed by a transform, which does not preserve the elements that a one-hot product does."""
    labels, one = LabelDomain(), np.eye(2, dtype=np.float32)[None, None]
    program = jax.make_jaxpr(lambda x: conv()(x, one))(IMAGE)
    with pytest.raises(NotCovered, match="conv_general_dilated"):
        Interpreter(labels)(program, labels.input("x", Type(IMAGE.shape, IMAGE.dtype)))


@pytest.mark.parametrize("key", ["padding", "window_strides"])
def test_a_convolution_that_reads_its_parameters_wrong_is_caught(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = windows_of_arrays.convolution

    def wrong(interpreter: Any, step: Any, values: Any) -> Any:
        params = {**step.params, key: tuple(reversed(step.params[key]))}
        return right(interpreter, step.like(step.name, step.inputs, step.outputs, **params), values)

    monkeypatch.setitem(composite_primitives.AS_FORMULAS, "conv_general_dilated", wrong)
    function = conv((2, 1), ((1, 0), (0, 1)))
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check(function, IMAGE.astype(np.float64), KERNEL[:, :2].astype(np.float64))
