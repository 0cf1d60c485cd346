"""Which value of a static argument is best by the figures of a compiler, with planted faults, and the page."""

import dataclasses
from typing import Any

import pytest

from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.tune import best_line, tuned_rows
from samebits.schema import tuning as tuned_module
from samebits.schema.tuning import TuningBest, TuningTrial, best
from tests.report.html.run_samples import trial as sample
from tests.report.html.run_samples import tuned_document
from tests.support.pages import markdown, screen


def trial(value: str, **figures: Any) -> TuningTrial:
    known: dict[str, Any] = {
        **dict.fromkeys(("pair", "side", "case", "direction", "target", "argument"), "x"),
        "compiler": "1",
        "declared": False,
        "program": value,
        "equal": True,
        "verdict": "bitwise",
        "while_loops": 0,
        "optimal_seconds": 1e-6,
        "bytes_accessed": 100.0,
        "temp_bytes": 10,
        "peak_bytes": 20,
    }
    return TuningTrial(value=value, **{**known, **figures})


CHOICES: dict[str, tuple[list[TuningTrial], str | None, str | None, str]] = {
    "the least time": (
        [trial("a", optimal_seconds=3e-6), trial("b"), trial("c", optimal_seconds=2e-6, bytes_accessed=1.0)],
        "b",
        "optimal_seconds",
        "least optimal_seconds by the compiler's estimate, 1e-06 s of 3e-06 s",
    ),
    "no time for one": (
        [trial("a", optimal_seconds=None), trial("b", bytes_accessed=2e6), trial("c", bytes_accessed=1e6)],
        "a",
        "bytes_accessed",
        "least bytes_accessed by the compiler's estimate, 0.0 MB of 2.0 MB; no optimal_seconds of 1 of 3 values",
    ),
    "loops of other lengths": (
        [
            trial("a", while_loops=1, loop_turns=4, optimal_seconds=1e-9, bytes_accessed=1.0),
            trial("b", while_loops=1, loop_turns=2, temp_bytes=5),
        ],
        "b",
        "temp_bytes",
        "least temp_bytes by the compiler's estimate, 0.0 MB of 0.0 MB; optimal_seconds, least for a, counts a "
        "loop's body once, and the loops differ; bytes_accessed, least for a, counts a loop's body once, and the loops "
        "differ",
    ),
    "loops of unknown lengths": (
        [trial("a", while_loops=1, bytes_accessed=1.0), trial("b", while_loops=1)],
        None,
        None,
        "no estimate distinguishes the values: ",
    ),
    "other results": (
        [trial("a", equal=False, optimal_seconds=1e-9), trial("b"), trial("c", optimal_seconds=2e-6)],
        "b",
        "optimal_seconds",
        "least optimal_seconds",
    ),
    "refused": (
        [trial("a", program=None, refused="too large", optimal_seconds=None), trial("b")],
        None,
        None,
        "only b compiles with equal results; nothing to choose from",
    ),
    "none": ([trial("a", program=None), trial("b", equal=False)], None, None, "no value compiles with equal results"),
    "a tie": (
        [trial("a", optimal_seconds=3e-6), trial("b"), trial("c")],
        "b",
        "optimal_seconds",
        "least optimal_seconds by the compiler's estimate, 1e-06 s of 3e-06 s, as much as c",
    ),
    "a hair's breadth": (
        [trial("a", optimal_seconds=1.005e-6, temp_bytes=1000), trial("b", temp_bytes=1001)],
        None,
        None,
        "no estimate distinguishes the values: optimal_seconds differs by less than 1%; bytes_accessed is the same",
    ),
    "the same figures": (
        [trial("a"), trial("b")],
        None,
        None,
        "no estimate distinguishes the values: optimal_seconds is the same for all; bytes_accessed is the same for all",
    ),
    "one program": (
        [trial("a", program="p"), trial("b", program="p")],
        None,
        None,
        "all 2 values give the same program: the argument changes nothing here",
    ),
}


