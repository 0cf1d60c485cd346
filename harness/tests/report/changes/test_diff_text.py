"""The comparison in a terminal and for continuous integration: groups, not rows, and the same as the exit code."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from samebits.host.written import Written
from samebits.report.changes.diff import compare_documents, exit_code
from samebits.report.changes.diff_records import DiffDocument
from samebits.report.changes.diff_text import CAP, diff_outcomes, diff_sentence, head_lines, show_diff, times_sentence
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.terminal import console
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import changed

BITWISE = result()
ROUNDING = result(verdict="rounding")


def shown(found: DiffDocument) -> list[str]:
    """The lines in a terminal."""
    to = io.StringIO()
    show_diff(console(to), found)
    return to.getvalue().splitlines()


def test_the_gravest_first() -> None:
    found = compare_documents(document(BITWISE), document(ROUNDING, different()))
    lines = shown(found)
    where = "case small, bfloat16, mesh data2 (auto)"
    assert lines[1] == f"NEW FAILURE  norm/multiply, out['rows']: none -> different; {where}"
    assert lines[2].startswith("  reason    out['rows'][1, 2]: reference=6.4375 (0x40ce)")
    assert lines[3] == "  replay    samebits check norm --variant multiply"
    assert lines[4] == f"FELL  norm/multiply, out: bitwise -> rounding; {where}"
    assert lines[-1] == diff_sentence(found)
    assert diff_sentence(found) == "1 result compared: new failure 1, fell 1; 2 worse"


def test_one_cause_is_one_line() -> None:
    meshes = [f"data{size}" for size in (1, 2, 4, 8)]
    old = [result(mesh=mesh, case=case) for mesh in meshes for case in "ab"]
    lines = shown(
        compare_documents(document(*old), document(*(changed(row, verdict="different", ok=False) for row in old)))
    )
    (failure,) = [line for line in lines if line.startswith("NEW FAILURE")]
    assert failure.endswith("out: bitwise -> different; 8 results: cases a b, bfloat16, data1/2/4/8")


def test_long_lists_are_counted() -> None:
    many = [result(pair=f"p{number}") for number in range(CAP + 3)]
    found = compare_documents(document(*many), document(*(changed(row, verdict="rounding") for row in many)))
    lines = shown(found)
    assert sum(line.startswith("FELL  p") for line in lines) == CAP
    assert "FELL  3 more groups; --html FILE and --json FILE write all of them" in lines


def test_the_head_names_documents_and_environments() -> None:
    newer = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"}, instruction_sets=("avx2", "fma"))
    old = replace(document(BITWISE), written=Written(time="2026-01-31T23:59:59Z", commit="a" * 40))
    found = compare_documents(old, replace(document(ROUNDING), environment=newer), files=("a.json", "b.json"))
    assert head_lines(found) == [
        "check: a.json (2026-01-31 23:59, commit aaaaaaaaaaaa) -> b.json",
        "environment: jax 0.10.2 -> 0.12.0, instruction sets avx2 -> avx2/fma",
    ]
    assert any(line.startswith("FELL, IN ANOTHER ENVIRONMENT  norm/multiply") for line in shown(found))


def test_contracts_bits_times_and_problems_have_lines() -> None:
    old = document(result(bits="11", seconds=1.0))
    new = document(
        result(bits="22", seconds=9.0, required="rounding", reason="agreed"),
        problems=(Problem(pair="b", message="new"),),
    )
    lines = shown(compare_documents(old, new))
    where = "case small, bfloat16, mesh data2 (auto)"
    assert f"CONTRACT  norm/multiply, out: bitwise -> rounding: agreed; {where}" in lines
    assert "OTHER BITS  norm, out: 11 -> 22; case small, bfloat16" in lines
    assert f"SLOWER  norm/multiply: 1.0 s -> 9.0 s (9x); {where}" in lines
    assert "NEW PROBLEM  pair 'b': new" in lines
    assert lines[-1].startswith(
        "1 result compared: contract changed 1, the reference's bits moved in 1 place, slower 1"
    )


def test_no_time_is_no_sentence() -> None:
    assert times_sentence(compare_documents(document(BITWISE), document(BITWISE))) is None


def test_a_declared_fall_is_called_so() -> None:
    found = compare_documents(document(BITWISE), document(changed(ROUNDING, reason="agreed")))
    assert any(line.startswith("FELL, AS DECLARED  norm/") for line in shown(found))


def test_rows_fail_exactly_where_the_exit_code_does() -> None:
    same = result(leaf="same")
    pairs: tuple[tuple[Any, Any], ...] = (((BITWISE,), (ROUNDING,)), ((ROUNDING,), (BITWISE,)), ((), (different(),)))
    for base, branch in pairs:
        found = compare_documents(document(same, *base), document(same, *branch))
        outcomes = diff_outcomes(found, DeclarationLines(()))
        assert all(row.holds for row in outcomes.rows) == (exit_code(found) == 0)
