"""What may become a golden, who may accept it, and what is retained of the one before."""

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.errors import SamebitsError
from samebits.host.git import author, head_commit, is_dirty
from samebits.host.permit import Permit
from samebits.train.golden.accept import GoldenCandidate, accept, confirm, make_golden, permit
from samebits.train.golden.check import check_golden
from samebits.train.golden.record import DamagedGolden, golden_path, read_golden
from samebits.train.record import RunRecord
from tests.support.golden_samples import (
    CONFIG,
    ELSEWHERE,
    HERE,
    LOSS_BOUND,
    allowed,
    evidence,
    golden,
    model,
    run_record,
)
from tests.support.toy_model import commit, git, toy, write_tree

NOBODY: dict[str, str] = {}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("tree"))


def ask(root: Path, reason: str = "right", steps: int = 20, variables: dict[str, str] = NOBODY) -> Permit:
    where = toy(root / "suites" / "model")
    return permit(where, root, reason=reason, author_given="A", steps=steps, variables=variables)


def test_an_honest_request_is_permitted(shared: Path) -> None:
    got = ask(shared, reason=" two\nlines ")
    assert (got.author, got.reason, got.commit) == ("A", "two lines", head_commit(shared))
    assert len(got.commit) == 40 and len(got.date) == 10
    got.still()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"variables": {"CI": "true"}}, "CI=true: goldens are not accepted in CI"),
        ({"reason": " "}, "--reason is empty"),
        ({"steps": 19}, "--steps 19: a golden needs at least 20"),
    ],
)
def test_requests_that_are_refused(asked: dict[str, object], message: str, shared: Path) -> None:
    with pytest.raises(SamebitsError) as said:
        ask(shared, **asked)  # type: ignore[arg-type]
    assert str(said.value).startswith(message) and said.value.exit_code == 2


def test_a_dirty_tree_is_refused_but_for_goldens(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    (root / "suites/model/goldens/cpu").mkdir(parents=True)
    (root / "suites/model/goldens/cpu/toy__one.json").write_text("{}")
    got = ask(root)
    (root / "suites/model/__init__.py").write_text("MODEL = 1\n")
    (root / "new file.py").write_text("")
    with pytest.raises(SamebitsError, match=r"is dirty \(.* and 1 more\): what is accepted names its commit"):
        ask(root)
    with pytest.raises(SamebitsError, match="is dirty"):
        got.still()
    commit(root)
    ask(root)
    with pytest.raises(SamebitsError, match="is at another commit than when the run began"):
        got.still()


def test_git_is_asked_about_the_tree_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_tree(tmp_path / "tree")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as inside a hook
    assert is_dirty(root) == []
    (root / "x").write_text("")
    assert is_dirty(root) == ["x"]
    assert is_dirty(root, root / "suites") == ["x"]
    with pytest.raises(SamebitsError, match=r"git status says: fatal: not a git repository") as said:
        is_dirty(tmp_path)
    assert said.value.exit_code == 2


def test_outside_git_there_is_no_commit_to_name(tmp_path: Path) -> None:
    line = (
        f"'{tmp_path}' is in no git repository; what is accepted names its commit: accept in a tree that is committed"
    )
    with pytest.raises(SamebitsError, match=f"^{re.escape(line)}$"):
        ask(tmp_path)


def test_the_author_is_gits_unless_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_tree(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    if author(root) is None:  # unless the system itself names one
        with pytest.raises(SamebitsError, match="git names no author"):
            permit(model(root), root, reason="r", author_given=None, steps=20, variables={})
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    assert author(root) == "Ada <ada@example.org>"
    got = permit(model(root), root, reason="r", author_given=None, steps=20, variables={})
    assert got.author == "Ada <ada@example.org>"


def put(root: Path, run: RunRecord, reason: str = "made by hand", **more: object) -> object:
    here = more.pop("here", HERE)
    proof = more.pop("proof", None) or evidence(run, here)  # type: ignore[arg-type]
    return accept(model(root), "toy", CONFIG, run, proof, here, allowed(root, reason))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "message", "code"),
    [
        (run_record(loss={7: math.nan}), "loss at step 7 is not finite", 3),
        (run_record(loss={20: math.inf}), "loss at step 20 is not finite", 3),
        (run_record(scale={3: math.nan}), "grad_norm at step 3 is not finite", 3),
        (run_record(19), "19 steps; expected at least 20", 2),
        (run_record(25, leaves=("w",)), "the run has no 'gradient/b' any more (2 lost)", 2),
        (run_record(24), "24 steps, and the golden has 25; give --steps 25", 2),
    ],
)
def test_runs_that_are_refused(run: RunRecord, message: str, code: int, tmp_path: Path) -> None:
    put(tmp_path, run_record(25))
    before = golden_path(model(tmp_path), HERE, "toy", "one").read_bytes()
    with pytest.raises(SamebitsError) as said:
        put(tmp_path, run, proof=evidence(run_record()))
    assert message in str(said.value) and said.value.exit_code == code
    assert golden_path(model(tmp_path), HERE, "toy", "one").read_bytes() == before


