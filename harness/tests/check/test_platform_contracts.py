"""Contracts and exemptions for one platform: they count there alone, in every place that judges."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from samebits import Contract, DeclarationError, Exemption
from samebits.check.contract_audit import judge_declaration
from samebits.programs.plan import Request, plan
from samebits.schema.pair import Pair
from tests.support.child import run_python
from tests.support.foreign import AXES, PLANTED, write_pair
from tests.support.toys import of, run, toy

HERE = Contract(platform="cpu", lowest="proved")
ELSEWHERE = Contract(platform="gpu", lowest="rounding", reason="of a GPU: 3 of 128 elements")


def declared(*contracts: Contract, exemptions: tuple[Exemption, ...] = ()) -> Pair:
    return dataclasses.replace(toy(), contracts=contracts, exemptions=exemptions)


def test_each_platform_has_its_own() -> None:
    pair = declared(HERE, ELSEWHERE)
    assert (pair.on("cpu").contracts, pair.on("gpu").contracts, pair.on("tpu").contracts) == ((HERE,), (ELSEWHERE,), ())
    both = declared(dataclasses.replace(HERE, platform="[ct]pu"))
    assert both.on("cpu") is both.on("tpu") is both and both.on("gpu").contracts == ()


def test_what_is_for_every_platform_stays_the_declaration() -> None:
    """The same object: results are remembered only of what a file declares."""
    pair = declared(Contract(), exemptions=(Exemption(reason="of all"),))
    assert pair.on("gpu") is pair


@pytest.mark.devices(4)
def test_the_last_one_of_the_platform_counts() -> None:
    results = run(declared(HERE, ELSEWHERE).on("cpu"))
    assert {result.required for result in results} == {"proved"}
    results = run(declared(HERE, ELSEWHERE).on("gpu"))
    assert {result.required for result in of(results, variant="twice")} == {"rounding"}


def test_one_of_another_platform_is_no_remark_here() -> None:
    """Nothing is said of a contract that covers no result here, or of an exemption that matches none."""
    pair = declared(Contract(lowest="proved"), ELSEWHERE, exemptions=(Exemption(platform="tpu", reason="there"),))
    here = pair.on("cpu")
    audit = judge_declaration(here, plan(here, Request(full=True), 8), run(here))
    assert (audit.notes, audit.problems) == ([], [])


@pytest.mark.parametrize("scope", [Contract(platform="cuda"), Exemption(platform="cuda", reason="it is gpu")])
def test_an_unknown_platform_is_one_line(scope: Any) -> None:
    with pytest.raises(DeclarationError, match="platform=cuda matches nothing; expected some of cpu, gpu, tpu"):
        declared(
            *[scope] if isinstance(scope, Contract) else [], exemptions=() if isinstance(scope, Contract) else (scope,)
        )


EXTRA = """contracts=(
        Contract(lowest="bitwise"),
        Contract(platform="{platform}", lowest="rounding", reason="of one platform"),
    ),
    exemptions=(Exemption(platform="{platform}", variant="fast", kind="other", reason="known there"),),"""


@pytest.mark.parametrize("command", ["check", "check --in-process", "pytest"])
@pytest.mark.parametrize(("platform", "holds"), [("cpu", True), ("gpu", False)])
def test_every_command_judges_by_the_platform(platform: str, holds: bool, command: str, tmp_path: Path) -> None:
    """A planted defect is known where the exemption is for this platform, and fails elsewhere."""
    write_pair(tmp_path, "known", optimized=PLANTED, axes=AXES, extra=EXTRA.format(platform=platform))
    document = tmp_path / "all.json"
    words = (
        ("pytest", "-q", "suites") if command == "pytest" else ("samebits", *command.split(), "--json", str(document))
    )
    done = run_python("-m", *words, cwd=tmp_path)
    assert (done.returncode == 0) == holds, done.stdout + done.stderr
    if command != "pytest":
        results = of_variant(json.loads(document.read_text()))
        assert {result["exempt"] for result in results} == {holds}
        assert {result["required"] for result in results} == ({"different"} if holds else {"bitwise"})


def of_variant(document: Any) -> list[Any]:
    return [result for result in document["results"] if result["variant"] == "fast"]


def test_what_is_judged_by_the_platform_is_remembered(tmp_path: Path) -> None:
    write_pair(tmp_path / "tree", "known", optimized=PLANTED, axes=AXES, extra=EXTRA.format(platform="cpu"))
    memory = {"SAMEBITS_CACHE_LIMIT": "500MB", "SAMEBITS_CACHE_DIR": str(tmp_path / "cache")}
    words = ("-m", "samebits", "check")
    done = [run_python(*words, cwd=tmp_path / "tree", **memory) for _ in range(2)]
    assert [one.returncode for one in done] == [0, 0], done[1].stderr
    assert ["remembered, from" in one.stdout for one in done] == [False, True]


@pytest.mark.devices(4)
def test_one_that_a_platforms_own_covers_here_is_no_remark() -> None:
    """Elsewhere it counts. One that counts on no platform is still told."""
    pair = declared(Contract(lowest="bitwise"), Contract(platform="cpu", lowest="proved"))
    assert judge_declaration(pair, plan(pair, Request(full=True), 8), run(pair)).notes == []
    pair = declared(Contract(lowest="bitwise"), Contract(lowest="proved"), HERE)
    (note,) = judge_declaration(pair, plan(pair, Request(full=True), 8), run(pair)).notes
    assert note == "toy: the contract (every result) covers no result; remove it"
