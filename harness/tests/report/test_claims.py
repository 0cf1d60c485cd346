"""The page of claims: what is otherwise than declared first, with its evidence."""

from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from tests.support.charts import layer_rows
from tests.support.evidence_documents import PROBLEM, claim, claims
from tests.support.hostile import require_escaped


def test_nothing_of_a_document_is_markup() -> None:
    require_escaped(claims(claim(), claim(id="b", ok=False, failed=2, witness="out[0]"), problems=[PROBLEM]))


def test_a_row_that_is_not_as_declared_is_the_headline() -> None:
    bad = claim(id="norm-2", ok=False, failed=3, witness="out[0]: 1 and 2", commands=("samebits check norm --case b",))
    section = section_of(claims(claim(), bad))
    assert section.page.state == "failed"
    assert section.page.headline.startswith(
        "norm: 1 of 2 rows: holds but for rounding; first norm-2: 3 results against the contract, out[0]: 1 and 2; "
    )
    assert section.page.next == "samebits check norm --case b"
    assert section.body.index("evidence of norm-2") < section.body.index("evidence of norm-1")
    assert section.body.count("<details open>") == 1, "only its evidence is unfolded"


def test_the_reason_is_what_failed() -> None:
    test = claim(ok=False, shown_by={"test_norm": False})
    assert section_of(claims(test)).page.headline.count("test test_norm failed or did not run") == 1
    figure = claim(ok=False, savings=())
    assert section_of(claims(figure)).page.headline.count("no compiled figure of temp_bytes") == 1


def test_what_was_not_told_is_incomplete() -> None:
    section = section_of(claims(claim(), claim(id="norm-2", holds="undecided", values="undecided", ok=False)))
    assert section.page.state == "incomplete" and section.page.headline.startswith(
        "norm: 1 of 2 rows: undecided; first norm-2; expected a multiply"
    )
    assert section_of(claims()).page.state == "incomplete"
    problem = section_of(claims(claim(), problems=[PROBLEM]))
    assert (problem.page.state, problem.page.headline) == ("incomplete", "1 problem: broken: its file does not import")


def test_claims_as_declared_have_passed() -> None:
    section = section_of(claims(claim(), claim(id="b", holds="does not hold", findings=("it costs",))))
    assert (section.page.state, section.page.next) == ("passed", None)
    assert "all as declared" in section.page.headline
    assert "condition: the table is finite" in section.body
    assert section.body.count("samebits check norm --json norm.json") == 2, "each command once, with its button"


def test_the_figures_are_a_chart() -> None:
    section = section_of(claims(claim()))
    rows = layer_rows(section.charts["savings"], 1)
    assert [(row["compiler"], row["times"]) for row in rows] == [("cpu", 0.5), ("v5p", 0.25)]
    assert len(svg(section.charts["savings"])) > 1000
    assert section_of(claims(claim(savings=(), figure=None))).charts == {}
