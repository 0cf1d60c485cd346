"""`samebits golden` on a tree with a model of two parameters that is trained."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from samebits.cli.golden import golden
from samebits.train.golden.record import read_golden
from tests.support.invoke import Ended, defaults
from tests.support.toy_model import commit, write_tree


def samebits_golden(*words: str | Path) -> Ended:
    """Run a command in this process."""
    result = CliRunner(env={"CI": ""}).invoke(
        golden, [str(word) for word in words], default_map=defaults(words, golden)
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.stderr, result.stderr
    return Ended(code=result.exit_code, out=result.stdout, err=result.stderr)


def goldens(root: Path) -> Path:
    return root / "suites/model/goldens/cpu"


TWO_MATRICES = """
from dataclasses import replace

MODEL = replace(MODEL, matrices=(*MODEL.matrices, replace(MODEL.matrices[0], name="other")))
"""


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree whose goldens of the whole matrix are accepted; not to be changed."""
    root = write_tree(tmp_path_factory.mktemp("golden"))
    words = ("--matrix", "toy", "--reason", "the first run", "--author", "A", "--root", root)
    ended = samebits_golden("accept", *words)
    assert ended.code == 0, ended.err
    return root


def copy(accepted: Path, to: Path, arguments: str = "") -> Path:
    """The same tree elsewhere, with another model but its goldens."""
    write_tree(to, arguments)
    shutil.copytree(accepted / "suites/model/goldens", to / "suites/model/goldens")
    return to


