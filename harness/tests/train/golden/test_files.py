"""Goldens on disk: a damaged file gives one line that says where, and writers never leave half a file."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from samebits.errors import SamebitsError
from samebits.host.sealed_file import locked
from samebits.schema.json_text import content_digest
from samebits.train.golden.record import (
    DamagedGolden,
    golden_path,
    golden_paths,
    read_golden,
    require_own_name,
    write_golden,
)
from tests.support.golden_samples import HERE, golden, model, run_record
from tests.support.invoke import clean_environment

TEXT = msgspec.json.format(msgspec.json.encode(golden()), indent=1).decode() + "\n"


def refused(path: Path, text: str | bytes) -> str:
    """The one line with which a file is rejected."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SamebitsError) as said:
        read_golden(path)
    assert said.value.exit_code in (2, 3)
    message = str(said.value)
    assert "\n" not in message and str(path) in message
    return message.removeprefix(f"golden {path}: ")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = golden_path(model(tmp_path), HERE, "toy", "one")
    assert path == tmp_path / "goldens" / "cpu" / "toy__one.json"
    with locked(path.parent):
        write_golden(path, golden())
    assert read_golden(path) == golden()
    assert path.read_text() == TEXT
    assert [file.name for file in path.parent.iterdir()] == ["toy__one.json"]


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = TEXT.rstrip()
    for at in range(0, len(whole), 97):
        said = refused(tmp_path / "g.json", whole[:at])
        place = re.match(r"no JSON at line (\d+): .*; restore the file$", said)
        assert place is not None and int(place[1]) <= whole[:at].count("\n") + 1


def test_other_damage_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    at = TEXT.index('"step": 5,')
    line = TEXT[:at].count("\n") + 1
    assert refused(path, TEXT[:at] + "?" + TEXT[at:]).startswith(f"no JSON at line {line}: Expecting property name")
    assert refused(path, (TEXT[:at] + "\0").encode() + b"\xff") == f"byte {at + 1} is not UTF-8; restore the file"
    assert "NaN is not a number of a golden" in refused(path, TEXT.replace('"loss": 3.0', '"loss": NaN', 1))
    assert refused(path, "[]").startswith("schema is 'list'")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SamebitsError, match="cannot be read: Is a directory") as said:
        read_golden(tmp_path)
    assert said.value.exit_code == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"loss": 0.75', '"loss": 0.76'),
        ('"window": 20', '"window": 21'),
        ('"l2": 3.7416573867739413', '"l2": 3.7416573867739418'),
        ("made by hand", "made by hind"),
        ('"cpus": 4', '"cpus": 5'),
        ('   9,\n   9\n  ],\n  "perplexity_spread"', '   9,\n   10\n  ],\n  "perplexity_spread"'),
    ],
)
def test_one_digit_edited_by_hand_is_found(old: str, new: str, tmp_path: Path) -> None:
    assert old in TEXT
    assert "content is not the digest of the rest: edited by hand" in refused(
        tmp_path / "g.json", TEXT.replace(old, new, 1)
    )


def resealed(change: Any) -> str:
    """The text of an editor who knows how the digest is made."""
    plain = json.loads(TEXT)
    change(plain)
    plain["content"] = content_digest(plain)
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema="samebits-golden/2"), "schema is 'samebits-golden/2'; this samebits reads"),
        (lambda d: d.update(colour=1), "the key $.colour is unknown to samebits-golden/1"),
        (lambda d: d["steps"][3].update(x=1), "the key $.steps[3].x is unknown"),
        (lambda d: d["steps"][0]["leaves"]["gradient/w"].update(l3=1.0), "the key $.steps[0].leaves.gradient/w.l3 is"),
        (lambda d: d.pop("evidence"), "not a samebits-golden/1 document: Object missing required field `evidence`"),
        (lambda d: d["steps"][2].pop("loss_hex"), "not a samebits-golden/1 document: Object missing required field"),
        (lambda d: d["accepted"].update(commit=3), "not a samebits-golden/1 document: Expected `str`, got `int`"),
        (lambda d: d["evidence"].update(loss_bound=[1] * 20), "evidence.loss_bound[0] is 1 ulps, tighter than"),
        (lambda d: d["accepted"].update(reason=""), "accepted.reason is empty"),
    ],
)
def test_a_document_that_is_none(change: Any, message: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "g.json", resealed(change)).startswith(message)


