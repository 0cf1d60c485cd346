"""Points for all sizes: their rows, their judgement, and the cross-examination at the declared sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samebits.engine.size_points import METHOD, SizePointProver
from samebits.errors import CheckerBroken
from samebits.interpret.label_proof import LabelIdentity
from samebits.programs.catalogue import Locator
from samebits.schema.point import Point
from suites.test_embedding import PAIR as EMBEDDING
from suites.test_sequence_reorder import PAIR

POINT = Point(variant="structured", case="bshd", dtype="float32", mesh="context4", mode="auto", direction="gradient")


@pytest.fixture
def prover() -> SizePointProver:
    return SizePointProver(PAIR, Locator(name="sequence_reorder"), "cpu")


def test_a_proof_says_for_which_sizes(prover: SizePointProver) -> None:
    (row,) = prover.results(POINT)
    assert (row.verdict, row.method, row.ok, row.leaf) == ("proved", METHOD, True, "x")
    assert row.family is not None
    assert row.family.shapes == {"x": "float32[batch, 2*context*group, heads, dim]"}
    assert (row.family.mesh, row.family.counterexample) == (None, {})
    assert "context >= 1" in row.family.conditions
    assert "no_negative_zero=the cotangent of out" in row.words
    assert row.replay.startswith("samebits prove sequence_reorder --variant structured")
    assert row.replay.endswith("--direction gradient --all-sizes")


def test_an_expected_error_is_looked_at_as_it_is(prover: SizePointProver) -> None:
    (row,) = prover.results(replace(POINT, case="indivisible", direction="forward"))
    assert (row.verdict, row.sizes, row.family) == ("refused", None, None)


def test_a_denial_at_the_declared_sizes_is_no_result(prover: SizePointProver, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = {"x": LabelIdentity(False, 1, witness="x[0] is another one")}
    monkeypatch.setattr(prover._prover, "movement", lambda question: denied)
    with pytest.raises(CheckerBroken, match=r"at the declared ones it is different \(x\[0\] is another one\)"):
        prover.results(POINT)


def test_a_condition_on_inputs_is_no_refuted_exemption() -> None:
    prover = SizePointProver(EMBEDDING, Locator(name="embedding"), "cpu")
    point = Point(variant="gather", case="infinity", dtype="float32", mesh="data8", mode="auto", direction="forward")
    (row,) = prover.results(point)
    assert (row.verdict, row.ok, row.refutes) == ("proved", False, False)
    assert "finite=table" in row.unkept
