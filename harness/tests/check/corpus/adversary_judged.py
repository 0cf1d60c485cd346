"""The verdicts of the commands on an adversary, in the terms of its data."""

from __future__ import annotations

from typing import Any, Literal

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from tests.check.corpus.adversary import Adversary

Command = Literal["check", "prove"]


def found(adversary: Adversary, command: Command) -> list[Any]:
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


def said(results: list[Any]) -> str:
    """`refuted`, `undecided`, or accepted: `assumed` where a printed assumption can be false, else `unseen`."""
    if any(one.verdict in ("different", "unstable") for one in results):
        return "refuted"
    if not all(one.ok for one in results):
        return "undecided"
    return "assumed" if any(_assumes(one) for one in results) else "unseen"


def _assumes(one: Any) -> bool:
    stated = any(not each.inherent for each in one.assumptions)
    return stated or bool(getattr(one, "domain", None)) or "would be proved for" in (getattr(one, "evidence", "") or "")