def test_a_golden_that_breaks_a_rule_is_not_written(tmp_path: Path) -> None:
    from dataclasses import replace

    path = tmp_path / "cpu" / "toy__one.json"
    with locked(path.parent):
        write_golden(path, golden())
        tight = replace(golden(), evidence=replace(golden().evidence, loss_bound=(1,) * 20))
        with pytest.raises(DamagedGolden, match="tighter than the spread"):
            write_golden(path, tight)
    assert path.read_text() == TEXT


def test_a_disk_that_refuses_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toy__one.json"
    write_golden(path, golden())

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("samebits.host.sealed_file.os.fsync", full)
    with pytest.raises(SamebitsError, match="cannot be written: No space left on device"):
        write_golden(path, golden(run_record(nudge={3: 1})))
    assert path.read_text() == TEXT
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


WRITERS = """
import os, random, signal, sys, time
from pathlib import Path
from tests.support.golden_samples import CONFIG, HERE, allowed, evidence, model, run_record
from samebits.host import sealed_file as sealed
from samebits.train.golden.accept import accept
from samebits.train.golden.record import golden_path, golden_paths, read_golden

root = Path(sys.argv[1])
toy = model(root)
path = golden_path(toy, HERE, "toy", "one")
runs = [run_record(), run_record(nudge={20: 1})]

def put(number, reason="made by hand"):
    run = runs[number % 2]
    accept(toy, "toy", CONFIG, run, evidence(run), HERE, allowed(root, reason))

def child(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid

def whole():
    assert golden_paths(toy) == [path], golden_paths(toy)
    return read_golden(path)
"""

KILLED = """
put(0)
rng = random.Random(0)
for _ in range(20):
    before = whole()
    def forever():
        for number in range(10 ** 6):
            put(number + 1)
    pid = child(forever)
    time.sleep(rng.uniform(0.002, 0.05))
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    after = whole()
    assert len(after.history) >= len(before.history) and after.history[: len(before.history)] == before.history

def other():
    return 1 if whole().steps[-1].loss_hex == runs[0].steps[-1].loss_hex else 0

def dies(name):
    honest = getattr(os, name)
    def die(*args):
        if name != "fsync" or not os.path.isdir(f"/proc/self/fd/{args[0]}"):
            os.kill(os.getpid(), signal.SIGKILL)
        return honest(*args)
    return die

for name in ("fsync", "chmod", "replace"):
    before, number = whole(), other()
    def once():
        setattr(sealed.os, name, dies(name))
        put(number)
    pid = child(once)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, name
    assert whole() == before, name
    assert len(list(path.parent.iterdir())) == 2, "the draft of the killed writer"
    put(number)
    assert len(whole().history) == len(before.history) + 1
    assert len(list(path.parent.iterdir())) == 1, "a draft was left for ever"
print("survived", len(whole().history))
"""

AT_ONCE = """
put(0, "the first")
def many(name):
    def work():
        for number in range(8):
            accept(toy, "toy", CONFIG, *varied(name, number), HERE, allowed(root, f"{name} {number}"))
    return work
def varied(name, number):
    run = run_record(nudge={5: 1 + 100 * number + (50 if name == "b" else 0)})
    return run, evidence(run)
pids = [child(many(name)) for name in "ab"]
assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
last = whole()
reasons = [one.reason for one in (*last.history, last.accepted)]
assert sorted(reasons) == sorted(["the first", *(f"{n} {i}" for n in "ab" for i in range(8))]), reasons
print("survived", len(reasons))
"""


@pytest.mark.parametrize("story", [KILLED, AT_ONCE], ids=["killed", "at once"])
def test_writers_lose_nothing(story: str, tmp_path: Path) -> None:
    """In a process that never starts jax, so that it may fork."""
    done = subprocess.run(
        [sys.executable, "-c", WRITERS + story, str(tmp_path)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout.startswith("survived"), done.stderr


def test_drafts_are_no_goldens(tmp_path: Path) -> None:
    folder = tmp_path / "goldens" / "cpu"
    folder.mkdir(parents=True)
    for name in (".toy__one.json.ab12", "._toy__one.json"):  # of a killed writer, and of a file manager
        (folder / name).write_text("{")
    assert golden_paths(model(tmp_path)) == []


def test_a_name_with_underscores_is_that_of_its_file(tmp_path: Path) -> None:
    """Two of them stand for the slash after the matrix, and may be in a name too."""
    for matrix, config, stem in (("", "my__run", "my__run"), ("a__b", "c", "a__b__c"), ("toy", "one", "toy__one")):
        named = replace(golden(), matrix=matrix, config=config)
        require_own_name(tmp_path / f"{stem}.json", named)
        with pytest.raises(DamagedGolden, match="as in the file's name"):
            require_own_name(tmp_path / "toy__two.json", named)
