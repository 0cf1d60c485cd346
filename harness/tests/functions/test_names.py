"""Two functions are told apart in reports, whatever they are."""

import functools
import os.path
from collections.abc import Callable
from typing import Any

import jax
import pytest

from samebits.functions.as_pair import shown_name, side_names
from tests.functions import specimens as f


def scaled(x: Any, by: Any = 2) -> Any:
    return x * by


def other(x: Any) -> Any:
    return x + x


class Layer:
    def __call__(self, x: Any) -> Any:
        return x


LAMBDA = lambda x: 2 * x  # noqa: E731
ANOTHER = lambda x: x + x  # noqa: E731


@pytest.mark.parametrize(
    ("functions", "names"),
    [
        ((scaled, other), ("scaled", "other")),
        ((jax.nn.gelu, functools.partial(scaled, by=0)), ("gelu", "partial_scaled")),
        ((f.softmax, jax.nn.softmax), ("tests_softmax", "jax_softmax")),
        ((LAMBDA, other), ("reference", "other")),
        ((scaled, LAMBDA), ("scaled", "variant")),
        ((LAMBDA, ANOTHER), ("reference", "variant")),
        ((scaled, functools.partial(scaled, by=3)), ("scaled", "partial_scaled")),
        ((functools.partial(functools.partial(scaled), by=3), other), ("partial_scaled", "other")),
        ((functools.partial(LAMBDA), other), ("partial", "other")),
        (
            (functools.partial(scaled, by=2), functools.partial(scaled, by=3)),
            ("partial_scaled_reference", "partial_scaled_variant"),
        ),
        ((jax.jit(scaled), other), ("scaled", "other")),
        ((scaled, jax.jit(scaled)), ("scaled_reference", "scaled_variant")),
        ((Layer(), other), ("layer", "other")),
        ((Layer(), Layer()), ("layer_reference", "layer_variant")),
        ((os.path.join, str.join), ("posixpath_join", "join")),
    ],
)
def test_functions_are_told_apart(functions: tuple[Callable[..., Any], ...], names: tuple[str, str]) -> None:
    assert side_names(functions[0], functions[1]) == names


def test_a_command_has_names_for_them() -> None:
    assert side_names(LAMBDA, ANOTHER, ("m:fast", "m.py:Layer.slow")) == ("fast", "slow")
    assert side_names(scaled, functools.partial(scaled), ("m:scaled", "m:thrice")) == ("scaled", "thrice")
    assert side_names(scaled, scaled, ("m:scaled", "m:scaled")) == ("scaled_reference", "scaled_variant")


def test_a_lambda_in_a_message_has_its_place() -> None:
    assert shown_name(LAMBDA, "second") == "the second function, a lambda,"
    assert shown_name(functools.partial(scaled), "first") == "'scaled'"
