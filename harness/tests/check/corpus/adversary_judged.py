"""The verdicts of the commands on an adversary, in the terms of its data."""

from __future__ import annotations

from typing import Literal

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from tests.check.corpus.adversary import Adversary

Command = Literal["check", "prove"]


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
