"""An assertion for tests that claim bits; NumPy's exact asserts see neither -0.0, nor the dtype, nor NaN payloads."""

from __future__ import annotations

from typing import Any

from samebits.numerics.bits import Comparison, compare
from samebits.schema.difference import extent


def assert_same_bits(found: Any, expected: Any, *, name: str = "out") -> None:
    """Fail unless two trees of arrays have the same structure, dtypes, shapes, weak types and bits.

    A NaN equals a NaN of the same bits, and 0.0 does not equal -0.0.

    Args:
        found: an array of any shape and dtype, or a tree (dicts, tuples, lists) of them. A Python number is a
            float64 or int64 array, as for `numpy.asarray`; a list is a tree, so write `numpy.array([1, 2], dtype)`.
        expected: what it must be, likewise.
        name: what is compared, for the message; `out` by default.

    Raises:
        AssertionError: they differ. The message has a line for each leaf, with the first differing element of the
            gravest class, both values in decimal and in hex, and how many elements differ in which ways.
        NothingCompared: `expected` has no leaf.
        CouldNotRun: a leaf is not an array of numbers.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    comparisons = compare(reference=expected, optimized=found, name=name)
    if lines := [_line(comparison) for comparison in comparisons if not comparison.equal]:
        raise AssertionError("\n".join(lines))


def _line(comparison: Comparison) -> str:
    if comparison.detail is not None:
        sides = comparison.detail.replace("reference=", "expected ").replace("variant=", "found ")
        return f"{comparison.path}: another {comparison.kind}: {sides}"
    witness = comparison.witness
    assert witness is not None
    return (
        f"{witness.at}: found {witness.optimized} ({witness.optimized_hex}), "
        f"expected {witness.reference} ({witness.reference_hex}); "
        f"{extent(comparison.differences, comparison.elements)}"
    )
