"""The pairs over real libraries: those whose packages the environment of the project has hold, and their faults do not.

The others run in a nightly job (`make libraries`), in an environment of their own.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.faults.fault import Fault, FaultRow, all_faults
from samebits.audit.faults.plant import check
from samebits.check.run_points import run_points
from samebits.host.loading import load_file
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.report.failure import point_block
from samebits.report.faults import FaultTable
from samebits.schema.contract import COMPUTES
from samebits.schema.pair import Pair
from tests.support import documents
from tests.support.child import ROOT

TREE = ROOT / "examples" / "libraries"
PAGE = ROOT / "docs" / "findings" / "libraries.md"
PAIRS: dict[str, tuple[str, ...]] = load_file(TREE / "installed.py").missing_packages()
INSTALLED = [name for name, missing in PAIRS.items() if not missing]
FAULTS = all_faults(TREE)


def _params() -> list[Any]:
    """The faults that can be planted here; of each library one in the normal run, the others in slow tests."""
    quick: Counter[str] = Counter()
    params = []
    for fault in FAULTS:
        if fault.pair in INSTALLED:
            library = fault.pair.partition("_")[0]
            quick[library] += 1
            marks = (pytest.mark.slow,) if quick[library] > 1 else ()
            params.append(pytest.param(fault, id=f"{fault.pair}: {fault.name}".replace(" ", "_"), marks=marks))
    return params


def holds(name: str, request: Callable[[Pair], Request]) -> None:
    """Every side of a pair satisfies its contract at these points."""
    locator = Locator(name=name, root=str(TREE))
    pair = load(locator)
    programs = Programs()
    try:
        results = list(run_points(pair, locator, plan(pair, request(pair), devices=8).points, programs))
    finally:
        programs.close()
    assert {result.place.variant for result in results} == set(pair.sides)
    failed = [line for result in results if result.failed for line in point_block([result])]
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.cpu_only
@pytest.mark.parametrize("name", INSTALLED)
def test_pair_holds(name: str) -> None:
    """Its first case in its first dtype; the slow tests run the others."""
    holds(name, lambda pair: Request(cases=(pair.cases[0].id,), dtypes=(pair.dtypes[0],)))


@pytest.mark.slow
@pytest.mark.cpu_only
@pytest.mark.parametrize("name", INSTALLED)
def test_pair_holds_at_every_point(name: str) -> None:
    holds(name, lambda pair: Request())


@pytest.mark.sampled(1)
@pytest.mark.cpu_only
@pytest.mark.parametrize("fault", _params())
def test_fault_is_different(fault: Fault) -> None:
    found = check(fault, TREE)
    assert found.honest and found.caught, f"{found.said} ({found.failed} of {found.results} results failed)"


def test_every_pair_has_a_planted_fault() -> None:
    assert {fault.pair for fault in FAULTS} == set(PAIRS)
    assert {fault.verdict for fault in FAULTS} == {"different"}


def test_the_project_has_what_a_third_of_the_pairs_need() -> None:
    """An empty list would test nothing."""
    here = [name for name in PAIRS if name.partition("_")[0] in ("jax", "flax", "optax", "pallas")]
    assert len(PAIRS) >= 60 and len(here) >= 30 and set(here) <= set(INSTALLED)


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("import jax\nimport a_missing_library.nn\nfrom another_one import f\n")
    (tmp_path / "test_two.py").write_text("from jax import lax\n")
    missing = load_file(TREE / "installed.py").missing_packages(tmp_path)
    assert missing == {"one": ("a_missing_library", "another_one"), "two": ()}


def test_the_page_says_what_was_found() -> None:
    """Of a result that rounds, one that loses accuracy, and a known difference."""
    known = documents.different(
        pair="flax_pool", variant="reshaped", dtype="float32", exempt=True, ok=True, reason="padding is counted"
    )
    rounding = {"verdict": "rounding", "required": "rounding", "pair": "flax_pool", "variant": "linen", "max_ulp": 3}
    usual = documents.result(**rounding, error_ratio=1.25, reason=COMPUTES.reason, log2_error=-60.0)
    worse = documents.result(**rounding, error_ratio=4.5, reason="sums in bfloat16", direction="gradient")
    document = documents.document(known, usual, worse)
    row = FaultRow(
        pair="flax_pool",
        side="reshaped",
        fault="a",
        expected="different",
        caught=True,
        honest=True,
        said="",
        results=1,
        failed=1,
    )
    page = load_file(TREE / "findings.py").page(document, FaultTable(results=(row,)))
    assert "| flax\\_pool | reshaped | float32; forward | padding is counted |" in page.replace(
        "flax_pool", "flax\\_pool"
    )
    assert "4.5x | sums in bfloat16 |" in page and "1.2x | " not in page.split("## What is the same")[0]
    assert "rounding 1 (at most 3 ulp, error 1.2x)" in page
    assert "rounding 1 (at most 3 ulp, error 4.5x; 1 of them by execution in float64)" in page
    assert "1 fault, one at a time, each of them `different` (1 caught)" in page


def test_the_page_has_every_pair() -> None:
    """It is written by `make libraries`, where a pair was added or renamed it is out of date."""
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in PAIRS if f"- `{name}`: " not in text] == []
