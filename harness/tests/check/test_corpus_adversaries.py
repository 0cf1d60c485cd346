"""Unequal functions are refuted, undecided, accepted under a printed assumption, or listed as not detected."""

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.host import environment
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from tests.check.corpus import adversary_inputs, adversary_programs, adversary_state, adversary_values
from tests.check.corpus.adversary import Adversary, Command, same
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
    elif command in adversary.refuted:
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


# --- the verdicts of the commands on an adversary, in the terms of its data ------------------------------------------


def found(adversary: Adversary, command: Command) -> list[Finding]:
    """The results of a command, leaf by leaf."""
    pair, request = adversary.pair, Request(variants=("other",), full=True)
    asked = plan(pair, request, devices=4)
    if command == "prove":
        return list(prove_points(pair, Locator(name=pair.name), asked))
    programs = Programs(threads=1)
    try:
        return list(run_points(pair, Locator(name=pair.name), asked.points, programs))
    finally:
        programs.close()


def said(results: list[Finding]) -> str:
    """`refuted`, `undecided`, or accepted: `assumed` where a printed assumption can be false, else `unseen`."""
    if any(one.ruling.verdict in ("different", "unstable") for one in results):
        return "refuted"
    if not all(one.ruling.ok for one in results):
        return "undecided"
    return "assumed" if any(_assumes(one) for one in results) else "unseen"


def _assumes(one: Finding) -> bool:
    stated = any(not each.inherent for each in one.proof.assumptions)
    domain = one.ruling.domain if one.tool == "check" else one.proof.domain
    return stated or bool(domain) or "would be proved for" in (one.ruling.evidence or "")
