"""Contracts and exemptions for one platform: they count there alone, in every place that judges."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from samebits import Contract, DeclarationError, Exemption
from samebits.check.contract_audit import judge_declaration
from samebits.programs.plan import Request, plan
from samebits.schema.pair import Pair
from tests.support.findings import flat_rows
from tests.support.foreign import AXES, PLANTED, write_pair
from tests.support.forked import run_module
from tests.support.invoke import samebits
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
    assert {result.ruling.required for result in results} == {"proved"}
    results = run(declared(HERE, ELSEWHERE).on("gpu"))
    assert {result.ruling.required for result in of(results, variant="twice")} == {"rounding"}


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


FORWARD = f"{AXES} gradients=False,"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with one planted defect in two pairs: known on the CPU, and known elsewhere."""
    root = tmp_path_factory.mktemp("both")
    write_pair(root, "here", optimized=PLANTED, axes=FORWARD, extra=EXTRA.format(platform="cpu"))
    write_pair(root, "elsewhere", optimized=PLANTED, axes=FORWARD, extra=EXTRA.format(platform="gpu"))
    return root


def judged(document: Path) -> dict[str, set[tuple[bool, str]]]:
    """Of each pair, whether its planted results are exempt, and what is required of them."""
    results = [one for one in flat_rows(json.loads(document.read_text())) if one["variant"] == "fast"]
    pairs = {one["pair"] for one in results}
    return {pair: {(one["exempt"], one["required"]) for one in results if one["pair"] == pair} for pair in pairs}


JUDGED = {"here": {(True, "different")}, "elsewhere": {(False, "bitwise")}}
"""Exempt where the exemption is for this platform; elsewhere the contract for every platform counts."""


@pytest.mark.slow
def test_worker_processes_and_what_is_remembered(both: Path, tmp_path: Path) -> None:
    memory = {"SAMEBITS_CACHE_LIMIT": "500MB", "SAMEBITS_CACHE_DIR": str(tmp_path / "cache")}
    for remembered in (False, True):
        done = run_module("samebits", "check", "--json", str(tmp_path / "all.json"), cwd=both, variables=memory)
        assert done.returncode == 1, done.stderr
        assert judged(tmp_path / "all.json") == JUDGED
        assert ("remembered, from" in done.stdout) == remembered


@pytest.mark.cpu_only
def test_a_check_in_this_process_judges_by_the_platform(both: Path, tmp_path: Path) -> None:
    assert samebits("check", "--root", both, "--json", tmp_path / "all.json").code == 1
    assert judged(tmp_path / "all.json") == JUDGED
    assert samebits("check", "here", "--root", both).code == 0


def test_pytest_judges_by_the_platform(both: Path) -> None:
    done = run_module("pytest", "-q", "suites", "-p", "no:cacheprovider", cwd=both, variables={})
    assert done.returncode == 1, done.stdout
    failed = {line.partition("::")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == {"FAILED suites/test_elsewhere.py"}


@pytest.mark.sampled(1)
@pytest.mark.cpu_only
@pytest.mark.parametrize(("pair", "code"), [("here", 0), ("elsewhere", 1)])
def test_a_bisection_judges_by_the_platform(pair: str, code: int, both: Path, tmp_path: Path) -> None:
    """What is known on this platform leaves nothing to search."""
    words = ("bisect", "mesh", pair, "--variant", "fast", "--case", "small", "--root", both)
    ended = samebits(*words, "--mesh", "data1", "--journal", tmp_path / "journal")
    assert ended.code == code, ended.out + ended.err


@pytest.mark.devices(4)
def test_one_that_a_platforms_own_covers_here_is_no_remark() -> None:
    """Elsewhere it counts. One that counts on no platform is still told."""
    pair = declared(Contract(lowest="bitwise"), Contract(platform="cpu", lowest="proved"))
    assert judge_declaration(pair, plan(pair, Request(full=True), 8), run(pair)).notes == []
    pair = declared(Contract(lowest="bitwise"), Contract(lowest="proved"), HERE)
    (note,) = judge_declaration(pair, plan(pair, Request(full=True), 8), run(pair)).notes
    assert note == "toy: the contract (every result) covers no result; remove it"
