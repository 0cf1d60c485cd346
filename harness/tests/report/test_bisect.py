"""The page of a bisection: the cause, its witness and every point that was tried."""

from dataclasses import replace

import msgspec
import pytest

from samebits.bisect.search.trials import SearchFinding
from samebits.report.bisect import (
    TALLEST,
    TENSORS,
    BisectDocument,
    bisect_charts,
    culprit_places,
    search_chart,
    sizes_chart,
)
from samebits.report.document import to_json
from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.page import charts_of
from tests.support.charts import layer_rows
from tests.support.evidence_documents import (
    bisected,
    commit_search,
    nothing_fails,
    set_search,
    size_search,
    tensor_search,
)
from tests.support.pages import markdown, screen

FINDINGS = (commit_search(), set_search(), size_search(), tensor_search())


@pytest.mark.parametrize("finding", FINDINGS, ids=[finding.what for finding in FINDINGS])
def test_a_document_from_a_file_is_the_same_page(finding: SearchFinding) -> None:
    document = bisected(finding)
    read = msgspec.json.decode(to_json(document), type=BisectDocument)
    assert (section_of(read).body, section_of(read).charts) == (section_of(document).body, section_of(document).charts)


def test_the_cause_is_the_headline() -> None:
    document = bisected(commit_search())
    section, lines, text = section_of(document), screen(document), markdown(document)
    assert (section.page.state, section.title) == ("failed", "bisect commits")
    assert lines[-2:] == [
        "commit 000000000009 'change 9' introduced it",
        "next: samebits bisect commits --good a --bad b -- check norm",
    ]
    assert "skipped, could not be judged: change 6: does not import" in lines
    assert "  witness  before: bitwise; at it: different" in lines and "  +    return x[::-1]" in lines
    assert text.startswith("### samebits bisect commits: cause found\n")
    assert "| 7 | 000000000009 change 9 | FAIL | 1 | norm/multiply, out: different | 1 of 12 | 0.0 |" in text
    assert "```diff\n--- a/norm.py\n" in text


def test_the_cause_is_read_first_and_in_a_terminal_last() -> None:
    document = bisected(commit_search())
    text, lines = markdown(document), screen(document)
    assert text.index("- witness: before") < text.index("| # | point |")
    assert lines.index("Points, in the order tried") < lines.index("  witness  before: bitwise; at it: different")


def test_nothing_to_search_for_has_passed() -> None:
    page = bisected(nothing_fails()).page()
    assert (page.state, page.next, charts_of(page.blocks)) == ("passed", None, {})
    assert not any("Points" in line for line in screen(bisected(nothing_fails())))


def test_what_cannot_be_told_is_incomplete() -> None:
    document = bisected(replace(commit_search(), found=False))
    assert document.page().state == "incomplete"
    assert "dashed line is the cause" not in section_of(document).body


def test_the_first_value_that_differs_is_marked() -> None:
    document = bisected(tensor_search())
    text = markdown(document)
    assert "| 3 | rev float32\\[3\\] |  |  | first that differs |" in text and "left after it" not in text
    assert any("the reference's twin at reference_impls/norm.py:3" in line for line in screen(document))
    assert section_of(document).body.count('<tr class="o-fail">') == 1


def test_of_many_values_the_last_are_shown() -> None:
    many = [{"primitive": f"p{number}", "occurs": True} for number in range(TENSORS + 5)]
    text = markdown(bisected(replace(tensor_search(), detail={"tensors": many})), whole=True)
    assert f"; the last {TENSORS} of {TENSORS + 5}" in text
    assert f"| {TENSORS + 5} | p{TENSORS + 4} " in text and "| 5 | p4 " not in text


def test_what_a_search_writes_besides_is_shown_as_it_is() -> None:
    odd = {"lines": [{"change": "unheard of"}, 3], "tensors": ["x", {"first": True}], "culprit": "abc", "diff": None}
    assert "- line: change: unheard of" in markdown(bisected(replace(tensor_search(), detail=odd)))


