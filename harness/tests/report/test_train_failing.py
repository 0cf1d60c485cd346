"""What is not as expected of training runs: comparisons that part at one place are one group, with a search."""

import math
from dataclasses import replace

from samebits.report.terminal import LINES
from samebits.report.train import TrainDocument, bisection, nearest
from tests.report.html.run_samples import run, trained
from tests.support.pages import markdown, screen


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
