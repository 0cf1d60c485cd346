"""The shards of a check, joined, are the check; what is missing, foreign or given twice is said in one line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.check.line_evidence import POINTS
from samebits.cli.merge_run import written_of
from samebits.host.written import Written
from tests.support import action
from tests.support.findings import flat_rows
from tests.support.invoke import samebits

PAIR = """
from samebits import Arg, Case, Contract, Pair, Refusal

def known(x):
    if x.shape == (3,):
        raise ValueError("no three")
    return x

def plain(x):
    return known(x) + x

def fast(x):
    return {factor} * known(x)

PAIR = Pair(
    name="{name}",
    reference=plain,
    variants={{"fast": fast}},
    args={{"x": Arg(shape=("n",))}},
    cases=(
        *(Case(id=f"of{{n}}", sizes={{"n": n}}) for n in {sizes}),
        Case(id="three", sizes={{"n": 3}}, refuses=(Refusal(error="ValueError", match="no three"),)),
    ),
    meshes=("none",),
    modes=("auto",),
    dtypes=("float32", "bfloat16"),
    gradients=False,
    contracts=(Contract(lowest="rounding", reason="one operation"),),
)
"""


def _declared(name: str, factor: int, text: str = PAIR) -> str:
    """The declaration of a pair; one that holds needs few sizes."""
    return text.format(name=name, factor=factor, sizes=(8, 16, 24) if name == "wrong" else (8,))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pairs, one of which differs, with the documents of three shards and of the whole."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / "suites").mkdir()
    for name, factor in (("twice", 2), ("wrong", 3)):
        (tree / "suites" / f"test_{name}.py").write_text(_declared(name, factor))
    for number in (1, 2, 3):
        samebits("check", "--root", tree, "--shard", f"{number}/3", "--json", tree / f"{number}.json")
    assert samebits("check", "--root", tree, "--json", tree / "whole.json").code == 1
    return tree


def _without_times(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    document["summary"].pop("seconds")
    document.pop("written")
    for row in document["results"]:
        row.pop("seconds")
    return document


def _files(tree: Path, *names: str) -> list[Path]:
    return [tree / f"{name}.json" for name in names]


def test_the_merged_document_is_that_of_the_whole(tree: Path, tmp_path: Path) -> None:
    merged = samebits("run", "merge", *_files(tree, "3", "1", "2"), "--root", tree, "--json", tmp_path / "merged.json")
    assert merged.code == 1
    whole = _without_times(tree / "whole.json")
    assert _without_times(tmp_path / "merged.json") == whole and len(whole["results"]) == 24
    failing = [row for row in flat_rows(whole) if not row["ok"]]
    assert sum(bool(row["lines"]) for row in failing) == POINTS < len(failing), "of the first ones, whatever the shards"


@pytest.mark.slow
def test_pictures_are_the_same_from_worker_processes(tree: Path, tmp_path: Path) -> None:
    samebits("check", "--root", tree, "wrong", "--workers", "2", "--json", tmp_path / "workers.json")
    whole = [row for row in flat_rows(_without_times(tree / "whole.json")) if row["pair"] == "wrong"]
    rows = flat_rows(_without_times(tmp_path / "workers.json"))
    assert rows == whole
    pictures = [row["picture"] for row in rows if row["verdict"] == "different"]
    assert len(pictures) == 6 and all(picture["window"] and picture["heat"]["counts"] for picture in pictures)


def test_the_merged_document_is_of_the_last_shard(tree: Path, tmp_path: Path) -> None:
    samebits("run", "merge", *_files(tree, "1", "2", "3"), "--root", tree, "--json", tmp_path / "merged.json")
    shards = [json.loads(file.read_text())["written"] for file in _files(tree, "1", "2", "3")]
    merged = json.loads((tmp_path / "merged.json").read_text())["written"]
    assert merged in shards and merged["time"] == max(shard["time"] for shard in shards)


def test_each_shard_has_its_part_and_says_so(tree: Path) -> None:
    documents = [_without_times(path) for path in _files(tree, "1", "2", "3")]
    assert [document["shard"] for document in documents] == ["1/3", "2/3", "3/3"]
    assert sorted(len(document["results"]) for document in documents) == [8, 8, 8]
    assert all(not document["summary"]["notes"] for document in documents), "contracts are audited where all rows are"


def test_a_journal_stands_for_its_document(tree: Path, tmp_path: Path) -> None:
    journal = tmp_path / "two.journal"
    samebits("check", "--root", tree, "--shard", "2/3", "--journal", journal)
    files = [*_files(tree, "1", "3"), journal]
    assert samebits("run", "merge", *files, "--root", tree, "--json", tmp_path / "merged.json").code == 1
    assert _without_times(tmp_path / "merged.json") == _without_times(tree / "whole.json")


def test_a_missing_shard_is_not_green(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "test_twice.py").write_text((tree / "suites" / "test_twice.py").read_text())
    one = tmp_path / "one.json"
    assert samebits("check", "--root", tmp_path, "--shard", "1/2", "--json", one).code == 0
    merged = samebits("run", "merge", one, "--root", tmp_path)
    assert merged.code == 3
    assert merged.lines[0] == "samebits: pair '*': shard 2/2 is missing; give its document too"
    assert "points have no result, the first twice/" in merged.lines[1]


def test_a_shard_without_points_passes(tree: Path, tmp_path: Path) -> None:
    """A job of a matrix with more parts than groups is not red; the merged document says whether all was compared."""
    words = ("twice", "--root", tree, "--case", "of8", "--dtype", "float32")
    parts = [tmp_path / f"{number}.json" for number in (1, 2)]
    ended = [samebits("check", *words, "--shard", f"{n}/2", "--json", part) for n, part in enumerate(parts, 1)]
    assert [end.code for end in ended] == [0, 0]
    assert [len(flat_rows(json.loads(part.read_text()))) for part in parts] == [2, 0]
    assert "shard 2/2 has no points of this request; " in ended[1].out.splitlines()[-1]
    assert samebits("run", "merge", *parts, "--root", tree).code == 0
    assert samebits("run", "merge", parts[1], "--root", tree).code == 3
    empty = json.loads(parts[1].read_text())
    parts[0].write_text(json.dumps({**empty, "shard": "1/2"}))
    assert samebits("run", "merge", *parts, "--root", tree).code == 3, "nothing was compared"


def test_many_missing_shards_are_one_line(tree: Path, tmp_path: Path) -> None:
    document = json.loads((tree / "1.json").read_text())
    (tmp_path / "one.json").write_text(json.dumps({**document, "shard": "1/100000"}))
    merged = samebits("run", "merge", tmp_path / "one.json", "--root", tree)
    listed = ", ".join(f"{number}/100000" for number in range(2, 7))
    assert merged.lines[0] == (
        f"samebits: pair '*': shards {listed} and 99994 more are missing; give their documents too"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shard": "3/2"}, "odd.json: says that it is shard '3/2'; expected K/N with K from 1 to N"),
        ({"request": {"zzz": 5}}, "odd.json: its request is not one of `samebits check`: "),
        ({"request": {"pairs": [], "sizes": 5}}, "odd.json: its request is not one of `samebits check`: "),
    ],
)
def test_a_document_that_was_edited(tree: Path, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    document = json.loads((tree / "1.json").read_text())
    (tmp_path / "odd.json").write_text(json.dumps({**document, **changed}))
    merged = samebits("run", "merge", tmp_path / "odd.json", "--root", tree)
    assert merged.code == 2 and len(merged.lines) == 1 and message in merged.lines[0]


def test_shards_of_a_weaker_contract(tree: Path, tmp_path: Path) -> None:
    """Checked while a declaration accepted more: the declaration that merges them decides."""
    suites = tmp_path / "suites"
    suites.mkdir()
    strict = PAIR.replace('lowest="rounding", reason="one operation"', 'lowest="bitwise"')
    for name, factor in (("twice", 2), ("wrong", 3)):
        text = _declared(name, factor, strict if name == "twice" else PAIR)
        (suites / f"test_{name}.py").write_text(text)
    merged = samebits("run", "merge", *_files(tree, "1", "2", "3"), "--root", tmp_path)
    said = [line for line in merged.lines if "another declaration" in line]
    assert said == [
        f"samebits: pair 'twice': {tree}/1.json holds 'out' of 'plain' against 'rounding', and the declaration here "
        "requires 'bitwise': it is of another declaration; check again"
    ], merged.err


@pytest.mark.parametrize("verdict", ["different", "unstable", "error", None])
def test_a_row_that_was_edited(tree: Path, tmp_path: Path, verdict: str | None) -> None:
    """Or written twice; the counts would be believed."""
    document = json.loads((tree / "1.json").read_text())
    row = next(row for row in document["results"] if row["ruling"]["ok"])
    what = "is there twice" if verdict is None else f"is '{verdict}' and ok"
    if verdict is None:
        document["results"].append(row)
    else:
        row["ruling"]["verdict"] = verdict
    (tmp_path / "1.json").write_text(json.dumps(document))
    merged = samebits("run", "merge", tmp_path / "1.json", *_files(tree, "2", "3"), "--root", tree)
    assert merged.code == 1, "a pair of this tree is wrong, which goes before"
    at = row["place"]
    place = f"'{at['leaf']}' of '{at['variant']}' on {at['mesh']}, {at['direction']}"
    assert f"{tmp_path}/1.json: {place} {what}: it was edited; check again" in merged.err


def test_uncommitted_changes_are_noted(tree: Path, tmp_path: Path) -> None:
    document = json.loads((tree / "1.json").read_text())
    written = {"time": "2026-01-01T00:00:00Z", "commit": "a" * 40, "dirty": True}
    (tmp_path / "1.json").write_text(json.dumps({**document, "written": written}))
    merged = samebits("run", "merge", tmp_path / "1.json", *_files(tree, "2", "3"), "--root", tree)
    assert f"{tmp_path}/1.json was checked with uncommitted changes, which its commit does not have" in merged.out


def test_shards_of_two_commits(tree: Path, tmp_path: Path) -> None:
    """Their results are of different code, and their sum would be green though the whole check is not."""
    for name, commit in (("1", "a" * 40), ("2", "b" * 40), ("3", "a" * 40)):
        document = json.loads((tree / f"{name}.json").read_text())
        written = {**(document["written"] or {"time": "2026-01-01T00:00:00Z", "dirty": False}), "commit": commit}
        (tmp_path / f"{name}.json").write_text(json.dumps({**document, "written": written}))
    merged = samebits("run", "merge", *(tmp_path / f"{name}.json" for name in "123"), "--root", tree)
    assert merged.code == 2 and merged.lines == [
        f"samebits: {tmp_path}/1.json was checked at commit aaaaaaaaaaaa, and {tmp_path}/2.json at bbbbbbbbbbbb: their "
        "results are of different code; run all shards at one commit"
    ]


def test_a_journal_is_of_the_commit_at_which_it_was_written(tmp_path: Path) -> None:
    """Not of that at which it is merged, whose code may be wrong."""
    action.git(tmp_path, "init", "--quiet")
    (tmp_path / "suites").mkdir()
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    journal, merged = tmp_path / ".git" / "good.journal", tmp_path / ".git" / "merged.json"
    commits = []
    for factor in (2, 3):
        (tmp_path / "suites" / "test_twice.py").write_text(_declared("twice", factor))
        commits.append(action.commit(tmp_path))
        if factor == 2:
            check = ("check", "--root", tmp_path, "--case", "of8", "--dtype", "float32")
            assert samebits(*check, "--journal", journal).code == 0
            samebits(*check, "--shard", "1/2", "--json", tmp_path / ".git" / "half.json")
    assert samebits("run", "merge", journal, "--root", tmp_path, "--json", merged).code == 0
    written = json.loads(merged.read_text())["written"]
    assert (written["commit"], written["dirty"]) == (commits[0], False)
    later = tmp_path / ".git" / "later.journal"
    samebits(*check, "--shard", "2/2", "--journal", later)
    refused = samebits("run", "merge", tmp_path / ".git" / "half.json", later, "--root", tmp_path)
    assert refused.code == 2 and "their results are of different code" in refused.err
    refused = samebits("run", "merge", tmp_path / ".git" / "half.json", journal, "--root", tmp_path)
    assert refused.code == 2 and "half.json is shard 1/2, " in refused.err
    assert "good.journal is a whole check: not of one run" in refused.err


def _truncated(tree: Path) -> str:
    journal = tree / "torn.journal"
    samebits("check", "--root", tree, "--shard", "2/3", "--journal", journal)
    journal.write_bytes(journal.read_bytes()[:-40])
    return journal.name


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("1.json", "1.json"), "are both shard 1/3; give each once"),
        (("1.json", "whole.json"), "is shard 1/3, "),
        (("1.json", "narrow.json"), "are of different requests: dtypes [] and ['float32']"),
        (("1.json", "nothing.json"), "nothing.json: cannot be read: No such file or directory"),
        (("1.json", "notes.txt"), "is not a journal of samebits; give another file, or remove it"),
        (("list.json",), "expected a document with"),
    ],
)
def test_files_that_do_not_fit(tree: Path, names: tuple[str, ...], message: str) -> None:
    if not (tree / "narrow.json").exists():
        samebits("check", "--root", tree, "--shard", "2/3", "--dtype", "float32", "--json", tree / "narrow.json")
        (tree / "notes.txt").write_text("notes\n")
        (tree / "list.json").write_text("[]")
    merged = samebits("run", "merge", *(tree / name for name in names), "--root", tree)
    assert merged.code == 2 and len(merged.lines) == 1 and message in merged.lines[0], merged.err


@pytest.mark.slow
def test_a_torn_journal_lacks_its_last_point_alone(tree: Path) -> None:
    merged = samebits("run", "merge", *_files(tree, "1", "3"), tree / _truncated(tree), "--root", tree)
    assert "1 points have no result" in merged.err


def test_an_older_document_is_rejected(tree: Path, tmp_path: Path) -> None:
    document = json.loads((tree / "1.json").read_text())
    document["request"] = None
    (tmp_path / "old.json").write_text(json.dumps(document))
    merged = samebits("run", "merge", tmp_path / "old.json", "--root", tree)
    assert merged.code == 2 and "does not say what was asked for: an older samebits wrote it" in merged.err


def test_the_commit_of_parts_is_that_of_all() -> None:
    """One part that does not say its commit, or that was edited, leaves no claim for the whole."""
    early, late = (Written(time=f"2026-01-0{day}T00:00:00Z", commit="a") for day in (1, 2))
    parts = [early, late, replace(early, dirty=True), None]
    assert written_of(parts[:2]) == late
    assert written_of(parts[:3]) == replace(late, dirty=True)
    assert written_of([parts[0], parts[3]]) == replace(early, commit=None)
    assert written_of(parts[3:]) is None