def test_a_bound_tighter_than_the_spread_is_refused(tmp_path: Path) -> None:
    run = run_record()
    tight = replace(evidence(run), loss_bound=(*(LOSS_BOUND,) * 19, 3))
    with pytest.raises(
        DamagedGolden, match=r"loss_bound\[19\] is 3 ulps, tighter than the spread of 4 seen at step 20"
    ):
        put(tmp_path, run, proof=tight)
    assert not golden_path(model(tmp_path), HERE, "toy", "one").exists()


def test_a_damaged_file_is_not_overwritten(tmp_path: Path) -> None:
    put(tmp_path, run_record())
    path = golden_path(model(tmp_path), HERE, "toy", "one")
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)
    with pytest.raises(DamagedGolden, match="no JSON at line"):
        put(tmp_path, run_record(nudge={20: 1}))
    assert path.read_bytes() == half


def test_the_same_run_writes_nothing(tmp_path: Path) -> None:
    assert put(tmp_path, run_record()).change == "new"  # type: ignore[attr-defined]
    path = golden_path(model(tmp_path), HERE, "toy", "one")
    before = os.stat(path).st_mtime_ns
    assert put(tmp_path, run_record(), "again").change == "unchanged"  # type: ignore[attr-defined]
    assert os.stat(path).st_mtime_ns == before


def test_history_is_kept(tmp_path: Path) -> None:
    path = golden_path(model(tmp_path), HERE, "toy", "one")
    put(tmp_path, run_record(), "first")
    done = put(tmp_path, run_record(nudge={20: 1}), "second")
    assert (done.change, done.first_step, done.leaves) == ("changed", 20, ("loss",))  # type: ignore[attr-defined]
    assert done.old_loss != done.new_loss  # type: ignore[attr-defined]
    put(tmp_path, run_record(scale={7: 2.0}), "third")
    last = read_golden(path)
    assert [one.reason for one in last.history] == ["first", "second"]
    assert last.accepted.reason == "third"
    assert [one.first_changed_step for one in (*last.history, last.accepted)] == [None, 20, 7]
    assert last.history[0].max_relative_change is None
    assert last.history[1].max_relative_change == pytest.approx(2**-23, rel=1)
    assert last.accepted.max_relative_change == pytest.approx(0.37, abs=0.01)  # of the norm of all gradients
    assert [one.last_loss for one in last.history] == [
        run.steps[-1].loss_hex for run in (run_record(), run_record(nudge={20: 1}))
    ]


def test_a_longer_window_is_compared_as_far_as_it_was(tmp_path: Path) -> None:
    put(tmp_path, run_record(25))
    done = put(tmp_path, run_record(30))
    assert (done.change, done.first_step, done.max_relative) == ("same bits", None, 0.0)  # type: ignore[attr-defined]
    assert read_golden(golden_path(model(tmp_path), HERE, "toy", "one")).window == 30


def test_the_same_bits_elsewhere_keep_who_saw_them(tmp_path: Path) -> None:
    put(tmp_path, run_record())
    assert put(tmp_path, run_record(), here=ELSEWHERE).change == "same bits"  # type: ignore[attr-defined]
    path = golden_path(model(tmp_path), HERE, "toy", "one")
    assert [one.environment for one in read_golden(path).evidence.seen] == [HERE.digest(), ELSEWHERE.digest()]
    put(tmp_path, run_record(nudge={3: 1}))
    assert [one.environment for one in read_golden(path).evidence.seen] == [HERE.digest()]


def test_another_environment_confirms(tmp_path: Path) -> None:
    path, toys = golden_path(model(tmp_path), HERE, "toy", "one"), model(tmp_path)
    with pytest.raises(SamebitsError, match="is missing: there is nothing to confirm"):
        confirm(toys, "toy", CONFIG, run_record(), ELSEWHERE, allowed(tmp_path))
    put(tmp_path, run_record())
    before = read_golden(path)
    near = run_record(nudge={4: 2})
    assert confirm(toys, "toy", CONFIG, near, ELSEWHERE, allowed(tmp_path)).change == "confirmed"
    assert confirm(toys, "toy", CONFIG, near, ELSEWHERE, allowed(tmp_path)).change == "unchanged"
    after = read_golden(path)
    assert [(one.environment, one.max_ulp) for one in after.evidence.seen] == [
        (HERE.digest(), 0),
        (ELSEWHERE.digest(), 2),
    ]
    assert (after.steps, after.accepted, after.environment) == (before.steps, before.accepted, before.environment)
    assert "evidence of one" not in check_golden(after, near, ELSEWHERE).message
    with pytest.raises(SamebitsError, match="is not confirmed: loss changed at step 4 by 99 ulps"):
        confirm(toys, "toy", CONFIG, run_record(nudge={4: 99}), replace(HERE, devices=2), allowed(tmp_path))


def test_a_golden_says_all_that_it_must() -> None:
    run = run_record()
    candidate = GoldenCandidate(matrix="toy", config=CONFIG, run=run, evidence=evidence(run), here=HERE)
    made, _ = make_golden(model(Path()), candidate, allowed(Path()), None)
    assert made.values["mesh"] == "data1" and made.config_digest == CONFIG.digest()
    assert made.environment == HERE and made.name == "toy/one"
    assert golden().content and not made.content
