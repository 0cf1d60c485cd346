"""Claims about compiled programs: how they are parsed, judged and rejected; which sides and targets they name."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from samebits.compile.compared_case import compare_sides, option_effect
from samebits.errors import DeclarationError
from samebits.schema.case import Arg, Case
from samebits.schema.compile_statement import (
    REFERENCE,
    VARIANT,
    Claim,
    Statement,
    compiled_side,
)
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, SideBySide, ratio
from samebits.schema.real_size import RealSize

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
    return compare_sides(PLAIN, variant, SIDES if sides is None else sides, claims)


# What is said of `ring`, whether it holds (None: it cannot be told), and what is seen.
SAID: dict[str, tuple[Statement, bool | None, str]] = {
    "gathers == 0": (VARIANT.gathers == 0, True, "0"),
    "while_loops == 0": (VARIANT.while_loops == 0, False, "1"),
    "scatters == 0": (VARIANT.scatters == 0, True, "0"),
    "copies == 0": (VARIANT.copies == 0, False, "2"),
    "sparsecore == 0": (VARIANT.sparsecore == 0, True, "0"),
    "collectives == {}": (VARIANT.collectives == {}, False, "collective-permute 2"),
    "while_loops == 1": (VARIANT.while_loops == 1, True, "1"),
    "while_loops > 1": (VARIANT.while_loops > 1, False, "1"),
    "copies >= 2": (VARIANT.copies >= 2, True, "2"),
    "copies < 2": (VARIANT.copies < 2, False, "2"),
    "temp_bytes <= 4 MB": (VARIANT.temp_bytes <= 4e6, True, "4.0 MB"),
    "temp_bytes <= 3.9 MB": (VARIANT.temp_bytes <= 3.9e6, False, "4.0 MB"),
    "temp_bytes >= 4 MB": (VARIANT.temp_bytes >= 4000e3, True, "4.0 MB"),
    "temp_bytes < 5 MB": (VARIANT.temp_bytes < 0.005e9, True, "4.0 MB"),
    "temp_bytes == 4 MB": (VARIANT.temp_bytes == 4e6, True, "4.0 MB"),
    "temp_bytes <= 0.02 x reference": (
        VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes,
        True,
        "4.0 MB, 0.02 x reference",
    ),
    "temp_bytes <= 0.019 x reference": (
        VARIANT.temp_bytes <= 0.019 * REFERENCE.temp_bytes,
        False,
        "4.0 MB, 0.02 x reference",
    ),
    "temp_bytes < 1 x twin": (VARIANT.temp_bytes < compiled_side("twin").temp_bytes, False, "4.0 MB, 1 x twin"),
    "bytes_accessed == 2 x reference": (
        VARIANT.bytes_accessed == 2 * REFERENCE.bytes_accessed,
        True,
        "2 000.0 MB, 2 x reference",
    ),
    "wire_bytes <= 0.34 x plain": (
        VARIANT.wire_bytes <= 0.34 * compiled_side("plain").wire_bytes,
        True,
        "3.0 MB, 0.333 x plain",
    ),
    "while_loops <= 3 x reference": (VARIANT.while_loops <= 3 * REFERENCE.while_loops, False, "1, reference has none"),
    "loop_turns <= 7": (VARIANT.loop_turns <= 7, None, "the compiler gives no figure for loop_turns"),
    "optimal_seconds <= 1": (VARIANT.optimal_seconds <= 1, None, "the compiler gives no figure for optimal_seconds"),
    "peak_bytes <= 1 x reference": (
        VARIANT.peak_bytes <= REFERENCE.peak_bytes,
        None,
        "the compiler gives no figure for peak_bytes",
    ),
    "same program as reference": (VARIANT.program == REFERENCE.program, False, "another program"),
    "other program than reference": (VARIANT.program != REFERENCE.program, True, "another program"),
    "same program as twin": (VARIANT.program == compiled_side("twin").program, True, "the same program"),
    "other program than twin": (VARIANT.program != compiled_side("twin").program, False, "the same program"),
    "same program as plain": (VARIANT.program == compiled_side("plain").program, False, "another program"),
    'collectives == {"collective-permute": 2}': (
        VARIANT.collectives == {"collective-permute": 2},
        True,
        "collective-permute 2",
    ),
    'collectives == {"collective-permute": 1}': (
        VARIANT.collectives == {"collective-permute": 1},
        False,
        "collective-permute 2",
    ),
}


@pytest.mark.parametrize("text", SAID)
def test_each_form_is_judged_and_shown(text: str) -> None:
    statement, holds, got = SAID[text]
    (judged,) = held(Claim(shows=statement, source="us")).expectations
    assert (judged.shows, judged.holds, judged.got) == (text, holds, got)
    assert judged.ok is (holds is True)


@pytest.mark.parametrize("text", SAID)
def test_a_finding_must_come_out_false(text: str) -> None:
    statement, holds, _ = SAID[text]
    (judged,) = held(Claim(shows=statement, source="a pull request", finding="seen otherwise")).expectations
    assert judged.ok is (holds is False)


def test_no_figure_on_the_other_side_cannot_be_told() -> None:
    (judged,) = compare_sides(
        replace(PLAIN, temp_bytes=None), RING, SIDES | {"plain": replace(PLAIN, temp_bytes=None)},
        [Claim(shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes, source="us")],
    ).expectations  # fmt: skip
    assert (judged.holds, judged.ok, judged.got) == (None, False, "reference has no figure for temp_bytes")


@pytest.mark.parametrize("fields", [{"source": ""}, {"source": " "}, {"source": "us", "finding": " "}])
def test_an_empty_source_or_finding_is_refused(fields: dict[str, str]) -> None:
    line = "claim 'gathers == 0' has an empty source or finding; write who says so, or what was found"
    with pytest.raises(DeclarationError, match=f"^{re.escape(line)}$"):
        Claim(shows=VARIANT.gathers == 0, **fields)


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
    assert bool(held(Claim(shows=VARIANT.gathers == 0, source="us", **fields)).expectations) is spoken_of


def test_a_compiler_without_version_matches_the_open_pattern() -> None:
    nameless = replace(RING, compiler=None)
    claims = (
        Claim(shows=VARIANT.gathers == 0, source="us"),
        Claim(shows=VARIANT.copies == 0, source="us", versions="0.*"),
    )
    assert [one.shows for one in held(*claims, variant=nameless).expectations] == ["gathers == 0"]


def test_only_what_names_the_reference_is_said_of_it() -> None:
    of_all, of_it = (
        Claim(shows=VARIANT.copies == 0, source="us"),
        Claim(shows=VARIANT.gathers == 1, source="us", variant="plain"),
    )
    assert [one.shows for one in held(of_all, of_it).expectations] == ["copies == 0"]
    itself = held(of_all, of_it, variant=PLAIN)
    assert [(one.shows, one.ok) for one in itself.expectations] == [("gathers == 1", True)]
    assert (itself.reason, itself.verdict, itself.same_order) == ("the reference itself", None, True)


def test_a_claim_about_a_side_that_was_not_compiled_is_left_out() -> None:
    claims = (
        Claim(shows=VARIANT.program == compiled_side("twin").program, source="us"),
        Claim(shows=VARIANT.temp_bytes <= compiled_side("twin").temp_bytes, source="us"),
    )
    assert len(held(*claims).expectations) == 2
    assert held(*claims, sides={"plain": PLAIN, "ring": RING}).expectations == ()
    alone = (VARIANT.program == compiled_side("twin").program).judge({"ring": {"program": "bb"}}, "ring", "plain")
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
    found = option_effect(RING, given)
    assert (found.changed, found.before, found.after) == (True, {"copies": 2}, {"copies": 5})
    assert {name: tuple(both) for name, both in found.operations.items()} == {"copy": (2, 5)}
    assert found.options == {"xla_some": "true"}
    ignored = option_effect(RING, replace(RING, options={"xla_some": "true"}))
    assert (ignored.changed, ignored.before, ignored.operations) == (False, {}, {})


@pytest.mark.parametrize(
    ("first", "second", "found"), [(1, 3, 0.3333), (0, 3, 0.0), (3, 0, None), (None, 3, None), (3, None, None)]
)
def test_ratios(first: float | None, second: float | None, found: float | None) -> None:
    assert ratio(first, second) == found


def plain(x: Any) -> Any:
    return x * 2


def fused(x: Any) -> Any:
    return x + x


def declared(target: str, *targets: str) -> Pair:
    claim = Claim(shows=VARIANT.while_loops == 0, source="measured", target=target)
    real = RealSize(
        case=Case(id="large", sizes={"rows": 64}), layout="data*", dtype="float32", targets=targets, claims=(claim,)
    )
    return Pair(
        name="rope",
        reference=plain,
        variants={"fused": fused},
        args={"x": Arg(shape=("rows",))},
        cases=(Case(id="small", sizes={"rows": 8}),),
        dtypes=("float32",),
        compiled=(real,),
    )


def test_a_misspelt_target_is_told_what_to_write() -> None:
    with pytest.raises(DeclarationError) as caught:
        declared("tpu7:2x2x1", "cpu", "v5e:2x2")
    assert str(caught.value) == (
        "pair 'rope', real size 'large', claim 'while_loops == 0': target=tpu7:2x2x1 matches nothing; expected some of "
        "cpu, tpu, v5e:2x2, v4:2x2x1, v5e:2x2x1, v5p:2x2x1, v6e:2x2x1, tpu7x:2x2x1; did you mean 'tpu7x:2x2x1'?"
    )


@pytest.mark.parametrize("target", ["v5p:*", "tpu", "*", "new:2x*", "cpu"])
def test_declared_targets_and_known_generations_are_left(target: str) -> None:
    assert declared(target, "v5e:2x2", "new:2x2").compiled[0].claims[0].target == target
