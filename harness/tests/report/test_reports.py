"""The reports that people read, from documents made by hand."""

import io
from dataclasses import replace
from typing import Any

import pytest

from samebits.report.check import CAP, Document, failures, rows
from samebits.report.failure import point_block
from samebits.report.terminal import console
from samebits.report.words import short_meshes
from samebits.schema.difference import Difference
from samebits.schema.result import Problem
from tests.support.documents import WITNESS, different, document, result
from tests.support.pages import markdown, screen

ROUNDING: dict[str, Any] = {"verdict": "rounding", "required": "rounding", "mismatches": 3, "direction": "gradient"}


def shown(of: Document, width: int = 140, *, verbose: bool = True) -> str:
    return "\n".join([*screen(of, width=width, verbose=verbose), ""])


def test_one_row_per_side_with_counts_per_verdict_and_direction() -> None:
    text = shown(
        document(
            result(variant="einsum"),
            result(mesh="data8"),
            result(mesh="data2", dtype="float32"),
            result(leaf="x", max_ulp=2, error_ratio=1.1, reason="summed backwards", **ROUNDING),
            result(verdict="refused", required="refused", case="odd"),
        )
    )
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[1:8] == [
        "norm",
        "  meshes  data2/8",
        "  dtypes  bfloat16 float32",
        "  modes   auto",
        "  cases   small odd",
        "  side                forward               gradient    cases  meshes  contract",
        "  einsum (reference)  bitwise 1                             1       1  bitwise",
    ]
    assert lines[8] == "  multiply            bitwise 2, refused 1  rounding 1      2       2  rounding"


def test_emulated_operations_are_a_column_where_there_are_any() -> None:
    assert "emulated" not in shown(document(result()))
    text = shown(document(result(emulated=("ragged_all_to_all",)), result(variant="einsum")))
    assert "  multiply            bitwise 1                1       1  bitwise   ragged_all_to_all" in text


def test_a_narrow_terminal_gets_lists_of_verdicts() -> None:
    text = shown(document(result(), different(), result(leaf="x", **ROUNDING)), width=60)
    lines = text.splitlines()
    assert "  multiply" in lines
    assert "    forward bitwise 1, different 1, gradient rounding 1," in lines


def test_rounding_is_shown_with_its_reason_and_worst_value() -> None:
    given = {**ROUNDING, "leaf": "scale", "reason": "summed backwards"}
    text = shown(
        document(
            result(max_ulp=2, error_ratio=1.1, **given),
            result(max_ulp=5, error_ratio=0.5, **{**given, "dtype": "float32"}),
            result(**{**given, "verdict": "bitwise"}),
        )
    )
    assert "Only rounding, accepted by contract:\n  norm: summed backwards\n    multiply, gradient, scale: " in text
    assert "2 of 3 results are only rounding (bfloat16, float32): at most 5 ulps, error 1.1x the reference's\n" in text


def test_only_signs_of_zero_are_not_called_rounding() -> None:
    zeros = (Difference(kind="sign of zero", elements=3, max_ulp=0),)
    given = {**ROUNDING, "leaf": "scale", "reason": "flushed", "error_ratio": 0.0}
    text = shown(document(result(differences=zeros, **given)))
    assert "1 of 1 results differs in the sign of zero alone (bfloat16)\n" in text
    other = (Difference(kind="rounding", elements=3, max_ulp=2), *zeros)
    assert "are only rounding" in shown(document(result(differences=other, **given)))


def test_an_unused_rounding_contract_is_not_listed() -> None:
    assert "Only rounding" not in shown(document(result(required="rounding", reason="summed backwards")))


def test_notes_known_differences_and_skips() -> None:
    known = different(ok=True, exempt=True, reason="first row lost", required="different")
    reason = "mesh 'data16' needs 16 devices and 8 are there"
    skipped = result(verdict="skipped", ok=False, mesh="data16", reason=reason)
    text = shown(document(result(), known, skipped, notes=("a note",)))
    assert "Notes:\n  norm/multiply: 1 known difference: first row lost\n" in text
    assert f"  norm: 1 result on mesh data16 skipped: {reason}\n  a note\n" in text
    assert "  multiply  bitwise 1, different 1 (known), skipped 1" in text
    assert "known differences among them: 1" in text and "all contracts hold, 1 skipped" in text


