"""The page of training runs: which run is not as expected, where it parts, and what was compared with nothing."""

import math
import re
from dataclasses import replace

from samebits.report.html.sections import section_of
from samebits.report.terminal import LINES
from samebits.report.train import TrainDocument, bisection, closing, nearest, pairing_table, uncompared_lines
from samebits.schema.result import Problem
from samebits.train.compare import Uncompared
from samebits.train.detection import Detected, Detection
from samebits.train.distance import FAR
from samebits.train.parts import SAME_RUN
from tests.report.html.run_samples import run, trained
from tests.support.pages import markdown, screen

BASE = run("base")
LINE = "two: held against nothing: bfloat16 on another mesh"


def _partly(count: int = 1) -> TrainDocument:
    """Three runs, of which the last is compared with the first."""
    document = trained(run("one"), run("again"))
    names = ["two", *(f"run{number}" for number in range(count - 1))]
    alone = tuple(Uncompared(run=name, reason="bfloat16 on another mesh") for name in names)
    return replace(document, uncompared=alone, summary=replace(document.summary, uncompared=count))


def test_a_run_held_against_nothing_is_named_and_counted() -> None:
    document = _partly()
    assert uncompared_lines(document) == [LINE]
    assert closing(document).endswith("; all as expected, but 1 run held against nothing")
    assert document.exit_code == 3
    assert LINE in "\n".join(screen(document)) and f"- {LINE}" in markdown(document)
    section = section_of(document)
    assert (
        section.page.state == "incomplete" and LINE in section.body and "held against nothing" in section.page.headline
    )


def test_the_terminal_names_the_first_of_many() -> None:
    lines = screen(replace(_partly(30), notes=("a note",) * 9))
    assert LINE in lines and "and 36 more notes; --json FILE has all" in lines
    assert any(line.endswith("but 30 runs held against nothing") for line in lines)


def test_where_all_runs_are_compared_nothing_is_said_of_it() -> None:
    document = trained(run("one"), run("again"))
    assert document.exit_code == 0 and closing(document).endswith("; all as expected")
    assert "held against nothing" not in "\n".join(screen(document)) + markdown(document)


def test_a_run_held_against_itself_is_counted() -> None:
    document = trained(run("one"), run("again"))
    (comparison,) = document.comparisons
    document = replace(document, comparisons=(replace(comparison, reason=SAME_RUN, expected="bitwise"),))
    assert "(1 of the same configuration, run twice); " in closing(document)
    assert "again is one once more: that shows that its bits repeat" in markdown(document)


def test_a_loss_that_is_not_finite_is_no_distance() -> None:
    """Nor is an array: its distance is infinite, and the headroom none."""
    document = trained(run("a"), run("b"))
    (first, *others) = document.comparisons
    broken = replace(first, max_ulp=FAR, worst_leaf="gradient/w", distance=math.inf, verdict="different", ok=False)
    document = replace(document, comparisons=(broken, *others))
    text = "\n".join(screen(document))
    assert f"not finite of {broken.envelope} ulp" in text and str(FAR) not in text
    assert document.page().failing[0].example.endswith("the loss of one of them is not finite")
    assert pairing_table(document)[0][-1].startswith("gradient/w not finite of ")


def test_a_run_outside_the_envelope_is_the_headline() -> None:
    section = section_of(trained(BASE, run("same"), run("far", nudge={2: 40})))
    assert section.page.state == "failed"
    assert section.page.headline == (
        "toy: 1 of 2 results: different; first far against base: first differs in step 2, loss: the loss is up to 40 "
        "ulps away, 5 are allowed; more than rounding; expected rounding: by hand"
    )
    assert section.page.next == "samebits bisect pairs --config toy/far --against toy/base --steps 4"


def test_one_configuration_has_no_matrix_to_bisect_in() -> None:
    document = trained(BASE, run("far", nudge={2: 40}))
    assert replace(document, matrix="far").page().next is None


def test_runs_as_expected_pass() -> None:
    section = section_of(trained(BASE, run("near", nudge={2: 1})))
    assert (section.page.state, section.page.next) == ("passed", None)
    assert "all as expected" in section.page.headline


def test_a_run_that_could_not_be_made_is_the_headline() -> None:
    problem = Problem(pair="toy/far", message="out of memory", exit_code=3)
    section = section_of(trained(BASE, run("same"), problems=(problem,)))
    assert (section.page.state, section.page.headline) == ("incomplete", "1 problem: toy/far: out of memory")


def test_the_first_split_is_in_words_and_in_a_table() -> None:
    body = section_of(trained(BASE, run("array", scale={2: 1.5}), run("late", nudge={3: 1}))).body
    assert "The first split is at step 2: array has other bits than base, first in gradient/w." in body
    assert "The 3 runs end with 3 different sets of bits." in body
    table = re.search(r"<caption>Every split.*?</table>", body, re.DOTALL)
    assert table is not None and re.findall(r"<td>(.*?)</td>", table[0]) == [
        *("array", "base", "step 2", "gradient/w"),
        *("late", "base", "step 3", "loss"),
    ]


def test_runs_that_never_split_are_said_to_be_equal() -> None:
    section = section_of(trained(BASE, run("same")))
    assert "All 2 runs have the same bits at every step." in section.body
    assert "norm-distance" not in section.charts and "used" not in section.charts


