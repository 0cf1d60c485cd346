"""The page of a gate: what refutes comes first, and what may be claimed is one sentence."""

import pytest

from samebits.report.gate import GateDocument, claim_of
from samebits.report.markdown import markdown_page
from samebits.schema.finding import Finding, Place, Ruling
from samebits.schema.gate_row import GateRow

HOLDS = GateRow(kind="formula", state="holds", words="outputs: rounding")


def leaf(verdict: str) -> Finding:
    ruling = Ruling(verdict=verdict, required="rounding", ok=True)  # type: ignore[arg-type]
    return Finding(place=Place(pair="norm", variant="kernel", leaf="out"), ruling=ruling)


def document(*rows: GateRow, leaves: tuple[Finding, ...] = ()) -> GateDocument:
    claim = claim_of(rows, leaves)
    return GateDocument(kernel="k.py:kernel", reference="r.py:reference", results=rows, leaves=leaves, claim=claim)


@pytest.mark.parametrize(
    ("rows", "verdicts", "code", "claim"),
    [
        ((HOLDS,), ("rounding", "proved"), 0, "it has the formula of its reference, up to rounding that is bounded"),
        ((HOLDS,), ("proved",), 0, "it has the same bits as its reference for every input"),
        (
            (HOLDS, GateRow(kind="structure", state="limited", words="wrong with 15 in place of 16")),
            ("bitwise",),
            0,
            "; not beyond its inputs: wrong with 15 in place of 16",
        ),
        ((GateRow(kind="kept", state="refuted", words="call 2"), HOLDS), (), 1, "refuted: kept (call 2)"),
        ((GateRow(kind="formula", state="undecided", words="a loop"),), (), 3, "undecided: a loop"),
        ((GateRow(kind="formula", state="not tried", words=""),), (), 3, "undecided: no output was compared"),
    ],
)
def test_the_claim_is_no_more_than_what_was_seen(
    rows: tuple[GateRow, ...], verdicts: tuple[str, ...], code: int, claim: str
) -> None:
    made = document(*rows, leaves=tuple(map(leaf, verdicts)))
    assert made.exit_code == code and claim in made.claim


def test_what_refutes_comes_first() -> None:
    text = markdown_page(document(HOLDS, GateRow(kind="kept", state="refuted", words="call 2", where="k.py:3")).page())
    assert "refuted: kept (call 2)" in text
    assert text.index("| kept |") < text.index("| formula |")
