"""The table of leaves that a comparison of functions shows."""

import pytest

from samebits.report.failure import LONGEST, leaf_rows, text
from samebits.report.prove import title
from samebits.schema.contract import COMPUTES
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from tests.support.documents import toy_result
from tests.support.findings import changed, finding

LEAF = toy_result(
    variant="v",
    case="call",
    direction="forward",
    leaf="out",
    verdict="different",
    required="rounding",
    ok=False,
    evidence="not the same mathematics",
)


def test_long_evidence_is_cut_in_the_table_alone() -> None:
    rows = leaf_rows([changed(LEAF, evidence="x" * 500)], "r")
    assert "x" * 500 in rows[0].evidence
    assert len(text("", rows).splitlines()[1]) < LONGEST + 40


LINE = LineDifference(
    change="other", variant="fns.py:3", variant_code="x * s", reference="ref.py:7", reference_code="x * s * 2"
)
EXECUTED = changed(LEAF, verdict="bitwise", ok=True, evidence=None, reason=COMPUTES.reason)
PROOF = finding(
    "prove",
    **{"pair": "p", "variant": "v", "case": "c", "dtype": "float32", "mesh": "none", "mode": "auto", "leaf": "out"},
    **{"direction": "forward", "verdict": "proved", "required": "bitwise", "ok": True, "method": "labels"},
    domain="no -0.0 in x",
)
EQUAL, WHAT = "the same bits on every input tried", "no rule for 'pallas_call' at kernels.py:3"


@pytest.mark.parametrize(
    ("row", "evidence"),
    [
        (LEAF, "required rounding; not the same mathematics"),
        (changed(LEAF, lines=(LINE,)), f"required rounding; {LINE}; not the same mathematics"),
        (EXECUTED, EQUAL),  # that other machines may have other bits says nothing of the bits here
        (
            changed(EXECUTED, ok=False, required="proved", reason="all sizes are required"),
            f"required proved; {EQUAL}; all sizes are required",
        ),
        (changed(EXECUTED, not_interpreted=WHAT), f"{EQUAL}; not interpreted: {WHAT}"),
        (
            changed(EXECUTED, evidence=f"equal in float64; not proved: {WHAT}", not_interpreted=WHAT),
            f"equal in float64; not proved: {WHAT}",
        ),
        (
            changed(LEAF, verdict="error", evidence=None, reason="nothing was compared"),
            "required rounding; nothing was compared",
        ),
        (PROOF, "in this domain: no -0.0 in x; by labels"),
        (changed(PROOF, domain=None), "by labels"),
        (changed(PROOF, verdict="error", reason="no rule"), "by labels; no rule"),
    ],
)
def test_the_evidence_of_a_row(row: Finding, evidence: str) -> None:
    assert [each.evidence for each in leaf_rows([row], "r")] == [evidence]


def test_the_title_of_a_proof_says_of_which_inputs_it_is() -> None:
    assert title(PROOF) == "PROVED: the same bits for every input in this domain: no -0.0 in x"
    assert title(changed(PROOF, domain=None)) == "PROVED: the same bits for every input"
    routed = changed(PROOF, domain=None, routing=("ids", "step"))
    assert title(routed) == "PROVED: the same bits for every input, for the values of ids and step tried"