def test_every_chart_has_its_place() -> None:
    for document in (
        trained(BASE, run("same")),
        trained(BASE, run("far", nudge={2: 40}, scale={2: 1.5})),
        trained(BASE),
        trained(BASE, envelope=None, comparisons=()),
    ):
        section = section_of(document)
        assert sorted(re.findall(r'data-chart="([^"]+)"', section.body)) == sorted(section.charts)
    assert len(section_of(trained(BASE, run("far", nudge={2: 40}, scale={2: 1.5}))).charts) == 6


def test_a_document_without_runs_has_a_page() -> None:
    document = trained(BASE)
    empty = replace(document, results=(), comparisons=(), clusters=(), envelope=None)
    section = section_of(empty)
    assert section.page.state == "incomplete" and not section.charts


def test_a_column_of_a_newer_version_is_left_out() -> None:
    body = section_of(trained(BASE, run("same"), columns=("loss", "joules"))).body
    assert "joules" not in body and "loss (hex)" in body


def test_many_that_fail_are_one_screen_and_all_are_rows() -> None:
    document = trained(BASE, *(run(f"far{number}", nudge={2: 40}) for number in range(40)))
    lines = screen(document)
    assert len(lines) <= 40 and "FAILED  toy: 40 of 40 results: different" in lines
    assert "--verbose prints every run and every comparison" in lines and lines[-1].startswith("next: samebits bisect")
    every = screen(document, width=150, verbose=True)
    assert sum("different FAILS" in line for line in every) == 40
    assert "by hand" not in "".join(line for line in every if "different FAILS" in line)
    assert "| loss 40 of 5 | by hand |" in markdown(document, whole=True)
    assert section_of(document).body.count('<tr class="o-fail"><td>base') == 40


def test_a_planted_defect_that_is_not_seen_is_a_bad_row() -> None:
    rows = [
        Detected(
            defect=name, config="two", seen=(True, seen), step=1, leaf="loss",
            loss=1.0, loss_bfloat16=1.0, max_ulp=9, first_loss_equal=False,
        )
        for name, seen in (("zeroed", True), ("negated", False))
    ]  # fmt: skip
    detection = Detection(gates=("loss .3f", "samebits"), defects=tuple(rows), false_alarms=(1, 0), healthy=(2, 2))
    document = trained(BASE, run("same"), detection=detection)
    page = document.page()
    assert page.state == "failed" and "planted: negated" in page.headline
    assert [group.title for group in page.failing] == ["toy: 1 of 3 results: not seen"]
    body = section_of(document).body.replace("\n", "")
    assert '<tr class="o-fail"><td>negated' in body and "<tr><td>zeroed" in body
    assert "| seen |  |  | 2 of 2 | 1 of 2 |  |  |" in markdown(document)


# --- comparisons that are not as expected ----------------------------------------------------------------------------


def wrong_document() -> TrainDocument:
    document = trained(run("one"), run("two"), run("three"))
    failing = tuple(
        replace(comparison, ok=False, verdict="different", first_step=2, first_leaf="loss", max_ulp=9)
        for comparison in document.comparisons
    )
    return replace(document, comparisons=failing, summary=replace(document.summary, failed=len(failing)))


def test_comparisons_that_part_at_one_place_are_one_group() -> None:
    document = wrong_document()
    (group,) = document.page().failing
    count = len(document.comparisons)
    assert group.title == f"toy: {count} of {count} results: different"
    assert "more than rounding" in group.likely
    first = document.comparisons[0]
    assert group.next_command == bisection(document, first)
    assert group.next_command is not None and group.next_command.startswith("samebits bisect pairs --config ")


def test_an_array_beyond_its_bound_is_named_with_its_numbers() -> None:
    """The loss may have moved nowhere; an array that one run lacks has no number."""
    comparison = trained(run("one"), run("two")).comparisons[0]
    for leaf, distance, words in (
        ("gradient/w", 0.11, "0 ulps away, 5 are allowed; gradient/w 1.1e-01 of 1.5e-05"),
        ("gradient/w", math.inf, "gradient/w not finite of 1.5e-05"),
        ("gradient/w", None, "gradient/w not finite of 1.5e-05"),
        ("gradient/w (only in two)", math.inf, "; gradient/w (only in two)"),
    ):
        beyond = replace(comparison, ok=False, verdict="different", first_step=7, first_leaf=leaf, worst_leaf=leaf)
        document = replace(wrong_document(), comparisons=(replace(beyond, distance=distance, bound=1.5e-5),))
        (group,) = document.page().failing
        assert group.example.endswith(words), group.example
        assert nearest(document.comparisons[0]) == words.rpartition("; ")[2]


def test_runs_of_another_matrix_have_no_search() -> None:
    document = wrong_document()
    assert bisection(document, replace(document.comparisons[0], a="elsewhere")) is None


def test_what_is_expected_is_no_failure() -> None:
    assert trained(run("one"), run("two")).page().failing == []


def test_the_report_ends_with_the_command() -> None:
    document = wrong_document()
    many = replace(document, comparisons=document.comparisons * 30)
    lines = screen(many)
    assert len(lines) <= LINES
    assert lines[-1].startswith("next: samebits bisect pairs ")
    text = markdown(many)
    assert len(text.splitlines()) <= 60 and "#### Failures: 60 results, 1 group" in text
