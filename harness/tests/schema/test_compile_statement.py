"""What a declaration says of compiled programs, and the targets for which they are compiled."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from samebits.errors import DeclarationError, MeshError, RequestError
from samebits.schema.compile_statement import (
    NUMBERS,
    REFERENCE,
    VARIANT,
    Claim,
    Figure,
    compiled_side,
    shown,
)
from samebits.schema.meshes import MeshSpec
from samebits.schema.program_facts import CompiledSide
from samebits.schema.target import Target, can_match, fixed_part, spread


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


@pytest.mark.parametrize(
    ("name", "platform", "cpus"),
    [
        ("cpu", "cpu", None),
        ("cpu:1", "cpu", 1),
        ("cpu:16", "cpu", 16),
        ("v5e:2x2", "tpu", None),
        ("tpu7x:4x4x4", "tpu", None),
        ("v9:2x2", "tpu", None),  # the compiler itself reports which it supports
    ],
)
def test_names(name: str, platform: str, cpus: int | None) -> None:
    target = Target(name=name)
    assert (target.platform, target.cpu_devices) == (platform, cpus)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tpu",
        "v5e",
        "v5e:",
        "v5e:4",
        "v5e:2x",
        "v5e:0x2",
        "v5e:2x2x2x2",
        "V5E:2x2",
        "v5e 2x2",
        "cpu:0",
        "cpu:",
        "gpu",
    ],
)
def test_malformed_names(name: str) -> None:
    line = f"target '{name}' is malformed; expected cpu, cpu:16, or a slice such as v5e:2x2 or tpu7x:4x4x4"
    with pytest.raises(RequestError, match=f"^{re.escape(line)}$"):
        Target(name=name)


@pytest.mark.parametrize("name", ["v7x", "v7", "tpu7"])
def test_the_newest_generation_is_often_called_otherwise(name: str) -> None:
    with pytest.raises(RequestError, match=rf"^target '{name}:2x2x1' is unknown; did you mean 'tpu7x:2x2x1'\?$"):
        Target(name=f"{name}:2x2x1")


@pytest.mark.parametrize(
    ("layout", "number", "mesh"),
    [
        ("context*", 8, "context8"),
        ("context*", 1, "context1"),
        ("fsdp*_tensor2", 128, "fsdp64_tensor2"),
        ("tensor2_fsdp*_expert4", 8, "tensor2_fsdp1_expert4"),
        ("dp*_tp2", 8, "dp4_tp2"),
        ("fsdp_transpose=*,tensor=2", 8, "fsdp_transpose=4,tensor=2"),
        ("dp=*:explicit,tp=2", 8, "dp=4:explicit,tp=2"),
        ("none", 4, "none"),
        ("context4", 4, "context4"),
        ("context4", 8, "context4"),
    ],
)
def test_a_layout_is_spread_over_the_devices(layout: str, number: int, mesh: str) -> None:
    assert spread(layout, number) == MeshSpec.parse(mesh)


@pytest.mark.parametrize(
    ("layout", "number", "line"),
    [
        ("context8", 4, "layout 'context8' does not fit 4 devices; its fixed axes need 8"),
        ("fsdp*_tensor3", 8, "layout 'fsdp*_tensor3' does not fit 8 devices; its fixed axes need 3"),
        ("fsdp*_tensor16", 8, "layout 'fsdp*_tensor16' does not fit 8 devices; its fixed axes need 16"),
        ("fsdp*_tensor*", 8, "layout 'fsdp*_tensor*' has 2 stars; expected at most one size left open"),
    ],
)
def test_layouts_that_do_not_fit(layout: str, number: int, line: str) -> None:
    with pytest.raises(MeshError, match=f"^{re.escape(line)}$"):
        spread(layout, number)


@pytest.mark.parametrize("layout", ["", "*", "context", "rows_of*", "context*_context2"])
def test_malformed_layouts(layout: str) -> None:
    with pytest.raises(MeshError, match=r"^mesh "):
        fixed_part(layout)


MATCHING = ("*", "cpu", "tpu", "cpu*", "cpu:8", "tpu7x:*", "v5*", "v5[ep]:*", "?5e:2x2", "*:2x2x1", "v5p:4x4x4", "tpu*")


@pytest.mark.parametrize("pattern", MATCHING)
def test_a_pattern_of_known_generations(pattern: str) -> None:
    assert can_match(pattern)


@pytest.mark.parametrize("pattern", ["tpu7:2x2x1", "tpu7:*", "v5p", "v7*", "gpu", "TPU7x:*", "tpu7x:2x", ""])
def test_a_pattern_that_matches_no_target(pattern: str) -> None:
    assert not can_match(pattern)
