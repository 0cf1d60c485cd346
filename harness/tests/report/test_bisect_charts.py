"""The search of a bisection as a chart: every point, what it took, and what it left."""

from dataclasses import replace

from samebits.report.bisect import TALLEST, bisect_charts, culprit_places, search_chart, sizes_chart
from samebits.report.html.charts import svg
from tests.support.charts import layer_rows
from tests.support.evidence_documents import commit_search, nothing_fails, set_search, size_search


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
