"""Statements about compiled programs as Python expressions: how they are written, shown, and rejected."""

from collections.abc import Callable
from typing import Any

import pytest

from samebits.errors import DeclarationError
from samebits.schema.compile_statement import (
    NUMBERS,
    REFERENCE,
    VARIANT,
    Claim,
    Figure,
    compiled_side,
    shown,
)
from samebits.schema.program_facts import CompiledSide


def test_every_figure_and_every_count_can_be_named() -> None:
    assert set(NUMBERS) <= CompiledSide.__dataclass_fields__.keys()
    assert {*NUMBERS, "collectives", "program"} == vars(VARIANT).keys()


def test_a_comparison_may_be_turned_round() -> None:
    assert (VARIANT.temp_bytes <= 17e6) == (VARIANT.temp_bytes <= 17e6)
    assert (2 * REFERENCE.copies > VARIANT.copies) == (VARIANT.copies < 2 * REFERENCE.copies)
    assert (REFERENCE.program != VARIANT.program) == (VARIANT.program != REFERENCE.program)
    assert (VARIANT.copies <= 2 * (3 * REFERENCE.copies)) == (VARIANT.copies <= 6 * REFERENCE.copies)


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("temp_bytes", 1_234_567_890, "1 234.6 MB"),
        ("bytes_accessed", 5e5, "0.5 MB"),
        ("flops", 1.23456e9, "1.23e+09"),
        ("gathers", 3, "3"),
        ("collectives", {}, "none"),
        ("collectives", {"all-gather": 1, "all-to-all": 2}, "all-gather 1, all-to-all 2"),
    ],
)
def test_figures_in_words(metric: str, value: Any, text: str) -> None:
    assert shown(metric, value) == text


# --- wrong statements ------------------------------------------------------------------------------------------------

BOTH = "expected VARIANT on one side, and another side of the pair on the other"
PROGRAM = "a program is compared with == or != to another side's program"
COUNTS = 'collectives are compared with == to their counts by name, such as {"all-gather": 1}'

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "unknown figure": (lambda: VARIANT.temp_byte, "did you mean 'temp_bytes'?"),  # type: ignore[attr-defined]
    "no side": (lambda: compiled_side(" "), "expected the name of a side; the one that a claim is about is VARIANT"),
    "of the reference": (
        lambda: REFERENCE.gathers == 0,
        "'REFERENCE.gathers == 0': expected a figure of VARIANT; a claim is about the variants that it names",
    ),
    "of another side": (lambda: compiled_side("a").gathers == 0, "'compiled_side(\"a\").gathers == 0': expected a fig"),
    "twice the variant": (lambda: VARIANT.gathers <= 2 * VARIANT.gathers, BOTH),
    "never the variant": (lambda: REFERENCE.gathers <= compiled_side("a").gathers, BOTH),
    "a multiple": (lambda: 2 * VARIANT.gathers <= REFERENCE.gathers, BOTH),
    "a multiple of a number": (lambda: 2 * VARIANT.gathers <= 3, "expected a figure of VARIANT"),
    "two figures": (lambda: VARIANT.gathers <= REFERENCE.copies, "expected the same figure of both sides"),
    "text": (lambda: VARIANT.temp_bytes <= "17 MB", "<= '17 MB'': expected a finite number, or a multiple"),
    "a truth value": (lambda: VARIANT.gathers == True, "expected a finite number"),  # noqa: E712
    "not a number": (lambda: VARIANT.gathers <= float("nan"), "expected a finite number"),
    "unequal": (lambda: VARIANT.gathers != 0, "'VARIANT.gathers != 0': expected <=, >=, ==, < or >"),
    "program and text": (lambda: VARIANT.program == "gather", PROGRAM),
    "program and order": (lambda: VARIANT.program <= REFERENCE.program, PROGRAM),
    "times a program": (lambda: 2 * VARIANT.program, "2 times"),
    "collectives in order": (lambda: VARIANT.collectives <= {"all-gather": 1}, COUNTS),
    "collectives and a number": (lambda: VARIANT.collectives == 3, COUNTS),
    "half a collective": (lambda: VARIANT.collectives == {"all-gather": 1.5}, COUNTS),
    "collectives without a name": (lambda: VARIANT.collectives == {1: 1}, COUNTS),
    "collectives of another side": (lambda: VARIANT.collectives == REFERENCE.collectives, COUNTS),
    "two at once": (lambda: 0 <= VARIANT.gathers <= 2, "'gathers >= 0' has no truth value before the sides are comp"),
    "both": (lambda: VARIANT.gathers == 0 and VARIANT.copies == 0, "write two claims instead of `and`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_statement_gets_one_line(name: str) -> None:
    state, message = WRONG[name]
    with pytest.raises(DeclarationError) as caught:
        state()
    line = str(caught.value)
    assert message.replace("2 times", "VARIANT.program times 2: expected a figure that is a number") in line
    assert "\n" not in line and caught.value.exit_code == 2


@pytest.mark.parametrize("shows", ["no_gathers", True, VARIANT.gathers], ids=["text", "truth value", "figure"])
def test_a_claim_wants_a_statement(shows: Any) -> None:
    line = (
        r"^Claim\(shows=\.\.\.\) is (str 'no_gathers'|bool True|Figure VARIANT.gathers); expected a comparison such as "
    )
    with pytest.raises(DeclarationError, match=line):
        Claim(shows=shows, source="us")


def test_a_figure_is_shown_as_it_is_written() -> None:
    figures = (VARIANT.copies, 0.5 * REFERENCE.copies, compiled_side("gather").copies * 2)
    assert [str(figure) for figure in figures] == [
        "VARIANT.copies", "0.5 * REFERENCE.copies", '2 * compiled_side("gather").copies',
    ]  # fmt: skip
    assert isinstance(VARIANT.copies, Figure)
