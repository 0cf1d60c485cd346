"""An old document against a new one: what is worse fails, other changes do not, nothing in common is an error."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.errors import CouldNotRun, RequestError
from samebits.report.changes.diff import compare_documents
from samebits.report.changes.diff_document import VERDICTS, Changed, DiffDocument, Slower
from samebits.report.prove import ProofDocument
from samebits.schema.contract import COMPUTES as DEFAULT
from samebits.schema.result import Problem
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import changed

SAME = result(leaf="same", bits="aa")
ROUNDING = result(verdict="rounding", required="rounding", reason="summed backwards")
BITWISE = changed(ROUNDING, verdict="bitwise")
ERROR = result(leaf="*", verdict="error", ok=False, reason="raised ValueError")
SKIPPED = result(verdict="skipped", ok=False)


def of_kind(found: DiffDocument, change: str) -> list[Changed]:
    return [row for row in found.results if row.change == change]


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
        ((BITWISE,), (changed(ROUNDING, reason="another order of the sum, agreed"),), "fell", 0),
        ((BITWISE,), (changed(ROUNDING, verdict="different", exempt=True),), "fell", 0),
        ((different(),), (different(),), "still fails", 0),
        ((different(verdict="rounding"),), (different(),), "worse failure", 1),
        ((different(),), (changed(ERROR, leaf="out['rows']"),), "worse failure", 1),
        ((different(),), (different(verdict="rounding"),), "still fails", 0),
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
    verdicts = [row.change for row in found.results if row.change in (*VERDICTS, "no longer compared")]
    assert verdicts == ([change] if change else [])
    assert found.exit_code == code
    counts = {name: count for name, count in found.summary.changes.items() if name not in ("contract", "slower")}
    assert counts == ({change: 1} if change else {})
    assert found.summary.failed == (code == 1)


MOVES = result(verdict="proved", undeclared=True)
COMPUTES = result(verdict="rounding", required="rounding", reason=DEFAULT.reason, undeclared=True)


@pytest.mark.parametrize(
    ("old", "new", "declared"),
    [
        (MOVES, COMPUTES, False),
        (changed(MOVES, undeclared=False), COMPUTES, True),
        (MOVES, changed(COMPUTES, undeclared=False, reason="in another order"), True),
        (changed(MOVES, undeclared=None), changed(COMPUTES, undeclared=None), False),  # of an older version
        (changed(MOVES, undeclared=None), changed(ROUNDING, undeclared=None), True),
    ],
)
def test_a_default_that_follows_the_verdict(old: Any, new: Any, declared: bool) -> None:
    found = changes((old,), (new,))
    (row,) = of_kind(found, "fell")
    assert (row.excuse == "as declared", len(of_kind(found, "contract"))) == (declared, declared)
    assert found.exit_code == (not declared)


def test_a_verdict_that_fell_elsewhere_is_no_failure() -> None:
    newer = {**ENVIRONMENT.versions, "jax": "0.12.0"}
    branch = replace(document(SAME, ROUNDING), environment=replace(ENVIRONMENT, versions=newer, cpus=4))
    found = compare_documents(document(SAME, BITWISE), branch)
    assert found.exit_code == 0
    assert [str(change) for change in found.environments] == ["jax 0.10.2 -> 0.12.0", "cpus 2 -> 4"]


def test_another_samebits_is_the_same_environment() -> None:
    other = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "samebits": "0.1.0"})
    found = compare_documents(replace(document(BITWISE), environment=other), document(ROUNDING))
    assert found.summary.same_environment and found.exit_code == 1


def test_the_reference_moved() -> None:
    found = changes(
        (result(bits="1"), result(bits="1", mesh="data4")), (result(bits="2"), result(bits="2", mesh="data4"))
    )
    (moved,) = found.results
    place = moved.place
    assert (moved.change, moved.before, moved.after) == ("other bits", "1", "2") and found.exit_code == 0
    assert (place.pair, place.case, place.leaf, place.variant, place.mesh) == ("norm", "small", "out", "", "")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, ()),
        ({}, {"required": "rounding"}, (("bitwise", "rounding"),)),
        ({}, {"reason": "another order"}, (("bitwise", "bitwise: another order"),)),
        ({}, {"exempt": True, "verdict": "different"}, (("bitwise", "bitwise (a known difference)"),)),
        ({}, {"verdict": "error", "reason": "crashed", "ok": False}, ()),
    ],
)
def test_contracts_are_compared_apart(old: Any, new: Any, expected: Any) -> None:
    found = changes((result(**old),), (result(**new),))
    assert tuple((row.before, row.after) for row in of_kind(found, "contract")) == expected
    assert found.summary.changes.get("contract", 0) == len(expected)


@pytest.mark.parametrize(
    ("before", "after", "slower", "count"),
    [
        (2.0, 4.0, Slower(), 1),
        (2.0, 3.9, Slower(), 0),  # the ratio is not reached
        (0.1, 0.9, Slower(), 0),  # nor is the floor
        (0.1, 0.9, Slower(floor=0.5), 1),
        (2.0, 3.9, Slower(ratio=1.5), 1),
        (4.0, 2.0, Slower(), 0),
    ],
)
def test_slower_never_fails(before: float, after: float, slower: Slower, count: int) -> None:
    leaves = [tuple(result(leaf=leaf, seconds=seconds) for leaf in "ab") for seconds in (before, after)]
    found = compare_documents(document(*leaves[0]), document(*leaves[1]), slower=slower)
    assert [row.change for row in found.results] == ["slower"] * count, "the leaves of a point share its time"
    assert found.exit_code == 0
    assert (found.summary.seconds_before, found.summary.seconds_after) == (before, after)


def test_only_new_problems_count() -> None:
    old, new = Problem(pair="a", message="old"), Problem(pair="b", message="new")
    base = document(SAME, problems=(old,))
    assert compare_documents(base, document(SAME, problems=(old,))).exit_code == 0
    found = compare_documents(base, document(SAME, problems=(old, new)))
    assert (found.exit_code, found.problems, found.summary.failed) == (2, (new,), 1)


@pytest.mark.parametrize(
    ("base", "branch"), [((), (SAME,)), ((SAME,), ()), ((), ()), ((result(pair="a"),), (result(pair="b"),))]
)
def test_nothing_in_common_is_an_error(base: Any, branch: Any) -> None:
    with pytest.raises(CouldNotRun) as error:
        compare_documents(document(*base), document(*branch), files=("a.json", "b.json"))
    assert str(error.value) == (
        f"nothing is compared: a.json has {len(base)} results, b.json {len(branch)}, and they have none in common; "
        "were both made with the same pairs and filters?"
    )


def test_documents_of_two_commands() -> None:
    proofs = ProofDocument(environment=ENVIRONMENT, results=(), problems=())
    with pytest.raises(RequestError) as error:
        compare_documents(document(SAME), proofs, files=("a.json", "b.json"))
    assert str(error.value) == (
        "a.json is a document of `samebits check` and b.json one of `samebits prove`; expected two of one command"
    )


def test_parts_of_a_run_are_named() -> None:
    cut = document(SAME, interrupted=True)
    found = compare_documents(replace(document(SAME), shard="1/2"), cut, files=("a.json", "b.json"))
    assert found.notes == (
        "a.json is shard 1/2; `samebits run merge` joins the shards", "b.json is of a run that was interrupted",
    )  # fmt: skip
