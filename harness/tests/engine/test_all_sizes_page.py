"""The page of what is proved for all sizes counts every leaf, and says of each undecided one why."""

import importlib.util
from types import ModuleType

import pytest

from samebits import Arg, Case, Pair
from samebits.host.environment import capture
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.prove import ProofDocument
from samebits.sizes.points import prove_sizes
from tests.support.findings import changed, finding
from tests.support.invoke import REPOSITORY

PAIR = Pair(
    name="doubled",
    reference=lambda x: (x * 2)[::-1],
    variants={
        "added": lambda x: x[::-1] + x[::-1],
        "looked_up": lambda x: {16: (x * 2)[::-1]}.get(x.shape[0], (x * 2)[::-1]),
    },
    args={"x": Arg(shape=("n",))},
    cases=(Case(id="small", sizes={"n": 6}),),
    dtypes=("float32",),
    meshes=("data1", "data2"),
    gradients=False,
)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_all_sizes", REPOSITORY / "docs" / "make_all_sizes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_leaf_is_counted_and_every_reason_is_said(maker: ModuleType) -> None:
    proofs = list(prove_sizes(PAIR, Locator(name="doubled"), plan(PAIR, Request(full=True), 8)))
    assert len(proofs) == 4
    page = maker.page(ProofDocument(environment=capture(), results=tuple(proofs), problems=()))
    summary = next(line for line in page.splitlines() if line.startswith("| all "))
    assert sum(int(cell) for cell in summary.split("|")[2:-1] if cell.strip()) == len(proofs)
    shown, undecided = page.split("## What is undecided")
    assert "| doubled | added | out | small; float32 | same formulas" in shown.replace(", one program", "")
    assert "the hash of n" in undecided
    assert "looked\\_up" in undecided or "looked_up" in undecided
    refused = changed(proofs[0], verdict="refused")
    fewer = maker.page(ProofDocument(environment=capture(), results=(refused,), problems=()))
    assert "| all |  |  |  |  |  |" in fewer


def test_points_of_a_later_run_take_the_place_of_earlier_ones(maker: ModuleType) -> None:
    """The page names their pairs, and what an interrupted run did not come to."""
    proof = finding(
        "prove",
        pair="doubled",
        variant="added",
        case="small",
        dtype="float32",
        mesh="data1",
        mode="auto",
        direction="forward",
        leaf="out",
        verdict="error",
        required="rounding",
        ok=False,
        reason="took long",
    )
    kept = changed(proof, variant="looked_up", reason="asked once"), changed(proof, pair="other")
    first = ProofDocument(environment=capture(), results=(proof, *kept), problems=(), interrupted=True)
    second = ProofDocument(environment=capture(), results=(changed(proof, reason="no rule"),), problems=())
    page = maker.page(first, second)
    assert "of a later run than the others: doubled." in page
    assert "did not come to are not counted (activation_layout: " in page
    rows = [line for line in page.split("## What is undecided")[1].splitlines() if line.startswith("| doubled")]
    assert ["no rule" in row or "asked once" in row for row in rows] == [True, True]
    assert "took long" not in "".join(rows) and "| all |  |  |  |  | 3 |" in page
    assert "| other | added |" in page
    assert "did not come to" not in maker.page(second)
