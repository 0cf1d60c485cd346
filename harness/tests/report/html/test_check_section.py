"""The section of a check: what it says first, and what it hands to its script."""

from dataclasses import replace

from samebits.report.check import columns
from samebits.report.html.sections import html_page, section_of
from samebits.schema.finding import Finding
from tests.support.documents import document, result


def test_a_failure_is_named_with_its_place_and_command() -> None:
    bad = result(verdict="different", ok=False, mesh="data4", mismatches=3, replay="samebits check norm --mesh data4")
    section = section_of(document(result(), bad))
    assert section.page.state == "failed"
    assert section.page.headline == (
        "norm/multiply: 1 of 2 results: different (small; bfloat16; data4; forward); other values, and no line is named"
    )
    assert section.page.next == "samebits check norm --mesh data4"


def test_a_check_that_holds_has_nothing_to_run_next() -> None:
    section = section_of(document(result()))
    assert (section.page.state, section.page.next) == ("passed", None)


def test_skips_that_fail_the_run_are_the_headline() -> None:
    skips = replace(document(result(), result(verdict="skipped", ok=False)), no_skips=True)
    section = section_of(skips)
    assert section.page.state == "incomplete"
    assert section.page.headline.endswith("; what ran holds, but 1 skipped result fails the run (--no-skips)")
    assert section_of(replace(skips, no_skips=False)).page.state == "passed"
    assert section_of(replace(document(result()), no_skips=True)).page.state == "passed"


def test_columns_hold_each_distinct_value_once() -> None:
    made = columns([result(mesh="data2"), result(mesh="data4"), result(mesh="data2")])
    assert made["count"] == 3
    fields = made["fields"]
    assert isinstance(fields, dict)
    assert [bytes(value) for value in fields["mesh"]["values"]] == [b'"data2"', b'"data4"']
    assert fields["mesh"]["index"] == [0, 1, 0]
    assert "index" not in fields["pair"] and "place" not in fields


def cards(*results: Finding) -> list[str]:
    body = str(section_of(document(*results)).body)
    return [part.partition("</h4>")[0] for part in body.split("<article")[1:]]


def test_the_card_of_a_cause_says_its_verdict_once() -> None:
    (card,) = cards(result(), result(verdict="different", ok=False, mesh="data4", mismatches=3))
    assert card.count("different") == 2, "the colour and the word"
    assert card.endswith("norm/multiply: 1 of 2 results: different")
    (card,) = cards(result(verdict="bitwise", required="proved", ok=False, evidence="equal bits"))
    assert card.endswith(": bitwise, required proved")


def test_a_cause_shows_code_as_code() -> None:
    bad = result(verdict="error", ok=False, leaf="*", reason="`f(x)` raised <b>")
    section = section_of(document(bad))
    assert "<code>f(x)</code> raised &lt;b&gt;" in section.body
    assert "<code>f(x)</code> raised &lt;b&gt;</p>" in html_page([section], "t"), "in the headline too"


def test_known_differences_are_counted_in_a_headline_that_holds() -> None:
    known = result(verdict="different", exempt=True, mismatches=3, reason="as documented")
    assert "(known differences among them: 1)" in section_of(document(result(), known)).page.headline
