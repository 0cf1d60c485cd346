"""The search of the page of `diff`: what has not all words is hidden, and a reload keeps them."""

from samebits.report.changes.diff import compare_documents
from samebits.report.html.sections import page_of, section_of
from tests.report.html.browser.conftest import Opener
from tests.support.documents import document, result
from tests.support.findings import changed

OLD = [result(pair=name, mesh=mesh) for name in ("norm", "rope") for mesh in ("data2", "data4")]
NEW = [changed(row, verdict="different", ok=False) for row in OLD]
DIFF = page_of([section_of(compare_documents(document(*OLD), document(*NEW)))])


def test_what_has_not_all_words_is_hidden(opened: Opener) -> None:
    page = opened(DIFF).page
    changes = page.locator(".filters ~ .scroll tr.o-fail:visible")
    assert changes.count() == 2
    page.get_by_label("Search").fill("ROPE different")
    assert changes.count() == 1 and "rope/multiply" in changes.inner_text()
    assert page.locator(".filters .shown").inner_text() == "1 of 2 shown"
    page.reload()
    assert changes.count() == 1 and page.get_by_label("Search").input_value() == "ROPE different"
    page.get_by_label("Search").fill("no such word")
    assert changes.count() == 0 and not page.get_by_text("Worse: 2 groups").is_visible()
    page.get_by_label("Search").fill("")
    assert changes.count() == 2


def test_an_address_with_words_is_filtered_at_once(opened: Opener) -> None:
    page = opened(DIFF, address="diff.q=rope").page
    assert page.locator(".filters ~ .scroll tr.o-fail:visible").count() == 1


def test_a_group_unfolds_to_its_results(opened: Opener) -> None:
    page = opened(DIFF).page
    page.locator("tr.evidence summary").first.click()
    assert page.locator("tr.evidence li:visible").all_inner_texts() == [
        f"case small, bfloat16, mesh {mesh} (auto), out" for mesh in ("data2", "data4")
    ]
    assert (
        page.locator("tr.evidence details[open] .replay code").inner_text() == "samebits check norm --variant multiply"
    )
