"""The table of leaves that a comparison of functions shows."""

from samebits.report.failure import LONGEST, leaf_rows, text
from samebits.report.prove import title
from samebits.schema.contract import COMPUTES
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


def test_the_line_of_the_cause_comes_first() -> None:
    line = LineDifference(
        change="other", variant="fns.py:3", variant_code="x * s", reference="ref.py:7", reference_code="x * s * 2"
    )
    (row,) = leaf_rows([changed(LEAF, lines=(line,))], "r")
    assert row.evidence == f"required rounding; {line}; not the same mathematics"
    assert "fns.py:3" in row.evidence


EXECUTED = changed(LEAF, verdict="bitwise", ok=True, evidence=None, reason=COMPUTES.reason)


def test_why_no_more_is_required_is_not_evidence() -> None:
    """That other machines may have other bits says nothing of the bits here."""
    (row,) = leaf_rows([EXECUTED], "r")
    assert row.evidence == "the same bits on every input tried"


def test_why_equal_bits_do_not_suffice_is_said() -> None:
    (row,) = leaf_rows([changed(EXECUTED, ok=False, required="proved", reason="all sizes are required")], "r")
    assert row.evidence == "required proved; the same bits on every input tried; all sizes are required"


def test_what_could_not_be_interpreted_is_named_once() -> None:
    what = "no rule for 'pallas_call' at kernels.py:3"
    (row,) = leaf_rows([changed(EXECUTED, not_interpreted=what)], "r")
    assert row.evidence == f"the same bits on every input tried; not interpreted: {what}"
    (row,) = leaf_rows([changed(EXECUTED, evidence=f"equal in float64; not proved: {what}", not_interpreted=what)], "r")
    assert row.evidence.count(what) == 1


def test_an_error_says_its_reason() -> None:
    (row,) = leaf_rows([changed(LEAF, verdict="error", evidence=None, reason="nothing was compared")], "r")
    assert row.evidence == "required rounding; nothing was compared"


def test_what_fails_says_what_was_required() -> None:
    (row,) = leaf_rows([LEAF], "r")
    assert row.evidence == "required rounding; not the same mathematics"


PROOF = finding(
    "prove",
    pair="p",
    variant="v",
    case="c",
    dtype="float32",
    mesh="none",
    mode="auto",
    direction="forward",
    leaf="out",
    verdict="proved",
    required="bitwise",
    ok=True,
    method="labels",
    domain="no -0.0 in x",
)


def test_a_proof_says_of_which_inputs_it_is() -> None:
    (row,) = leaf_rows([PROOF], "r")
    assert row.evidence == "in this domain: no -0.0 in x; by labels"
    assert leaf_rows([changed(PROOF, domain=None)], "r")[0].evidence == "by labels"
    (row,) = leaf_rows([changed(PROOF, verdict="error", reason="no rule")], "r")
    assert row.evidence == "by labels; no rule"


def test_the_title_of_a_proof_says_of_which_inputs_it_is() -> None:
    assert title(PROOF) == "PROVED: the same bits for every input in this domain: no -0.0 in x"
    assert title(changed(PROOF, domain=None)) == "PROVED: the same bits for every input"
    routed = changed(PROOF, domain=None, routing=("ids", "step"))
    assert title(routed) == "PROVED: the same bits for every input, for the values of ids and step tried"
