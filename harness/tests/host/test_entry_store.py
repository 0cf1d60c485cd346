"""Entries survive processes that are killed, and what is damaged is dropped; many processes share a folder."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from samebits.host.entry_store import EntryStore
from tests.support.invoke import clean_environment

WRITER = """
import sys
from pathlib import Path
from samebits.host.entry_store import EntryStore

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = EntryStore(path)
print("begun", flush=True)
for number in range(count):
    for key in (f"{name}-{number}", "shared"):
        store.put(key, f"{name} {number} ".encode() * 200)
    assert store.get(f"{name}-{number}") == f"{name} {number} ".encode() * 200
    assert store.get("shared") is not None
assert not store.failed, store.failed
store.close()
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def filled(path: Path, *keys: str, limit: int | None = None) -> EntryStore:
    store = EntryStore(path, limit)
    for key in keys:
        store.put(key, key.encode() * 1000)
    return store


def aged(store: EntryStore, key: str, seconds: float) -> None:
    """Have an entry as if it was last used so long ago."""
    os.utime(store.folder / key, (time.time() - seconds,) * 2)


def test_an_entry_is_what_was_written_last(tmp_path: Path) -> None:
    store = EntryStore(tmp_path / "deep" / "entries")
    assert store.get("a") is None
    store.put("a", b"first")
    store.put("a", b"\x00second")
    store.put("b", b"removed")
    store.remove("b")
    store.remove("never written")
    store.close()
    again = EntryStore(tmp_path / "deep" / "entries")
    assert (again.get("a"), again.get("b"), again.failed) == (b"\x00second", None, None)
    assert os.listdir(again.folder) == ["a"]


def test_eight_processes_write_at_once(tmp_path: Path) -> None:
    processes = [writer(tmp_path, f"w{number}", 40) for number in range(8)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert len(os.listdir(tmp_path)) == 8 * 40 + 1
    assert EntryStore(tmp_path).get("w7-39") == b"w7 39 " * 200


def test_killed_writers_leave_whole_entries(tmp_path: Path) -> None:
    chance = random.Random(7)
    processes = [writer(tmp_path, f"w{number}", 100_000) for number in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    for process in processes:
        time.sleep(chance.uniform(0.02, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    keys = [name for name in os.listdir(tmp_path) if name.startswith("w")]
    assert keys and all(EntryStore(tmp_path).get(key) for key in keys)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[:-3],
    "a bit of the digest": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "a bit of the content": lambda content: content[:-6] + bytes([content[-6] ^ 1]) + content[-5:],
    "another text": lambda content: b"hello",
}


@pytest.mark.parametrize("name", [*DAMAGE, "the entry of another key"])
def test_a_damaged_entry_is_dropped(name: str, tmp_path: Path) -> None:
    store = filled(tmp_path, "a", "b")
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(DAMAGE[name](content) if name in DAMAGE else (tmp_path / "b").read_bytes())
    assert store.get("a") is None
    assert os.listdir(tmp_path) == ["b"]
    store.put("a", b"again")
    assert store.get("a") == b"again"


def test_used_entries_stay_where_the_limit_is_reached(tmp_path: Path) -> None:
    store = filled(tmp_path, *(str(number) for number in range(40)))
    for number in range(40):
        aged(store, str(number), 100_000 - number)
    store = EntryStore(tmp_path, limit=20 * 4096)
    assert store.get("0") is not None  # the oldest, used again
    store.close()
    assert len(os.listdir(tmp_path)) == 40, "a run that writes nothing removes nothing"
    store.put("new", b"content")
    store.close()
    assert {*os.listdir(tmp_path)} == {"0", "new", *(str(number) for number in range(24, 40))}


@pytest.mark.parametrize("place", ["a file in its place", "a full disk"])
def test_what_cannot_be_written_is_said_once(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "file" / "entries"
    why = "Not a directory"
    if place == "a full disk":
        folder, why = tmp_path, "No space left on device"

        def full(*_: object) -> None:
            raise OSError(28, why)

        monkeypatch.setattr("os.replace", full)
    else:
        (tmp_path / "file").write_text("")
    store = filled(folder, "a", "b")
    assert (store.get("a"), store.get("b")) == (None, None)
    assert store.failed == f"{folder} cannot be written ({why}): nothing more is remembered in this run"
    store.close()
    assert os.listdir(tmp_path) == ([] if place == "a full disk" else ["file"])
