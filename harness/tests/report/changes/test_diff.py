"""A branch against its base: what is worse fails, what is only news does not, and nothing in common is an error."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from samebits.errors import CouldNotRun
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.diff import DiffDocument, compare_documents, exit_code
from samebits.report.diff_words import CAP, diff_markdown, diff_outcomes, diff_sentence, show_diff
from samebits.report.terminal import console
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result

SAME = result(leaf="same", bits="aa")
ROUNDING = result(verdict="rounding", required="rounding", reason="summed backwards")
BITWISE = replace(ROUNDING, verdict="bitwise")
ERROR = result(leaf="*", verdict="error", ok=False, reason="raised ValueError")
SKIPPED = result(verdict="skipped", ok=False)


def changes(base: Any, branch: Any, **more: Any) -> DiffDocument:
    """The changes of results; both documents have one more that does not change."""
    return compare_documents(document(SAME, *base), document(SAME, *branch, **more))


@pytest.mark.parametrize(
    ("base", "branch", "change", "code"),
    [
        ((result(leaf="out['rows']"),), (different(),), "new failure", 1),
        ((), (different(),), "new failure", 1),
        ((result(leaf="a"), result(leaf="b")), (ERROR,), "new failure", 1),
        ((SKIPPED,), (result(verdict="different", ok=False),), "new failure", 1),
        ((BITWISE,), (ROUNDING,), "fell", 1),
        ((result(verdict="proved"),), (result(),), "fell", 1),
        ((BITWISE,), (replace(ROUNDING, reason="another order of the sum, agreed"),), "fell", 0),
        ((BITWISE,), (replace(ROUNDING, verdict="different", exempt=True),), "fell", 0),
        ((different(),), (different(),), "still fails", 0),
        ((different(),), (replace(ERROR, leaf="out['rows']"),), "still fails", 0),
        ((different(),), (result(leaf="out['rows']"),), "fixed", 0),
        ((ROUNDING,), (BITWISE,), "rose", 0),
        ((), (result(),), "added", 0),
        ((SKIPPED,), (result(),), "added", 0),
        ((result(),), (), "no longer compared", 0),
        ((result(verdict="different", ok=False),), (SKIPPED,), "no longer compared", 0),
        ((result(),), (result(seconds=9.0),), None, 0),
        ((SKIPPED,), (SKIPPED,), None, 0),
        ((ERROR,), (result(leaf="a"), result(leaf="b")), None, 0),
    ],
)
def test_each_change(base: Any, branch: Any, change: str | None, code: int) -> None:
    found = changes(base, branch)
    assert [changed.change for changed in found.results] == ([change] if change else [])
    assert exit_code(found) == code
    assert found.summary.changes == ({change: 1} if change else {})
    assert found.summary.failed == (code == 1)


def test_a_verdict_that_fell_elsewhere_is_no_failure() -> None:
    here = document(SAME, ROUNDING)
    newer = {**ENVIRONMENT.versions, "jax": "0.12.0"}
    branch = replace(here, environment=replace(ENVIRONMENT, versions=newer, cpus=4))
    found = compare_documents(document(SAME, BITWISE), branch)
    assert exit_code(found) == 0
    assert found.notes == (
        "environment: jax was 0.10.2 on the base and is 0.12.0",
        "environment: cpus was 2 on the base and is 4",
    )


def test_another_samebits_is_the_same_environment() -> None:
    other = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "samebits": "0.1.0"})
    found = compare_documents(replace(document(BITWISE), environment=other), document(ROUNDING))
    assert found.summary.same_environment and exit_code(found) == 1


def test_the_reference_moved() -> None:
    found = changes(
        (result(bits="1"), result(bits="1", mesh="data4")), (result(bits="2"), result(bits="2", mesh="data4"))
    )
    (moved,) = found.moved
    assert (moved.pair, moved.case, moved.leaf, moved.before, moved.after) == ("norm", "small", "out", "1", "2")
    assert exit_code(found) == 0
    assert "the reference moved in 1 leaf; nothing is worse than the base" in diff_sentence(found)
    assert "| norm | small bfloat16 | out | 1 | 2 |" in diff_markdown(found)


def test_only_new_problems_count() -> None:
    old, new = Problem(pair="a", message="old"), Problem(pair="b", message="new")
    base = document(SAME, problems=(old,))
    assert exit_code(compare_documents(base, document(SAME, problems=(old,)))) == 0
    found = compare_documents(base, document(SAME, problems=(old, new)))
    assert (exit_code(found), found.problems) == (2, (new,))
    assert "- problem: pair 'b': new" in diff_markdown(found)


@pytest.mark.parametrize(
    ("base", "branch"), [((), (SAME,)), ((SAME,), ()), ((), ()), ((result(pair="a"),), (result(pair="b"),))]
)
def test_nothing_in_common_is_an_error(base: Any, branch: Any) -> None:
    with pytest.raises(CouldNotRun) as error:
        compare_documents(document(*base), document(*branch))
    assert str(error.value) == (
        f"nothing is compared: the base has {len(base)} results, the branch {len(branch)}, and they have none in "
        "common; were both checked with the same pairs and filters?"
    )


def test_words() -> None:
    found = changes((BITWISE,), (ROUNDING, different()))
    text = diff_markdown(found)
    assert text.startswith(
        "### samebits against the base: worse\n\n2 results compared with the base: new failure 1, fell"
    )
    where = "case small, bfloat16, mesh data2 (auto)"
    assert f"| new failure | norm | multiply | {where} | out\\['rows'\\] | none | different |" in text
    assert f"| fell | norm | multiply | {where} | out | bitwise | rounding |" in text
    shown = io.StringIO()
    show_diff(console(shown), found)
    lines = shown.getvalue().splitlines()
    assert lines[0] == f"NEW FAILURE  norm/multiply, {where}, out['rows']: none -> different"
    assert lines[1] == "  replay    samebits check norm --variant multiply"
    assert lines[-1] == diff_sentence(found)
    assert diff_sentence(found).endswith("new failure 1, fell 1; 2 worse than the base")


def test_a_declared_fall_is_called_so() -> None:
    found = changes((BITWISE,), (replace(ROUNDING, reason="agreed"),))
    assert "| fell, as declared | norm |" in diff_markdown(found)


def test_long_lists_are_counted() -> None:
    many = tuple(different(case=f"c{number}") for number in range(CAP + 3))
    assert "- 3 more: new failure" in diff_markdown(changes((), many))


def test_rows_fail_exactly_where_the_exit_code_does() -> None:
    for base, branch in (((BITWISE,), (ROUNDING,)), ((ROUNDING,), (BITWISE,)), ((), (different(),))):
        found = changes(base, branch)
        outcomes = diff_outcomes(found, DeclarationLines(()))
        assert all(row.holds for row in outcomes.rows) == (exit_code(found) == 0)
