"""The overview of a check as a person uses it: filters, folds, search, copying, keyboard; and that of `diff`."""

from collections.abc import Callable

import pytest

from samebits.report.changes.diff import compare_documents
from samebits.report.check import Document
from samebits.report.html.sections import html_page, page_of, section_of
from tests.report.html.browser.conftest import Opener
from tests.support.documents import different, document, result
from tests.support.findings import changed

MESHES = ("data2", "fsdp4_tensor2")


def _document() -> Document:
    """Twelve results of one pair on two meshes, one of which differs."""
    sound = [result(mesh=mesh, dtype=dtype, leaf=leaf, replay=f"samebits check norm --mesh {mesh} --dtype {dtype}")
             for mesh in MESHES for dtype in ("float32", "bfloat16") for leaf in ("rows", "sums", "scale")]  # fmt: skip
    return document(
        *sound[:-1], different(mesh=MESHES[1], replay="samebits check norm --mesh 'fsdp4_tensor2' --seed \"1\"")
    )


@pytest.fixture(scope="module")
def report() -> str:
    return html_page([section_of(_document())], "a report")


def test_the_first_screen_says_what_where_and_next(report: str, opened: Opener) -> None:
    page = opened(report).page
    shown = page.evaluate(
        "document.elementsFromPoint(400, 150).length && [...document.querySelectorAll('.headline, .replay code')]"
        ".filter((each) => each.getBoundingClientRect().bottom < innerHeight).map((each) => each.textContent)"
    )
    headline, command = shown[0], shown[1]
    assert "norm/multiply: 1 of 12 results: different" in headline and "fsdp4_tensor2" in headline
    assert command.startswith("samebits check norm")


def test_failures_come_first(report: str, opened: Opener) -> None:
    page = opened(report).page
    first = page.locator(".results summary").first
    assert "different" in first.inner_text()
    assert "fsdp4_tensor2" in first.inner_text()


def test_a_verdict_filters_and_is_kept_in_the_address(report: str, opened: Opener) -> None:
    page = opened(report).page
    assert "12" in page.locator(".shown").inner_text()
    page.get_by_role("group", name="Verdict").get_by_role("button", name="different").click()
    assert page.locator(".results summary").count() == 1
    page.reload()
    assert page.locator(".results summary").count() == 1
    page.get_by_role("button", name="Clear filters").click()
    assert page.locator(".results summary").count() == 12


def test_an_address_with_filters_opens_filtered(report: str, opened: Opener) -> None:
    page = opened(report, address="check.mesh=data2&check.verdict=bitwise").page
    assert page.locator(".results summary").count() == 6
    page.evaluate("location.hash = '#check.mesh=data2&check.q=float32'")
    page.locator(".shown", has_text="3 of 12").wait_for()


def test_search_finds_words_and_says_how_many(report: str, opened: Opener) -> None:
    page = opened(report).page
    page.get_by_role("searchbox").fill("scale float32")
    page.locator(".shown", has_text="2 of 12").wait_for()
    page.get_by_role("searchbox").fill("no such thing anywhere")
    page.locator(".shown", has_text="0 of 12").wait_for()
    assert page.locator(".shown").inner_text().startswith("0 of 12")


def test_a_cell_of_the_matrix_filters_its_pair_and_mesh(report: str, opened: Opener) -> None:
    page = opened(report).page
    page.locator(".matrix").get_by_role("button", name="norm on fsdp4_tensor2: 1 different (fails)").click()
    assert page.locator(".results summary").count() == 6


def test_a_result_unfolds_and_its_replay_is_copied(report: str, opened: Opener) -> None:
    page = opened(report).page
    first = page.locator(".results details").first
    first.locator("summary").first.click()
    replay = first.locator(".replay").first
    replay.get_by_role("button").click()
    page.locator(".announce", has_text="copied").wait_for(state="attached")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == replay.locator("code").inner_text() == "samebits check norm --mesh 'fsdp4_tensor2' --seed \"1\""


def test_the_theme_follows_the_system_and_the_button(report: str, opened: Opener) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    dark, light = opened(report, scheme="dark").page, opened(report).page
    at_first = light.evaluate(back)
    assert dark.evaluate(back) != at_first
    button = light.get_by_role("button", name="Theme")
    button.click()
    button.click()
    assert light.evaluate(back) == dark.evaluate(back)
    light.reload()
    light.wait_for_function(f"{back} === '{dark.evaluate(back)}'")  # remembered; a busy machine applies it late


def test_the_keyboard_alone_filters_and_unfolds(report: str, opened: Opener) -> None:
    page = opened(report).page
    _tab_to(page.keyboard.press, lambda: page.evaluate("document.activeElement.innerText?.includes('different')"))
    page.keyboard.press("Enter")
    assert page.locator(".results summary").count() == 1
    _tab_to(page.keyboard.press, lambda: page.evaluate("document.activeElement.matches('.results summary')"))
    page.keyboard.press("Enter")
    assert page.locator(".results details[open]").count() == 1
    page.locator(".results .copy").first.wait_for()  # what unfolds is made in an event of its own
    _tab_to(page.keyboard.press, lambda: page.evaluate("document.activeElement.matches('.results .copy')"))
    page.keyboard.press("Enter")
    page.locator(".announce", has_text="copied").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()").startswith("samebits check norm")


def _tab_to(press: Callable[[str], None], reached: Callable[[], bool], most: int = 60) -> None:
    """Press Tab until the focus is where it should be."""
    for _ in range(most):
        press("Tab")
        if reached():
            return
    pytest.fail(f"not reached with {most} presses of Tab")


def test_the_focus_is_visible(report: str, opened: Opener) -> None:
    page = opened(report).page
    for _ in range(4):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")


def test_on_paper_nothing_is_hidden_and_nothing_to_click(report: str, opened: Opener) -> None:
    page = opened(report, scheme="dark").page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.get_by_role("searchbox").is_visible()
    assert not page.get_by_role("button", name="Theme").is_visible()
    assert page.locator(".headline").first.is_visible()
    assert page.locator(".results").inner_text().count("norm/multiply") >= 12
    channels = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number)")
    assert sum(channels[:3]) == 3 * 255, "ink is not spent on a dark page"


def test_several_documents_are_switched_and_linked(opened: Opener) -> None:
    sections = [section_of(_document()), section_of(document(result(pair="other")))]
    page = opened(html_page(sections, "two")).page
    assert page.locator("section.document:visible").count() == 1
    page.get_by_role("navigation").get_by_role("link").nth(1).click()
    assert page.locator("section.document:visible").count() == 1
    assert "section=check-2" in page.url
    page.reload()
    assert page.locator(".shown:visible").inner_text() == "1 of 1"


def test_a_request_or_an_error_would_be_seen(opened: Opener, report: str) -> None:
    planted = report.replace("</main>", "<img src='https://example.com/x.png' alt=''></main>")
    page = opened(planted)
    page.page.evaluate("setTimeout(() => { throw new Error('planted'); })")
    page.page.wait_for_timeout(50)
    assert any("request: https://example.com/x.png" in each for each in page.problems)
    assert any("Content Security Policy" in each for each in page.problems), "the page forbids it itself"
    assert "script: planted" in " ".join(page.problems)
    page.problems.clear()


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