FAILURE = """\
FAILED  norm/multiply, case small, bfloat16, mesh data2 (auto), forward
  leaf      out['rows']
  verdict   different, required bitwise
  evidence  not rounding: in float64 the sides still differ
  witness   out['rows'][1, 2]: reference=6.4375 (0x40ce)
                                multiply=6.375 (0x40cc)
  input     special
  extent    1 of 40 elements differ, up to 2 ulps apart; class: rounding (2 ulps)
  replay    samebits check norm --variant multiply
"""


def test_the_extent_counts_every_class() -> None:
    """One NaN among thousands of roundings: neither stands for the other."""
    found = different(
        elements=8192,
        mismatches=5000,
        kind="NaN vs number",
        witness=replace(WITNESS, kind="NaN vs number"),
        differences=(
            Difference(kind="rounding", elements=4999, max_ulp=2),
            Difference(kind="NaN vs number", elements=1),
        ),
    )
    assert (
        "  extent    4999 of 8192 elements differ by rounding (up to 2 ulps) and 1 is NaN for a number; "
        "witness: NaN vs number"
    ) in point_block([found])
    assert "  extent    1 of 40 elements differs by rounding (up to 2 ulps)" in point_block(
        [different(elements=40, differences=(Difference(kind="rounding", elements=1, max_ulp=2),))]
    )


def test_a_failure_has_witness_extent_and_replay() -> None:
    text = shown(document(result(), different()))
    assert FAILURE in text
    assert text.endswith(
        "2 results of 1 pair: bitwise 1, different 1; selection of 3 of 12 settings covers every two of case, dtype, "
        "mesh, mode together and every three of dtype, mesh, mode; --full runs all; 1.5 s; 1 fail\n"
        "next: samebits check norm --variant multiply\n"
    )


def test_failing_leaves_of_one_point_share_a_block() -> None:
    lines = point_block([different(), different(leaf="out['sum']")])
    assert [line for line in lines if "leaf" in line] == ["  leaf      out['rows']", "  leaf      out['sum']"]
    assert sum("replay" in line for line in lines) == 1 and lines[-1].startswith("  replay")
    assert FAILURE.removeprefix("FAILED  ").splitlines() == point_block([different()])


def test_one_failure_of_every_kind_is_shown_first() -> None:
    many = [different(case=f"c{n}", devices=8 if n == 0 else 2) for n in range(3 * CAP)]
    points, more = failures([*many, different(variant="slice"), different(direction="gradient")])
    assert (len(points), more) == (CAP, 2 * CAP + 2)
    assert {leaves[0].place.variant for leaves in points} == {"multiply", "slice"}
    assert {leaves[0].place.direction for leaves in points} == {"forward", "gradient"}
    assert "c0" not in {leaves[0].place.case for leaves in points}  # more devices than the others: not the smallest
    text = shown(document(*many))
    assert f"{2 * CAP} more failing points not shown; --json FILE writes all of them" in text


def test_an_error_shows_its_reason_and_no_leaf() -> None:
    error = result(verdict="error", ok=False, leaf="*", reason="raised RuntimeError: no kernel", elements=0)
    assert point_block([error])[1:3] == [
        "  verdict   error, required bitwise",
        "  reason    raised RuntimeError: no kernel",
    ]


@pytest.mark.parametrize(
    ("of", "ending"),
    [
        (document(result(), selected=4, product=4), "all 4 settings ran; 1.5 s; all contracts hold"),
        (document(problems=(Problem(pair="x", message="m"),)), "nothing was checked: 1 problem must be fixed"),
        (document(result(), problems=(Problem(pair="x", message="m"),)), "what ran holds, but 1 problem must be fixed"),
        (document(result(), interrupted=True), "what ran holds"),
        (document(result(verdict="skipped", ok=False)), "nothing was checked"),
        (document(), "nothing was checked"),
    ],
)
def test_the_closing_sentence(of: Document, ending: str) -> None:
    assert shown(of).rstrip().endswith(ending)
    if of.summary.interrupted:
        assert shown(of).splitlines()[-1].startswith("interrupted; ")


