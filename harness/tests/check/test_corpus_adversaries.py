"""Unequal functions are refuted, undecided, accepted under a printed assumption, or listed as not detected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.host import environment
from samebits.schema.meshes import MeshSpec
from tests.check.corpus import adversary_inputs, adversary_programs, adversary_state, adversary_values
from tests.check.corpus.adversary import Adversary, same
from tests.check.corpus.adversary_judged import Command, found, said
from tests.check.corpus.known import ON_GPU, UNSEEN

environment.prepare()

ALL = (*adversary_inputs.ALL, *adversary_values.ALL, *adversary_programs.ALL, *adversary_state.ALL)
EVERY = [
    pytest.param(one, id=one.name, marks=pytest.mark.devices(max(MeshSpec.parse(mesh).devices for mesh in one.meshes)))
    for one in ALL
]
CAUGHT = {"refuted", "undecided", "assumed"}


def held(adversary: Adversary, command: Command, results: list[Any]) -> None:
    """Fail where a difference is accepted without a word, and where a known silence has ended."""
    outcome, where = said(results), f"{adversary.name} {command}"
    assert results, where
    if where in UNSEEN:
        assert outcome == "unseen", f"{where} is {outcome} now; remove it from known.py"
    else:
        assert outcome in CAUGHT, (where, [(one.place.leaf, one.ruling.verdict, one.ruling.reason) for one in results])
    if where in ON_GPU and environment.devices_here()[0].platform == "gpu":
        assert outcome == ON_GPU[where], f"{where} is {outcome} on a GPU now; remove it from known.py"
    elif getattr(adversary, command) == "refuted":
        assert outcome in ("refuted", "undecided"), (where, outcome)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("adversary", EVERY[::4])
def test_no_proof_accepts_an_adversary_in_silence(adversary: Adversary) -> None:
    held(adversary, "prove", found(adversary, "prove"))


@pytest.mark.slow
@pytest.mark.parametrize("adversary", EVERY)
@pytest.mark.parametrize("command", ["check", "prove"])
def test_no_command_accepts_an_adversary_in_silence(adversary: Adversary, command: Command) -> None:
    held(adversary, command, found(adversary, command))


def test_an_acceptance_in_silence_fails() -> None:
    """The judging itself can fail: a pair of equal functions is accepted, without an assumption."""
    equal = Adversary(name="equal", reference=same, other=lambda x: same(x), args=adversary_programs.X)
    with pytest.raises(AssertionError, match="equal prove"):
        held(equal, "prove", found(equal, "prove"))


def test_what_is_known_of_a_gpu_fails_once_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = (where.partition(" ")[0] for where in ON_GPU)
    (adversary,) = (one for one in ALL if one.name == name)
    monkeypatch.setattr(environment, "devices_here", lambda: [SimpleNamespace(platform="gpu")])
    outcomes = iter(("assumed", "refuted"))
    monkeypatch.setitem(globals(), "said", lambda results: next(outcomes))
    held(adversary, "check", ["a result"])
    with pytest.raises(AssertionError, match=r"is refuted on a GPU now; remove it from known\.py"):
        held(adversary, "check", ["a result"])
