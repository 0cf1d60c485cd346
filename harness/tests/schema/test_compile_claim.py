"""Claims about compiled programs: how they are read, judged, refused, and of whom they speak."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from samebits.compile.comparison import beside, effect
from samebits.errors import DeclarationError
from samebits.schema.compile_claim import COUNTED, NUMBERS, Claim, parse, shown
from samebits.schema.program_facts import CompiledSide, SideBySide, ratio

PLAIN = CompiledSide(
    pair="rope", side="plain", case="long", dtype="float32", mesh="context4", mode="auto", direction="forward",
    target="v5e:2x2", shapes=(), options={}, compiler="0.0.42.1", replay="samebits compile rope",
    while_loops=0, loop_turns=0, gathers=1, scatters=0, copies=3, collectives={"all-gather": 1}, wire_bytes=9_000_000,
    sparsecore=0, sparsecore_operations={}, custom_calls={}, operations={"add": 1, "gather": 1, "copy": 3},
    temp_bytes=200_000_000, peak_bytes=None, argument_bytes=8, output_bytes=8, bytes_accessed=1e9, flops=0.0,
    optimal_seconds=None, compile_seconds=0.1, cached=False, program="aa", unordered="a",
)  # fmt: skip
RING = replace(
    PLAIN, side="ring", while_loops=1, loop_turns=None, gathers=0, copies=2, collectives={"collective-permute": 2},
    wire_bytes=3_000_000, temp_bytes=4_000_000, bytes_accessed=2e9, program="bb", unordered="b",
    operations={"add": 1, "copy": 2, "while": 1, "collective-permute": 2},
)  # fmt: skip
TWIN = replace(RING, side="twin")
SIDES = {one.side: one for one in (PLAIN, RING, TWIN)}


def held(*claims: Claim, variant: CompiledSide = RING, sides: Mapping[str, CompiledSide] | None = None) -> SideBySide:
    return beside(PLAIN, variant, SIDES if sides is None else sides, claims)


# What is said of `ring`, whether it holds (None: it cannot be told), and what is seen.
SAID: dict[str, tuple[bool | None, str]] = {
    "no_gathers": (True, "0"),
    "no_while_loops": (False, "1"),
    "no_scatters": (True, "0"),
    "no_copies": (False, "2"),
    "no_sparsecore": (True, "0"),
    "no_collectives": (False, "collective-permute 2"),
    "while_loops == 1": (True, "1"),
    "while_loops > 1": (False, "1"),
    "copies >= 2": (True, "2"),
    "copies < 2": (False, "2"),
    "copies<=2": (True, "2"),
    "  copies == 2  ": (True, "2"),
    "temp_bytes <= 4 MB": (True, "4.0 MB"),
    "temp_bytes <= 3.9 MB": (False, "4.0 MB"),
    "temp_bytes >= 4000 KB": (True, "4.0 MB"),
    "temp_bytes < 0.005 GB": (True, "4.0 MB"),
    "temp_bytes == 4e6": (True, "4.0 MB"),
    "temp_bytes == 4000000": (True, "4.0 MB"),
    "temp_bytes <= 0.02 x reference": (True, "4.0 MB, 0.02 x reference"),
    "temp_bytes <= 0.019 x reference": (False, "4.0 MB, 0.02 x reference"),
    "temp_bytes < 1 x twin": (False, "4.0 MB, 1 x twin"),
    "bytes_accessed == 2x reference": (True, "2 000.0 MB, 2 x reference"),
    "wire_bytes <= 0.34 x plain": (True, "3.0 MB, 0.333 x plain"),
    "while_loops <= 3 x reference": (False, "1, reference has none"),
    "loop_turns <= 7": (None, "the compiler gives no figure for loop_turns"),
    "optimal_seconds <= 1": (None, "the compiler gives no figure for optimal_seconds"),
    "peak_bytes <= 1 x reference": (None, "the compiler gives no figure for peak_bytes"),
    "same_program": (False, "another program"),
    "other_program": (True, "another program"),
    "same_program as twin": (True, "the same program"),
    "other_program than twin": (False, "the same program"),
    "same_program as plain": (False, "another program"),
    'collectives == {"collective-permute": 2}': (True, "collective-permute 2"),
    'collectives == {"collective-permute": 1}': (False, "collective-permute 2"),
    "collectives == {}": (False, "collective-permute 2"),
}


@pytest.mark.parametrize("shows", SAID)
def test_each_form_is_judged(shows: str) -> None:
    (judged,) = held(Claim(shows=shows, source="us")).expectations
    assert (judged.holds, judged.got) == SAID[shows]
    assert judged.ok is (judged.holds is True)


@pytest.mark.parametrize("shows", SAID)
def test_a_finding_must_come_out_false(shows: str) -> None:
    (judged,) = held(Claim(shows=shows, source="a pull request", finding="seen otherwise")).expectations
    assert judged.ok is (SAID[shows][0] is False)


def test_no_figure_on_the_other_side_cannot_be_told() -> None:
    (judged,) = beside(
        replace(PLAIN, temp_bytes=None), RING, SIDES | {"plain": replace(PLAIN, temp_bytes=None)},
        [Claim(shows="temp_bytes <= 0.5 x reference", source="us")],
    ).expectations  # fmt: skip
    assert (judged.holds, judged.ok, judged.got) == (None, False, "reference has no figure for temp_bytes")


def test_every_figure_and_every_count_can_be_named() -> None:
    assert set(NUMBERS) <= CompiledSide.__dataclass_fields__.keys()
    assert {parse(f"{name} <= 1").metric for name in NUMBERS} == set(NUMBERS)
    assert {parse(f"no_{name}").metric for name in COUNTED} == set(COUNTED)


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


# --- wrong texts -----------------------------------------------------------------------------------------------------

FORMS = (
    "cannot be read; expected no_while_loops, same_program, other_program, 'temp_bytes <= 17 MB', "
    "'temp_bytes <= 0.02 x reference' or 'collectives == {\"collective-permute\": 2}'"
)
AMOUNT = "cannot be read; expected 17, 17 MB or 0.02 x reference"

WRONG: dict[str, str] = {
    "": FORMS,
    "fast": FORMS,
    "temp_bytes": FORMS,
    "temp_bytes = 3": FORMS,
    "temp_bytes != 3": FORMS,
    "temp_bytes <=": f"amount '=' {AMOUNT}",
    "3 <= temp_bytes <= 4": "unknown figure; expected some of",
    "same_programm": FORMS,
    "same_program as": FORMS,
    "same_program as two sides": FORMS,
    "no_while_loop": "'while_loop' is not counted; expected some of while_loops, gathers, scatters, copies, "
    "collectives, sparsecore; did you mean 'while_loops'?",
    "no_temp_bytes": "'temp_bytes' is not counted; expected some of",
    "no_": "'' is not counted; expected some of",
    "temp_byte <= 3": "unknown figure; expected some of",
    "temp_bytes <= 17 TB": f"amount '17 TB' {AMOUNT}",
    "temp_bytes <= MB": f"amount 'MB' {AMOUNT}",
    "temp_bytes <= a lot": f"amount 'a lot' {AMOUNT}",
    "temp_bytes <= 1.2.3 MB": f"amount '1.2.3 MB' {AMOUNT}",
    "temp_bytes <= 1.2.3 x reference": f"amount '1.2.3 x reference' {AMOUNT}",
    "temp_bytes <= 0.02 x": f"amount '0.02 x' {AMOUNT}",
    "temp_bytes <= reference": f"amount 'reference' {AMOUNT}",
    'collectives <= {"all-gather": 1}': "collectives are compared with == only",
    "collectives == 3": 'expected counts such as {"collective-permute": 2}, got 3',
    "collectives == {all-gather: 1}": "expected counts such as",
    'collectives == {"all-gather": 1.5}': "expected counts such as",
    "collectives == {1: 1}": "expected counts such as",
}


@pytest.mark.parametrize("shows", WRONG)
def test_a_wrong_text_gets_one_line(shows: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Claim(shows=shows, source="us")
    line = str(caught.value)
    assert line.startswith(f"claim '{shows}'") and WRONG[shows] in line
    assert "\n" not in line and caught.value.exit_code == 2


@pytest.mark.parametrize("fields", [{"source": ""}, {"source": " "}, {"source": "us", "finding": " "}])
def test_an_empty_source_or_finding_is_refused(fields: dict[str, str]) -> None:
    line = "claim 'no_gathers' has an empty source or finding; write who says so, or what was found"
    with pytest.raises(DeclarationError, match=f"^{re.escape(line)}$"):
        Claim(shows="no_gathers", **fields)


# --- of whom it speaks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "spoken_of"),
    [
        ({}, True),
        ({"variant": "ring"}, True),
        ({"variant": "r*"}, True),
        ({"variant": "twin"}, False),
        ({"direction": "forward"}, True),
        ({"direction": "gradient"}, False),
        ({"target": "v5e:*"}, True),
        ({"target": "tpu7x:*"}, False),
        ({"versions": "0.0.42*"}, True),
        ({"versions": "0.0.4[0-1]*"}, False),
        ({"target": "v5e:*", "versions": "0.0.17"}, False),
    ],
)
def test_patterns_choose_the_programs(fields: dict[str, str], spoken_of: bool) -> None:
    assert bool(held(Claim(shows="no_gathers", source="us", **fields)).expectations) is spoken_of


def test_a_compiler_without_a_version_matches_only_the_open_pattern() -> None:
    nameless = replace(RING, compiler=None)
    claims = (Claim(shows="no_gathers", source="us"), Claim(shows="no_copies", source="us", versions="0.*"))
    assert [one.shows for one in held(*claims, variant=nameless).expectations] == ["no_gathers"]


def test_only_what_names_the_reference_is_said_of_it() -> None:
    of_all, of_it = Claim(shows="no_copies", source="us"), Claim(shows="gathers == 1", source="us", variant="plain")
    assert [one.shows for one in held(of_all, of_it).expectations] == ["no_copies"]
    itself = held(of_all, of_it, variant=PLAIN)
    assert [(one.shows, one.ok) for one in itself.expectations] == [("gathers == 1", True)]
    assert (itself.reason, itself.verdict, itself.same_order) == ("the reference itself", None, True)


def test_a_claim_about_a_side_that_was_not_compiled_is_left_out() -> None:
    claims = (Claim(shows="same_program as twin", source="us"), Claim(shows="temp_bytes <= 1 x twin", source="us"))
    assert len(held(*claims).expectations) == 2
    assert held(*claims, sides={"plain": PLAIN, "ring": RING}).expectations == ()
    alone = parse("same_program as twin").judge({"ring": {"program": "bb"}}, "ring", "plain")
    assert alone == (None, "twin was not compiled")


# --- side by side ----------------------------------------------------------------------------------------------------


def test_another_program_names_what_changed_most() -> None:
    found = held()
    assert found.reason == ("another program: collective-permute 0 -> 2, copy 3 -> 2, gather 1 -> 0, while 0 -> 1")
    assert (found.verdict, found.same_program, found.same_order) == (None, False, False)
    assert (found.temp_ratio, found.peak_ratio, found.bytes_ratio, found.wire_ratio) == (0.02, None, 2.0, 0.3333)


def test_the_same_program_is_a_proof_only_in_the_same_order() -> None:
    same = held(variant=replace(RING, program="aa", unordered="a", operations=PLAIN.operations))
    assert (same.verdict, same.reason) == ("proved", "same program")
    sorted_alike = held(variant=replace(RING, unordered="a", operations=PLAIN.operations))
    assert (sorted_alike.verdict, sorted_alike.same_program, sorted_alike.same_order) == (None, True, False)
    assert "which can move the last bit" in sorted_alike.reason


def test_other_programs_of_the_same_operations_are_said_to_be_so() -> None:
    assert held(variant=replace(RING, operations=PLAIN.operations)).reason == (
        "another program: the same operations, differently connected, shaped or configured"
    )
    many = replace(RING, operations={f"operation{number}": 1 for number in range(9)})
    assert held(variant=many).reason.endswith(", 6 more")


def test_what_an_option_changed() -> None:
    given = replace(
        RING, copies=5, program="cc", options={"xla_some": "true"}, operations={**RING.operations, "copy": 5}
    )
    found = effect(RING, given)
    assert (found.changed, found.before, found.after) == (True, {"copies": 2}, {"copies": 5})
    assert {name: tuple(both) for name, both in found.operations.items()} == {"copy": (2, 5)}
    assert found.options == {"xla_some": "true"}
    ignored = effect(RING, replace(RING, options={"xla_some": "true"}))
    assert (ignored.changed, ignored.before, ignored.operations) == (False, {}, {})


@pytest.mark.parametrize(
    ("first", "second", "found"), [(1, 3, 0.3333), (0, 3, 0.0), (3, 0, None), (None, 3, None), (3, None, None)]
)
def test_ratios(first: float | None, second: float | None, found: float | None) -> None:
    assert ratio(first, second) == found