def test_what_did_not_run_is_not_counted() -> None:
    """The plan is that of the whole request, also of a shard, and of merged parts that lack points."""
    whole = document(*(result(case=case) for case in ("a", "b", "c")), selected=3, product=3)
    assert "; all 3 settings ran; " in shown(whole)
    rows = (result(case="a"), result(case="a", direction="gradient"), result(case="b"))
    part = replace(document(*rows, selected=3, product=3), shard="1/2")
    assert shown(part).rstrip().endswith("; 2 of 3 settings ran in shard 1/2; 1.5 s; all contracts hold")
    lacking = document(*rows, selected=3, product=12, problems=(Problem(pair="x", message="m"),))
    assert "; 2 of 3 settings ran; " in shown(lacking)


def test_a_shard_without_points_is_not_a_failure() -> None:
    """More jobs than groups of points: what was compared is said of the merged document."""
    empty = replace(document(), shard="7/7")
    assert shown(empty).rstrip().endswith("shard 7/7 has no points of this request; 1.5 s")
    assert markdown(empty).startswith("### samebits check: passed\n\nshard 7/7 has no points of this request; 1.5 s")
    assert (empty.page().state, empty.page().failing) == ("passed", [])
    problem = replace(document(problems=(Problem(pair="x", message="m"),)), shard="7/7")
    for of in (problem, replace(document(interrupted=True), shard="7/7"), replace(empty, pairs=())):
        assert "has no points" not in shown(of)


def test_brackets_are_not_markup_and_replays_are_not_wrapped() -> None:
    long = "samebits check norm --case " + "x" * 300
    text = shown(document(different(reason="[red]stop[/red] :warning:", replay=long)), width=80)
    assert "  reason    [red]stop[/red] :warning:\n" in text
    assert f"  replay    {long}\n" in text


def test_a_pipe_gets_plain_text_of_at_least_140_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert (console(io.StringIO()).width, console(io.StringIO()).is_terminal) == (140, False)
    monkeypatch.setenv("COLUMNS", "90")
    assert console(io.StringIO()).width == 90


def test_markdown_table_and_failures() -> None:
    text = markdown(
        document(
            result(variant="einsum"),
            different(),
            result(leaf="scale", max_ulp=3, error_ratio=1.5, reason="a | b", **ROUNDING),
            problems=(Problem(pair="rope", message="lacks a twin"),),
            notes=("a <note>",),
        )
    )
    lines = text.splitlines()
    assert lines[0] == "### samebits check: failed"
    assert "| norm | einsum (reference) | bitwise 1 |  | 1 | data2 | bfloat16 | auto | bitwise |  |" in lines
    assert "| norm | multiply | different 1 | rounding 1 | 1 | data2 | bfloat16 | auto | rounding |  |" in lines
    assert "jax 0.10.2, jaxlib 0.10.2, numpy 2.4, python 3.11.7; 8 x cpu (cpu), 2 cpus" in text
    assert (
        "| norm | multiply | gradient | scale | 1 of 1 results are only rounding (bfloat16): at most 3 ulps, "
        "error 1.5x the reference's | a \\| b |" in lines
    )
    assert "- problem: rope: lacks a twin" in lines and "- a \\<note\\>" in lines
    first, *rest = FAILURE.removeprefix("FAILED  ").splitlines(keepends=True)
    likely = "  likely    not rounding: in float64 the sides still differ\n"
    assert f"#### Failures\n\n```\n{first}{likely}{''.join(rest)}```\n" in text
    assert all(line.count("|") - line.count("\\|") in (0, 7, 11) for line in lines)


def test_markdown_fence_is_longer_than_any_in_the_text() -> None:
    assert "\n````\nnorm/multiply" in markdown(document(different(reason="```")))


@pytest.mark.parametrize(("interrupted", "state"), [(True, "incomplete"), (False, "passed")])
def test_markdown_says_how_it_ended(interrupted: bool, state: str) -> None:
    assert markdown(document(result(), interrupted=interrupted)).splitlines()[0] == f"### samebits check: {state}"


def test_rows_do_not_count_what_was_skipped() -> None:
    row = rows([result(), result(verdict="skipped", ok=False, mesh="data16", case="other")])[0]
    assert (list(row.cases), list(row.meshes), row.parts("forward")) == (
        ["small"],
        ["data2"],
        [("bitwise", "bitwise 1"), ("skipped", "skipped 1")],
    )


def test_meshes_in_few_words() -> None:
    meshes = ("context8", "expert4_fsdp2", "context1", "context16")
    assert short_meshes(meshes) == "context1/8/16 expert4_fsdp2"
