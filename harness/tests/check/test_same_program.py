"""The second proof of `check`: on a mesh of one device both sides may compile to the same program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits import Contract
from samebits.check.judge import SAME_PROGRAM
from samebits.check.point_proofs import at_fault
from samebits.errors import CouldNotRun
from samebits.hlo import canonical, module
from samebits.hlo.module import HloModule
from samebits.schema.finding import Finding
from tests.interpret.test_kernel_memory import BOTH, ROWS, Array, X, half_of_the_rows, rows_prefetched, scaled_in_place
from tests.support.toys import alone, of, run, toy


def wave(x: Any, *, factor: float = 2.0) -> Any:
    """Two operations, so that no movement of data proves it."""
    return jnp.sin(x) * factor


def renamed(x: Any, *, factor: float = 2.0) -> Any:
    """The reference under other names."""
    height = jax.lax.sin(x)
    return height * factor


def added(x: Any, *, factor: float = 2.0) -> Any:
    """The same bits for a factor of 4, from another program."""
    height = jnp.sin(x)
    return (height + height) * (factor / 2)


def verdicts(results: list[Finding], **where: str) -> dict[str, str]:
    return {one.place.direction: one.ruling.verdict for one in of(results, **where)}


def test_one_program_is_proved() -> None:
    results = run(toy(wave, renamed=renamed), meshes=("data1",))
    assert verdicts(results, variant="renamed") == {"forward": "proved", "gradient": "proved"}
    assert {one.ruling.evidence for one in of(results, variant="renamed")} == {SAME_PROGRAM}
    assert all(one.ruling.ok for one in results)


def test_equal_bits_from_another_program_are_not() -> None:
    assert [one.ruling.verdict for one in run(toy(wave, added=added), alone("added"), meshes=("data1",))] == ["bitwise"]


def test_a_mesh_of_several_devices_holds_other_shapes() -> None:
    assert [one.ruling.verdict for one in run(toy(wave, renamed=renamed), alone("renamed"))] == ["bitwise"]


def test_a_digest_that_cannot_differ_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "ordered_identity", lambda module, **_: "0")
    with pytest.raises(AssertionError):
        test_equal_bits_from_another_program_are_not()


def test_a_compiled_program_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def counted(serialised: bytes) -> HloModule:
        read.append(serialised)
        return HloModule(serialised)

    monkeypatch.setattr(module, "HloModule", counted)
    run(toy(wave, renamed=renamed, added=added), meshes=("data1",))
    assert read and len(read) == len(set(read)), "by the points of both variants, in both directions"


@pytest.mark.parametrize("error", [CouldNotRun("not understood"), RuntimeError("UNIMPLEMENTED")], ids=repr)
def test_a_program_that_cannot_be_read_proves_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(serialised: bytes) -> Any:
        raise error

    monkeypatch.setattr(module, "HloModule", unreadable)
    results = run(toy(wave, renamed=renamed), meshes=("data1",))
    assert verdicts(results, variant="renamed") == {"forward": "bitwise", "gradient": "bitwise"}


def test_it_reaches_a_contract_of_proved() -> None:
    """What is proved for this backend suffices for it; that it may not on another is not a reason to tighten."""
    results = run(toy(wave, renamed=renamed), meshes=("data1",), contracts=(Contract(lowest="proved"),))
    assert all(one.ruling.ok for one in of(results, variant="renamed"))
    (result,) = run(toy(wave, added=added), alone("added"), meshes=("data1",), contracts=(Contract(lowest="proved"),))
    assert not result.ruling.ok


# Points of which a kernel uses its memory wrongly: red at every door, with the kernel's parameter and line.
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
