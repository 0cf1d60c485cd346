"""The section of training runs: which run is not as expected, where it parts, and what to run next."""

from __future__ import annotations

import re
from dataclasses import replace

from samebits.report.html.sections import section_of
from samebits.report.html.train_section import train_section
from samebits.schema.result import Problem
from tests.report.html.run_samples import SCRIPT, run, trained

BASE = run("base")


def test_a_run_outside_the_envelope_is_the_headline() -> None:
    section = section_of(trained(BASE, run("same"), run("far", nudge={2: 40})))
    assert section.state == "failed"
    assert section.headline == (
        "1 of 2 comparisons not as expected: far is different from base, first at step 2 in loss; the loss is up to 40 "
        "ulps away, 5 are allowed at the end"
    )
    assert section.next_command == "samebits bisect pairs --config toy/far --against toy/base --steps 4"


def test_one_configuration_has_no_matrix_to_bisect_in() -> None:
    document = trained(BASE, run("far", nudge={2: 40}))
    assert train_section(replace(document, matrix="far")).next_command is None


def test_runs_as_expected_pass() -> None:
    section = train_section(trained(BASE, run("near", nudge={2: 1})))
    assert (section.state, section.next_command) == ("passed", None)
    assert "all as expected" in section.headline


def test_a_run_that_could_not_be_made_is_the_headline() -> None:
    problem = Problem(pair="toy/far", message="out of memory", exit_code=3)
    section = train_section(trained(BASE, run("same"), problems=(problem,)))
    assert (section.state, section.headline) == ("incomplete", "1 problem: toy/far: out of memory")


def test_the_first_split_is_in_words_and_in_a_table() -> None:
    body = train_section(trained(BASE, run("array", scale={2: 1.5}), run("late", nudge={3: 1}))).body
    assert "The first split is at step 2: array has other bits than base, first in gradient/w." in body
    assert "The 3 runs end with 3 different sets of bits." in body
    table = re.search(r"<caption>Every split.*?</table>", body, re.DOTALL)
    assert table is not None and re.findall(r"<td>(.*?)</td>", table[0]) == [
        *("array", "base", "step 2", "gradient/w"),
        *("late", "base", "step 3", "loss"),
    ]


def test_runs_that_never_split_are_said_to_be_equal() -> None:
    section = train_section(trained(BASE, run("same")))
    assert "All 2 runs have the same bits at every step." in section.body
    assert "norm-distance" not in section.charts and "used" not in section.charts


def test_every_chart_has_its_place() -> None:
    for document in (
        trained(BASE, run("same")),
        trained(BASE, run("far", nudge={2: 40}, scale={2: 1.5})),
        trained(BASE),
        trained(BASE, envelope=None, comparisons=()),
    ):
        section = train_section(document)
        assert sorted(re.findall(r'data-chart="([^"]+)"', section.body)) == sorted(section.charts)
    assert len(train_section(trained(BASE, run("far", nudge={2: 40}, scale={2: 1.5}))).charts) == 6


def test_a_document_without_runs_has_a_page() -> None:
    document = trained(BASE)
    empty = replace(document, results=(), comparisons=(), clusters=(), envelope=None)
    section = train_section(empty)
    assert section.state == "incomplete" and not section.charts


def test_a_column_of_a_newer_version_is_left_out() -> None:
    body = train_section(trained(BASE, run("same"), columns=("loss", "joules"))).body
    assert "joules" not in body and "loss (hex)" in body


def test_names_are_escaped() -> None:
    other = run(SCRIPT, nudge={2: 40})
    body = train_section(trained(run("<b>"), other, notes=(SCRIPT,), matrix=SCRIPT, about=SCRIPT)).body
    assert "<script" not in body and "<b>toy" not in body and "&lt;script&gt;" in body
