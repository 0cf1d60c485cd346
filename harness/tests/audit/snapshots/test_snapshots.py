"""Snapshots of verdicts: a lost bit fails in its own environment, is only reported elsewhere, and files are sealed."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.snapshots import (
    AcceptedVerdicts,
    Processor,
    accept_verdicts,
    compare_to_snapshots,
    digest_of,
    exceeds_contract,
    grouped,
    read_snapshot,
    snapshot_path,
)
from samebits.errors import CouldNotRun, RequestError, SamebitsError
from samebits.host.permit import Permit, permit_in
from samebits.schema.finding import Finding
from tests.support.documents import toy_result
from tests.support.golden_samples import ELSEWHERE, HERE
from tests.support.invoke import samebits, samebits_process

CHIP = Processor(model="GenuineIntel 6 207", cpus=2)


def one(**changes: Any) -> Finding:
    """A result with equal bits whose contract is `rounding`."""
    return toy_result(**{"required": "rounding", **changes})


LOST = one(verdict="rounding", mismatches=3)


class Still(Permit):
    """A permit of a tree that is in no repository."""

    def still(self) -> None:
        """It is."""


def accepted(
    root: Path, results: Sequence[Finding], reason: str = "seen on this machine", **here: Any
) -> AcceptedVerdicts:
    permit = Still(root=root, folder=root, commit="c" * 40, author="A", reason=reason, date="2026-01-31")
    return accept_verdicts("toy", root, results, here.get("surroundings", HERE), here.get("processor", CHIP), permit)


def held(root: Path, *results: Finding, surroundings: Any = HERE, processor: Processor = CHIP) -> Any:
    return compare_to_snapshots(results, {"toy": root}, surroundings, processor)


def test_a_lost_bit_fails_in_its_own_environment(tmp_path: Path) -> None:
    accepted(tmp_path, [one(), one(case="other")])
    (found, kept), verdicts, problems = held(tmp_path, LOST, one(case="other"))
    assert (found.ruling.ok, found.failed, found.ruling.snapshot) == (False, True, "bitwise")
    assert found.ruling.reason == (
        "these bits were equal here before: bitwise, now rounding; accepted 2026-01-31: seen on this machine"
    )
    assert kept.ruling.ok
    assert kept.ruling.snapshot == "bitwise"
    assert (verdicts.held, verdicts.lost, problems) == (1, 1, [])
    assert verdicts.notes() == []


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"surroundings": ELSEWHERE},
        {"surroundings": replace(HERE, versions={**HERE.versions, "jaxlib": "0.12.0"})},
        {"surroundings": replace(HERE, flags={**HERE.flags, "XLA_FLAGS": "--xla_cpu_max_isa=AVX"})},
        {"surroundings": replace(HERE, settings={"jax_enable_x64": "True"})},
        {"processor": Processor(model="AuthenticAMD 25 1", cpus=2)},
        {"processor": Processor(model=CHIP.model, cpus=16)},
    ],
    ids=["instruction sets", "jaxlib", "flags", "configuration", "processor", "threads"],
)
def test_elsewhere_it_is_reported_and_does_not_fail(tmp_path: Path, elsewhere: dict[str, Any]) -> None:
    accepted(tmp_path, [one()])
    (found,), verdicts, _ = held(tmp_path, LOST, **elsewhere)
    assert found == LOST
    assert verdicts.notes() == ["snapshot: no accepted verdicts for this environment; 1 pair has verdicts for 1 other"]


def test_environments_stand_side_by_side(tmp_path: Path) -> None:
    accepted(tmp_path, [one()])
    assert accepted(tmp_path, [LOST], surroundings=ELSEWHERE).change == "new"
    snapshot = read_snapshot(snapshot_path(tmp_path, HERE, "toy"))
    assert [known.digest for known in snapshot.environments] == [digest_of(HERE, CHIP), digest_of(ELSEWHERE, CHIP)]
    assert not held(tmp_path, LOST)[0][0].ruling.ok
    assert held(tmp_path, LOST, surroundings=ELSEWHERE)[0][0].ruling.ok


def test_more_than_was_accepted_can_be_accepted(tmp_path: Path) -> None:
    accepted(tmp_path, [LOST, one(case="other")])
    _, verdicts, _ = held(tmp_path, one(), one(case="other"))
    assert verdicts.notes() == [
        "snapshot: 1 more results have equal bits beyond their contract and can be accepted: "
        "samebits accept --verdicts --reason '...' toy"
    ]
    assert held(tmp_path, LOST)[1].notes() == []


def test_only_what_lies_above_its_contract_is_recorded(tmp_path: Path) -> None:
    promised = [one(required="bitwise", leaf="promised"), one(verdict="proved", leaf="more"), LOST]
    assert [exceeds_contract(result) for result in promised] == [False, True, False]
    done = accepted(tmp_path, promised)
    (known,) = read_snapshot(Path(done.path)).environments
    assert [(leaves.leaf, leaves.points) for leaves in known.equal] == [("more", ("small float32 data1 auto",))]


def test_history_stays_and_what_did_not_run_stays_too(tmp_path: Path) -> None:
    accepted(tmp_path, [one(), one(case="other")], "first")
    again = accepted(tmp_path, [one(), one(case="other")], "again")
    assert (again.change, again.equal) == ("unchanged", 2)
    narrowed = accepted(tmp_path, [LOST], "a newer compiler sums in another order")
    assert (narrowed.change, narrowed.equal, narrowed.lost) == ("changed", 1, 1)
    (known,) = read_snapshot(Path(narrowed.path)).environments
    assert [one.reason for one in known.history] == ["first"]
    assert known.accepted.lost == 1
    assert held(tmp_path, LOST)[0][0].ruling.ok
    assert not held(tmp_path, one(case="other", verdict="rounding", mismatches=1))[0][0].ruling.ok


def test_a_failing_pair_is_not_accepted(tmp_path: Path) -> None:
    wrong = one(leaf="x", verdict="different", ok=False)
    with pytest.raises(
        RequestError, match="verdicts of 'toy' are not accepted: 2 of 3 results fail; the first is diff"
    ):
        accepted(tmp_path, [one(), wrong, one(leaf="y", verdict="error", ok=False)])
    with pytest.raises(CouldNotRun, match="1 of 2 results fail; the first is error"):
        accepted(tmp_path, [one(), one(verdict="error", ok=False)])
    with pytest.raises(RequestError, match="nothing was compared"):
        accepted(tmp_path, [one(verdict="skipped", ok=False)])
    assert not snapshot_path(tmp_path, HERE, "toy").exists()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d["environments"][0]["equal"][0]["points"].pop(), "content is not the digest of the rest"),
        (lambda d: d["environments"][0]["accepted"].update(reason="better"), "content is not the digest of the rest"),
        (lambda d: d.update(extra=1), r"the key \$.extra is unknown"),
        (lambda d: d.update(schema="samebits-verdicts/2"), "schema is 'samebits-verdicts/2'"),
        (lambda d: d["environments"][0].pop("digest"), "missing required field `digest`"),
    ],
)
def test_an_edited_file_is_rejected_by_name(tmp_path: Path, edit: Callable[[Any], Any], message: str) -> None:
    path = Path(accepted(tmp_path, [one(), one(case="other")]).path)
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    with pytest.raises(SamebitsError, match=message):
        read_snapshot(path)
    (found,), _, (problem,) = held(tmp_path, LOST)
    assert found == LOST
    assert problem.exit_code == 2
    assert str(path) in problem.message
    before = path.read_text()
    with pytest.raises(SamebitsError):
        accepted(tmp_path, [one()])
    assert path.read_text() == before


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = Path(accepted(tmp_path, [one()]).path)
    text = path.read_text()
    path.write_text(text[: text.index('"author"') + 12])
    with pytest.raises(SamebitsError, match=r"no JSON at line \d+: .*; restore the file"):
        read_snapshot(path)


def test_a_file_resealed_by_hand_still_has_to_keep_the_rules(tmp_path: Path) -> None:
    from samebits.schema.json_text import content_digest

    path = Path(accepted(tmp_path, [one()]).path)
    data = json.loads(path.read_text())
    data["environments"][0]["surroundings"]["instruction_sets"] = ["avx512f"]
    data["content"] = content_digest(data)
    path.write_text(json.dumps(data))
    with pytest.raises(SamebitsError, match=r"environments\[0\].digest is not that of its surroundings"):
        read_snapshot(path)


def test_the_file_is_compact(tmp_path: Path) -> None:
    """A thousand results of one leaf take a line each, and nothing more."""
    many = [one(case=f"case{number:03}") for number in range(1000)]
    path = Path(accepted(tmp_path, many).path)
    assert path.stat().st_size < 60_000
    assert len(grouped({("twice", "forward", "out", str(n)) for n in range(3)})) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variables": {"CI": "1"}}, "CI=1: verdicts are not accepted"),
        ({"reason": " "}, "--reason is empty"),
    ],
)
def test_who_may_not_accept(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {"things": "verdicts", "reason": "r", "author_given": "A", "variables": {}}
    with pytest.raises(RequestError, match=message):
        permit_in(tmp_path, tmp_path, **{**plain, **changes})


PAIR = """
from samebits import Arg, Case, Contract, Pair
PAIR = Pair(
    name="total", reference="total", variants=("other",),
    args={"x": Arg(shape=("rows", "columns"))}, cases=(Case(id="small", sizes={"rows": 8, "columns": 33}),),
    dtypes=("float32",), meshes=("data1",), modes=("auto",), gradients=False,
    contracts=(Contract(lowest="rounding", reason="sums may be reordered", error_ratio=100.0),),
)
"""
SAME = "def other(x):\n    return (x * 3.0).sum(1) + 0 * x[:, 0]\n"
REORDERED = "def other(x):\n    return (x[:, :16] * 3.0).sum(1) + (x[:, 16:] * 3.0).sum(1)\n"


def total_tree(root: Path) -> Path:
    """A tree in git with one pair of equal bits under a contract of rounding."""
    for folder in ("reference_impls", "optimized_impls", "suites"):
        (root / folder).mkdir()
    (root / "reference_impls" / "total.py").write_text("def total(x):\n    return (x * 3.0).sum(1)\n")
    (root / "optimized_impls" / "total.py").write_text(SAME)
    (root / "suites" / "test_total.py").write_text(PAIR)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "a tree")
    return root


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


@pytest.mark.slow
def test_from_accept_to_a_lost_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way by the command line: accepted, held, lost."""
    monkeypatch.delenv("CI", raising=False)
    root = total_tree(tmp_path)
    words = ("accept", "--verdicts", "--root", root, "--author", "A", "--variant", "other", "total")
    assert "--reason is empty" in samebits(*words).err
    done = samebits(*words, "--reason", "seen here")
    assert (done.code, "total: new: 1 result with equal bits" in done.out) == (0, True), done.err
    report = root.parent / "report.json"
    assert samebits("check", "total", "--root", root, "--json", report).code == 0
    assert json.loads(report.read_text())["snapshot"]["held"] == 1
    (root / "optimized_impls" / "total.py").write_text(REORDERED)
    assert "is dirty" in samebits(*words, "--reason", "again").err
    lost = samebits_process("check", "total", "--root", root, "--variant", "other")  # the other module is new there
    assert lost.code == 1
    assert "these bits were equal here before: bitwise, now rounding" in lost.out
    assert list((root / "suites" / "verdicts").rglob("*.json")) == [
        root / "suites" / "verdicts" / HERE.folder / "total.json"
    ]


def test_wrong_requests_are_one_line() -> None:
    ended = samebits("accept", "rope", "--reason", "r")
    assert ended.code == 2
    assert ended.lines == ["samebits: name what to accept: --verdicts; training runs have `samebits golden accept`"]
    ended = samebits("accept", "--verdicts", "module:PAIR", "--reason", "r")
    assert (ended.code, "name a pair of the tree, not module:PAIR" in ended.err) == (2, True)
