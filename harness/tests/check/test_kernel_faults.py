"""Points of which a kernel uses its memory wrongly: red at every door, with the kernel's parameter and line."""

from collections.abc import Callable
from typing import Any

import jax
import pytest

import samebits
from samebits.check.point_proofs import at_fault
from tests.interpret.test_kernel_memory import BOTH, ROWS, Array, X, half_of_the_rows, rows_prefetched, scaled_in_place


def doubled(x: Array) -> Array:
    return 2 * x


def test_a_fault_fails_an_assertion_by_name_and_line() -> None:
    with pytest.raises(AssertionError, match=r"different.*\n.*\n.*\n?.*writes into its argument 'x_ref' \(interpret/"):
        samebits.assert_same(doubled, scaled_in_place(True), X, gradients=False)


@pytest.mark.parametrize("run", [samebits.prove, samebits.check])
def test_a_fault_of_the_variant_is_different(run: Callable[..., Any]) -> None:
    shown = run(doubled, scaled_in_place(True), X, gradients=False)
    assert (shown.ok, shown.verdict) == (False, "different"), shown
    assert "undefined: the kernel writes into its argument 'x_ref' (interpret/test_kernel_memory.py:" in str(shown)


@pytest.mark.parametrize("run", [samebits.prove, samebits.check])
def test_a_fault_of_the_reference_is_an_error(run: Callable[..., Any]) -> None:
    wrong = scaled_in_place(True)
    for variant in (doubled, lambda x: wrong(x)):
        shown = run(wrong, variant, X, gradients=False)
        assert (shown.ok, shown.verdict) == (False, "error"), shown
        assert "a kernel of the reference: the kernel writes into its argument 'x_ref' (interpret/" in str(shown)


def test_a_fault_of_a_gradient_is_different() -> None:
    @jax.custom_vjp
    def rule(x: Array) -> Array:
        return 2 * x

    rule.defvjp(lambda x: (2 * x, None), lambda _, g: (half_of_the_rows(True)(2 * g),))
    shown = samebits.prove(doubled, rule, X)
    assert {leaf.place.direction: leaf.ruling.verdict for leaf in shown.leaves} == {
        "forward": "proved",
        "gradient": "different",
    }


def test_given_scalars_decide_at_what_is_given() -> None:
    call = rows_prefetched(True).func  # type: ignore[attr-defined]

    def plain(rows: Array, x: Array) -> Array:
        return x.reshape(4, 4, 16)[rows].reshape(16, 16)

    def kernel(rows: Array, x: Array) -> Array:
        return call(rows, x)

    assert samebits.prove(plain, kernel, ROWS, X, gradients=False).verdict == "proved"
    shown = samebits.prove(plain, kernel, BOTH, X, gradients=False)
    assert shown.verdict == "different"
    assert "the block of 'x_ref' at step (3,) begins at [16, 0]" in str(shown)


def test_what_a_faulty_kernel_reads_is_undecided() -> None:
    shown = samebits.batch_rows(scaled_in_place(True), X, gradient=False)
    assert shown.verdict == "undecided"
    assert "writes into its argument 'x_ref' (interpret/test_kernel_memory.py:" in repr(shown)


def test_honest_sides_are_not_at_fault() -> None:
    honest, wrong = (jax.make_jaxpr(scaled_in_place(fault))(X) for fault in (False, True))
    assert at_fault(honest, honest, dict, executed=False) is None
    variant, reference = at_fault(honest, wrong, dict, executed=False), at_fault(wrong, honest, dict, executed=False)
    assert variant is not None
    assert reference is not None
    assert variant.undefined is not None
    assert reference.nothing is not None
