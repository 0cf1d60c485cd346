"""The second proof of `check`: on a mesh of one device both sides may compile to the same program."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits import Contract
from samebits.check.judge import SAME_PROGRAM
from samebits.errors import CouldNotRun
from samebits.hlo import canonical, module
from samebits.hlo.module import HloModule
from samebits.schema.finding import Finding
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