def wrong_choices() -> list[str]:
    """The rows of the table that do not come out."""
    found = []
    for name, (trials, value, figure, reason) in CHOICES.items():
        one = best(trials)
        if (one.value, one.figure) != (value, figure) or not one.reason.startswith(reason):
            found.append(f"{name}: {best_line(one)}")
    return found


def test_the_best_value_is_least_in_the_first_differing_figure() -> None:
    assert wrong_choices() == []


def _unequal_allowed(trials: list[TuningTrial]) -> TuningBest:
    return _best([dataclasses.replace(one, equal=True) for one in trials])


def _loops_forgotten(trials: list[TuningTrial]) -> TuningBest:
    return _best([dataclasses.replace(one, while_loops=0, loop_turns=0) for one in trials])


def _the_last(trials: list[TuningTrial]) -> TuningBest:
    return dataclasses.replace(_best(trials), value=trials[-1].value)


_best = tuned_module.best


@pytest.mark.parametrize("broken", [_unequal_allowed, _loops_forgotten, _the_last])
def test_a_wrong_choice_is_noticed(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "best", broken)
    assert wrong_choices() != []


@pytest.mark.parametrize(
    ("name", "value"), [("FIGURES", tuple(reversed(tuned_module.FIGURES))), ("APART", 0.0), ("_OF_A_BODY", ())]
)
def test_a_broken_rule_is_noticed(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures in another order, differences that say nothing, loops whose trip counts do not matter."""
    monkeypatch.setattr(tuned_module, name, value)
    assert wrong_choices() != []


def test_a_figure_that_is_missing_is_a_dash() -> None:
    row = tuned_rows([trial("a", optimal_seconds=None, flops=None)])[0]
    assert row == ["a", "bitwise", "0.0", "0.0", "0.0", "-", "-", "0", "a"]


def test_the_figures_of_each_value_are_bars_and_cells() -> None:
    section = section_of(tuned_document(sample("128"), sample("256", optimal_seconds=2e-6)))
    picture = svg(section.charts["values-0"])
    for text in ("128 KB", "256 KB", "1.0 us", "2.0 us", "temporary memory", "estimated time"):
        assert text in picture, text
    assert (section.page.state, section.page.next, section.title) == ("passed", None, "compile --tune")
    assert "best: 128: least optimal_seconds" in section.body and "<td>128</td>" in section.body


def test_a_value_with_other_results_is_the_headline() -> None:
    wrong = sample("256", equal=False, verdict="different", small="rows differ")
    document = tuned_document(sample("128"), wrong)
    page = document.page()
    assert (page.state, page.word) == ("failed", "other results")
    assert page.headline.endswith("results: different; first case real, v5p:2x2x1, forward, tile=256: rows differ")
    assert "- FAILS: 256 gives other results: rows differ" in markdown(document)


def test_a_rejected_value_has_no_bar_and_its_words_below() -> None:
    rejected = sample("512", program=None, refused="too large", temp_bytes=None, peak_bytes=None)
    document = tuned_document(sample("128"), sample("256"), rejected)
    names = {row["side"] for row in section_of(document).charts["values-0"]["data"]["values"]}
    assert names == {"128", "256"}
    lines = screen(document)
    assert any(line.startswith("  512") and line.endswith("  rejected") for line in lines)
    assert "    512 is rejected: too large" in lines


def test_one_program_of_all_values_has_no_bars_and_is_folded() -> None:
    section = section_of(tuned_document(sample("128", program="p"), sample("256", program="p", same_as="128")))
    assert section.charts == {} and '<details class="block">' in section.body
    assert "all 2 values give the same program" in section.body


def test_a_value_that_was_not_run_is_incomplete() -> None:
    assert tuned_document(sample("128"), sample("256", equal=None, verdict=None)).page().state == "incomplete"