def test_the_search_over_inputs_is_counted() -> None:
    assert "1 of 4 are left, 19 inputs tried" in markdown(bisected(size_search()))


# --- charts ----------------------------------------------------------------------------------------------------------


def test_every_point_stands_where_it_took_something() -> None:
    finding = commit_search()
    _, cause, points = (layer_rows(search_chart(finding), layer) for layer in range(3))
    taken = {(row["trial"], row["candidate"]): row["outcome"] for row in points if row["candidate"] != "outcome"}
    assert taken == {
        (str(trial.number), finding.candidates[place]): trial.outcome
        for trial in finding.trials
        for place in trial.taken
    }
    assert [row["outcome"] for row in points if row["candidate"] == "outcome"] == [t.outcome for t in finding.trials]
    assert [row["candidate"] for row in cause] == [finding.candidates[8]]


def test_the_bands_narrow_to_the_culprit() -> None:
    finding = commit_search()
    left = layer_rows(search_chart(finding), 0)
    sizes = [sum(row["trial"] == str(trial.number) for row in left) for trial in finding.trials if trial.left]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] == 1
    assert left[-1]["candidate"] == finding.candidates[8]


def test_the_chart_of_many_candidates_is_not_taller() -> None:
    finding = commit_search(candidates=300)
    chart = search_chart(finding)
    assert chart["height"] == TALLEST > search_chart(commit_search())["height"]
    assert layer_rows(chart, 0)[-1]["candidate"] == finding.candidates[8]
    assert len(svg(chart)) > 1000


def test_a_set_shows_all_that_it_takes() -> None:
    finding = set_search()
    cause, points = (layer_rows(search_chart(finding), layer) for layer in range(2))
    first = [row["candidate"] for row in points if row["trial"] == "1"]
    assert first == ["outcome", "moe@layer2", "norm", "rope", "loss"]
    assert [row["candidate"] for row in cause] == ["rope"]


def test_equal_names_have_lines_of_their_own() -> None:
    finding = replace(set_search(), candidates=("a", "a", "outcome", "b"))
    points = layer_rows(search_chart(finding), 0)
    assert {row["candidate"] for row in points} == {"outcome", "1  a", "2  a", "3  outcome", "4  b"}


def test_the_legend_has_the_outcomes_that_there_are() -> None:
    chart = search_chart(set_search())
    assert chart["layer"][-1]["encoding"]["shape"]["scale"]["domain"] == ["pass", "fail"]
    broken = search_chart(commit_search())
    assert broken["layer"][-1]["encoding"]["shape"]["scale"]["domain"] == ["pass", "fail", "untestable"]


def test_sizes_are_beside_the_first_point() -> None:
    (chart,) = bisect_charts(size_search(), ())
    line, points = (layer_rows(chart.draw(), layer) for layer in range(2))
    assert [row["share"] for row in points] == [1, 0.125, 0.25]
    assert [row["share"] for row in line] == [1, 1, 0.25], "the smallest that fails so far"


def test_sizes_without_a_failure_have_no_line() -> None:
    finding = size_search()
    passing = tuple(replace(trial, outcome="pass") for trial in finding.trials)
    chart = sizes_chart(replace(finding, trials=passing, found=False))
    assert len(chart["layer"]) == 1


def test_without_points_there_is_no_chart() -> None:
    assert bisect_charts(nothing_fails(), ()) == []
    alone = replace(commit_search(), trials=commit_search().trials[:1])
    assert bisect_charts(alone, ()) == [], "one point is no search"
    old = replace(commit_search(), candidates=())
    assert bisect_charts(old, ()) == [], "as in a document of an older version"


def test_a_commit_is_a_culprit_by_its_whole_hash() -> None:
    assert culprit_places(commit_search(culprit=3)) == [2]
    assert culprit_places(set_search()) == [2]
    assert culprit_places(replace(commit_search(), culprits=(("change 9",),))) == []
