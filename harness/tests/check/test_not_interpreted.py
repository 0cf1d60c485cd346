"""A verdict that rests on execution, because a program could not be interpreted, says which primitive, and where."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jax import lax

from samebits.errors import MissingRule, NotCovered, not_interpreted
from samebits.report.check import note_lines
from samebits.report.failure import point_block
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from tests.support.documents import document
from tests.support.toys import alone, run, toy

ROUNDING = (Contract(lowest="rounding", reason="for the sake of the test"),)


def _read_as_bits(x: Any) -> Any:
    """The same numbers, by way of their bits, which no domain has."""
    bits = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, bits), x.dtype)


LINE = f"test_not_interpreted.py:{_read_as_bits.__code__.co_firstlineno + 3}"


def reference(x: Any, *, factor: float = 2.0) -> Any:
    return _read_as_bits(x) * 3


def wrong(x: Any, *, factor: float = 2.0) -> Any:
    return _read_as_bits(x) * 3.01


def plain(x: Any, *, factor: float = 2.0) -> Any:
    return x * 1.1 + x * 1.9


def result(variant: Callable[..., Any], first: Callable[..., Any] = reference) -> Finding:
    (found,) = run(toy(first, other=variant), alone("other"), contracts=ROUNDING)
    return found


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        (lambda x, *, factor=2.0: _read_as_bits(x) * 1.1 + _read_as_bits(x) * 1.9, "rounding"),
        (lambda x, *, factor=2.0: 3 * _read_as_bits(x), "bitwise"),
        (wrong, "different"),
    ],
)
def test_the_row_names_the_primitive_and_its_line(variant: Callable[..., Any], verdict: str) -> None:
    found = result(variant)
    assert found.ruling.verdict == verdict
    assert found.proof.not_interpreted == f"primitive `bitcast_convert_type` at check/{LINE}"


def test_a_row_that_was_interpreted_has_none() -> None:
    found = result(plain, lambda x, *, factor=2.0: x * 3)
    assert found.ruling.verdict == "rounding" and found.proof.not_interpreted is None


def test_terminal_and_markdown_say_it() -> None:
    found = result(wrong)
    assert f"  executed  not interpreted: primitive `bitcast_convert_type` at check/{LINE}" in point_block([found])
    side = f"{found.place.pair}/other"
    lines = note_lines(document(found, found, result(plain, lambda x, *, factor=2.0: x * 3)))
    assert f"{side}: 2 results not interpreted: primitive `bitcast_convert_type` at check/{LINE}" in lines


def test_other_reasons_are_given_in_words() -> None:
    assert not_interpreted(NotCovered("max compares 1 and 1")) == "max compares 1 and 1"
    assert not_interpreted(MissingRule.of("f(x) has no rule", "f", "")) == "primitive `f`"