@pytest.mark.slow
def test_what_was_accepted_holds_bit_for_bit(accepted: Path, tmp_path: Path) -> None:
    ended = samebits_golden("check", "--root", accepted, "--json", tmp_path / "r.json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads((tmp_path / "r.json").read_text())
    assert [(one["name"], one["status"], one["lane"]) for one in document["results"]] == [
        ("toy/one", "same", "exact"),
        ("toy/two", "same", "exact"),
    ]
    assert "2 of 2 goldens hold" in ended.out


@pytest.mark.slow
def test_a_matrix_without_goldens_is_not_checked_and_named(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path / "tree")
    model = root / "suites/model/__init__.py"
    model.write_text(model.read_text() + TWO_MATRICES)
    for words, noted in (((), True), (("--matrix", "toy"), False)):
        ended = samebits_golden("check", "--root", root, *words)
        assert ended.code == 0 and "2 of 2 goldens hold" in ended.out, ended.err
        assert ("matrix other has no goldens here: not checked" in ended.out) == noted
    alone = samebits_golden("check", "--root", root, "--matrix", "other", "--config", "one")
    assert alone.code == 1 and "golden 'other/one' is missing on cpu" in alone.out
    assert "not checked" not in alone.out


@pytest.mark.slow
def test_the_parts_together_are_the_whole(accepted: Path) -> None:
    """Each golden is in one part."""
    ended = [samebits_golden("check", "--root", accepted, "--shard", part) for part in ("1/2", "2/2")]
    assert [end.code for end in ended] == [0, 0], [end.err for end in ended]
    assert ["toy/one" in end.out for end in ended] == [True, False]
    assert ["toy/two" in end.out for end in ended] == [False, True]
    nothing = samebits_golden("check", "--root", accepted, "--shard", "3/3")
    assert (nothing.code, nothing.lines) == (
        3,
        ["samebits: no golden was checked: nothing is left for --shard 3/3"],
    )


@pytest.mark.parametrize("part", ["0/4", "5/4", "x"])
def test_a_malformed_part_is_rejected(accepted: Path, part: str) -> None:
    ended = samebits_golden("check", "--root", accepted, "--shard", part)
    assert (ended.code, ended.lines) == (
        2,
        [f"samebits: --shard {part}: expected K/N with K from 1 to N, such as 3/8"],
    )


def test_the_evidence_is_measured(accepted: Path) -> None:
    found = read_golden(goldens(accepted) / "toy__two.json")
    assert list(found.evidence.rewrites) == ["repeated", "one ulp of dither", "rows permuted", "one device"]
    assert found.evidence.rewrites["repeated"] == 0 < found.evidence.loss_spread[-1]
    assert found.evidence.runs == 7 and len(found.evidence.seen) == 1
    assert found.evidence.loss_bound[-1] < 100
    assert found.accepted.reason == "the first run" and len(found.accepted.commit) == 40


def test_one_ulp_at_the_last_step_fails(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path, "nudge={20: 1}")
    ended = samebits_golden("check", "--config", "toy/one", "--root", root)
    assert ended.code == 1
    assert "loss changed at step 20 by 1 ulp" in ended.out and "  where     toy/one" in ended.out
    assert "in the recorded environment, where every bit must be the same" in ended.out


def test_checking_writes_nothing_and_names_a_missing_golden(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    ended = samebits_golden("check", "--root", root)
    assert ended.code == 1
    for name in ("toy/one", "toy/two"):
        assert f"samebits golden accept --config {name} --reason '...'" in ended.out
    assert not (root / "suites/model/goldens").exists()


def test_unused_damaged_and_stale_goldens_fail(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path)
    folder = goldens(root)
    shutil.copy(folder / "toy__one.json", folder / "toy__gone.json")
    ended = samebits_golden("check", "--root", root)
    assert ended.code == 1
    assert "toy__gone.json is unused: no matrix has that run any more" in ended.out
    assert "2 of 3 goldens hold" in ended.out
    (folder / "toy__gone.json").unlink()

    shutil.copy(folder / "toy__one.json", folder / "toy__two.json")
    ended = samebits_golden("check", "--config", "toy/two", "--root", root)
    assert ended.code == 2
    assert len(ended.lines) == 1 and "config is 'toy/one'; expected 'toy/two', as in the file's name" in ended.lines[0]

    whole = (folder / "toy__one.json").read_text()
    (folder / "toy__two.json").write_text(whole[: len(whole) // 2])
    ended = samebits_golden("check", "--root", root)
    assert ended.code == 2
    assert len(ended.lines) == 1 and "no JSON at line" in ended.lines[0]
    assert "1 of 2 goldens hold" in ended.out
    assert (folder / "toy__two.json").read_text() == whole[: len(whole) // 2]
    ended = samebits_golden("list", "--root", root)
    assert ended.code == 2
    assert len(ended.lines) == 1 and "no JSON at line" in ended.lines[0]
    assert "toy/one" in ended.out


def test_a_golden_of_another_configuration_fails(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path)
    file = root / "suites/model/__init__.py"
    file.write_text(
        file.read_text()
        .replace("MODEL =", "from tests.support.toy_model import MATRIX, replace_seed\n\nMODEL =")
        .replace("parent)", "parent, matrix=replace_seed(MATRIX, 3))")
    )
    commit(root)
    ended = samebits_golden("check", "--root", root)
    assert ended.code == 1
    assert "golden 'toy/one' is of another configuration (seed 0 -> 3)" in ended.out


def test_another_environment_is_held_to_the_evidence_and_says_so(
    accepted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = read_golden(goldens(accepted) / "toy__one.json").evidence.loss_bound[-1]
    monkeypatch.setattr("samebits.host.environment.instruction_sets", lambda: ("other",))
    for far, code in ((bound, 0), (bound + 1, 1)):
        root = copy(accepted, tmp_path / str(far), f"nudge={{20: {far}}}")
        ended = samebits_golden("check", "--config", "toy/one", "--root", root)
        assert ended.code == code, ended.out
        assert "in another environment" in ended.out or ", another environment" in ended.out
    assert f"loss changed at step 20 by {bound + 1} ulps" in ended.out


@pytest.mark.slow
def test_a_run_that_ends_its_process_was_not_made(accepted: Path, tmp_path: Path) -> None:
    """The other one is checked in a worker process as in this one: exactly, in the recorded environment."""
    root = copy(accepted, tmp_path)
    file = root / "suites/model/__init__.py"
    planted = """
import os
from dataclasses import replace

HONEST = MODEL
MODEL = replace(HONEST, build=lambda config, parts: os.abort() if config.name == "two" else HONEST.build(config, parts))
"""
    file.write_text(file.read_text() + planted)
    commit(root)
    ended = samebits_golden("check", "--root", root, "--workers", "2", "--json", tmp_path / "r.json")
    assert ended.code == 3, ended.out
    document = json.loads((tmp_path / "r.json").read_text())
    assert [(one["name"], one["status"], one["lane"]) for one in document["results"]] == [
        ("toy/one", "same", "exact"),
        ("toy/two", "not run", None),
    ]
    message = document["results"][1]["message"]
    assert message.startswith("config 'toy/two': its process ended while running it: SIGABRT")
    assert message.endswith(f"again: samebits golden check --config toy/two --root {root}")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("accept", "--reason", "r"), 2, "name what to accept: --matrix NAME or --config MATRIX/RUN"),
        (("accept", "--matrix", "toy"), 2, "--reason is empty"),
        (("accept", "--matrix", "toi", "--reason", "r"), 2, "matrix 'toi' is unknown; did you mean toy?"),
        (("accept", "--config", "toy/on", "--reason", "r"), 2, "config 'toy/on' is unknown; did you mean toy/one"),
        (("accept", "--matrix", "toy", "--reason", "r", "--steps", "19"), 2, "--steps 19: a golden needs at least 20"),
        (("check", "--config", "toy/on"), 2, "config 'toy/on' is unknown; did you mean toy/one"),
        (("list", "--matrix", "toi"), 2, "matrix 'toi' is unknown; did you mean toy?"),
        (("show",), 2, "name what to show"),
        (("show", "--config", "alone"), 2, "golden 'alone' does not exist; did you mean toy/one?"),
    ],
)
def test_requests_that_are_refused(words: tuple[str, ...], code: int, message: str, accepted: Path) -> None:
    ended = samebits_golden(*words, "--root", accepted)
    assert ended.code == code
    assert len(ended.lines) == 1 and message in ended.lines[0]


def test_a_golden_under_the_name_of_another_is_damaged(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path)
    shutil.copy(goldens(root) / "toy__one.json", goldens(root) / "toy__three.json")
    listed = samebits_golden("list", "--matrix", "toy", "--root", root)
    assert listed.code == 2 and "toy__three.json: config is 'toy/one'; expected 'toy/three'" in listed.err
    assert "toy/one" in listed.out and "toy/two" in listed.out


def test_a_damaged_golden_of_another_matrix_does_not_count(accepted: Path, tmp_path: Path) -> None:
    """Neither where a matrix is listed, nor where one golden is shown; where it is asked for, it does."""
    root = copy(accepted, tmp_path)
    model = root / "suites/model/__init__.py"
    model.write_text(model.read_text() + TWO_MATRICES)
    (goldens(root) / "other__one.json").write_text("{")
    for words, code in (
        (("list", "--matrix", "toy"), 0),
        (("list", "--matrix", "other"), 2),
        (("list", "--matrix", "other", "--matrix", "toy"), 2),
        (("list",), 2),
        (("show", "--config", "toy/one"), 0),
        (("show", "--config", "other/one"), 2),
    ):
        ended = samebits_golden(*words, "--root", root)
        assert (ended.code, "other__one.json" in ended.err) == (code, code == 2), words
        assert ("toy/one" in ended.out) == ("toy" in "".join(words) or words == ("list",)), words


def test_ci_and_a_dirty_tree_are_refused(accepted: Path, tmp_path: Path) -> None:
    words = ["accept", "--matrix", "toy", "--reason", "r", "--root"]
    result = CliRunner(env={"CI": "1"}).invoke(golden, [*words, str(accepted)])
    assert result.exit_code == 2 and "CI=1: goldens are not accepted in CI" in result.stderr
    root = write_tree(tmp_path)
    (root / "stray").write_text("")
    ended = samebits_golden(*words, root)
    assert ended.code == 2 and "is dirty (stray)" in ended.err
    assert not goldens(root).exists()


def test_a_run_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    root = write_tree(tmp_path, "scale=float('nan')")
    ended = samebits_golden("accept", "--config", "toy/one", "--reason", "r", "--author", "A", "--root", root)
    assert ended.code == 3
    assert "is not finite" in ended.err and len(ended.lines) == 1
    assert not list(goldens(root).glob("*")) if goldens(root).exists() else True


def test_a_change_is_accepted_with_old_and_new(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path, "nudge={20: 64}")
    ended = samebits_golden("accept", "--config", "toy/one", "--reason", "a nudge", "--author", "A", "--root", root)
    assert ended.code == 0, ended.err
    old, new = (read_golden(goldens(where) / "toy__one.json") for where in (accepted, root))
    row = next(line for line in ended.out.splitlines() if line.strip().startswith("toy/one"))
    for number in (old.steps[-1].loss, new.steps[-1].loss, "changed", 20):
        assert str(number) in row
    assert new.history == (old.accepted,)
    shown = samebits_golden("show", "--config", "toy/one", "--root", root)
    assert shown.code == 0
    assert "the first run (first;" in shown.out and "a nudge (changed from step 20" in shown.out
    listed = samebits_golden("list", "--root", root, "--json", tmp_path / "l.json")
    assert listed.code == 0
    rows = json.loads((tmp_path / "l.json").read_text())["results"]
    assert [(one["name"], one["refreshes"]) for one in rows] == [("toy/one", 1), ("toy/two", 0)]


@pytest.mark.slow
def test_a_named_configuration_has_a_golden(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    ended = samebits_golden("accept", "--config", "alone", "--reason", "r", "--author", "A", "--root", root)
    assert ended.code == 0, ended.err
    assert (goldens(root) / "alone.json").is_file()
    assert samebits_golden("check", "--config", "alone", "--root", root).code == 0
    assert samebits_golden("accept", "--config", "alone", "--confirm", "--author", "A", "--root", root).code == 0


@pytest.mark.slow
def test_one_golden_calls_for_those_of_its_whole_matrix(accepted: Path, tmp_path: Path) -> None:
    root = copy(accepted, tmp_path)
    (goldens(root) / "toy__two.json").unlink()
    ended = samebits_golden("check", "--root", root)
    assert ended.code == 1
    assert "golden 'toy/two' is missing on cpu" in ended.out and "1 of 2 goldens hold" in ended.out
