"""Which value of a static argument is best by the figures of a compiler, and faults planted in the choice."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from samebits.report.tune import best_line, tuned_rows
from samebits.schema import tuning as tuned_module
from samebits.schema.tuning import TuningBest, TuningTrial, best


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
