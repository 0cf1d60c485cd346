"""Entries survive processes that are killed, and what is damaged is dropped; many processes share a file."""

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samebits.host import entry_store
from samebits.host.entry_store import EntryStore, on_network
from tests.support.invoke import clean_environment

WRITER = """
import sys
from pathlib import Path
from samebits.host.entry_store import EntryStore

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = EntryStore(path)
print("begun", flush=True)
for number in range(count):
    store.put(f"{name}-{number}", f"{name} {number} ".encode() * 200)
    assert store.get(f"{name}-{number}") == f"{name} {number} ".encode() * 200
assert not store.remarks, store.remarks
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


def test_a_removed_entry_is_missing(tmp_path: Path) -> None:
    store = filled(tmp_path / "entries.sqlite", "a", "b")
    store.remove("a")
    store.remove("never written")
    assert (store.get("a"), store.get("b") is not None, store.remarks) == (None, True, [])
    store.close()


def test_an_entry_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "entries.sqlite"
    store = EntryStore(path)
    assert store.get("a") is None
    store.put("a", b"first")
    store.put("a", b"\x00second")
    store.close()
    again = EntryStore(path)
    assert again.get("a") == b"\x00second"
    assert (again.size().entries, again.remarks) == (1, [])
    assert again.size().newest is not None


def test_eight_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    processes = [writer(path, f"w{number}", 40) for number in range(8)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    store = EntryStore(path)
    assert store.size().entries == 8 * 40
    assert store.get("w7-39") == b"w7 39 " * 200


def test_a_file_that_others_are_creating_is_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite gives up at once where two processes change the kind of the log together."""
    busy, real = sqlite3.OperationalError("database is locked"), entry_store._connected
    busy.sqlite_errorcode, left = sqlite3.SQLITE_BUSY, [busy, busy]

    def connected(path: Path) -> sqlite3.Connection:
        if left:
            raise left.pop()
        return real(path)

    monkeypatch.setattr(entry_store, "_connected", connected)
    store = filled(tmp_path / "entries.sqlite", "a")
    assert store.get("a") is not None and not store.remarks
    store.close()


def test_killed_writers_leave_whole_entries(tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    chance = random.Random(7)
    processes = [writer(path, f"w{number}", 100_000) for number in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
    for process in processes:
        time.sleep(chance.uniform(0.02, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    store = EntryStore(path)
    entries = store.size().entries
    assert entries > 0
    for number in range(3):
        count = 0
        while (content := store.get(f"w{number}-{count}")) is not None:
            assert content == f"w{number} {count} ".encode() * 200
            count += 1
    assert (store.size().entries, store.remarks) == (entries, [])


@pytest.mark.parametrize("column", ["content", "digest", "key"])
def test_a_damaged_entry_is_dropped(tmp_path: Path, column: str) -> None:
    path = tmp_path / "entries.sqlite"
    filled(path, "a", "b").close()
    with sqlite3.connect(path) as connection:
        if column == "key":  # the contents of two entries are exchanged
            connection.execute("UPDATE entries SET key = 'c' WHERE key = 'a'")
            connection.execute("UPDATE entries SET key = 'a' WHERE key = 'b'")
        else:
            connection.execute(f"UPDATE entries SET {column} = ? WHERE key = 'a'", (b"damaged",))
    connection.close()
    store = EntryStore(path)
    assert store.get("a") is None
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM entries WHERE key = 'a'").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("damage", ["no database", "zeros", "cut"])
def test_a_damaged_file_is_set_aside_and_rebuilt(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "entries.sqlite"
    store = filled(path, *(f"key {number}" for number in range(300)))
    store.close()
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(b"not a database " * 100 if damage == "no database" else content[:4096] + bytes(len(content)))
    again = EntryStore(path)
    for number in range(300):
        assert again.get(f"key {number}") in (None, f"key {number}".encode() * 1000)
    again.put("new", b"content")
    assert again.get("new") == b"content"
    assert len(again.remarks) == 1, again.remarks
    assert "was damaged (" in again.remarks[0]
    assert again.remarks[0].endswith("it is set aside as entries.sqlite.damaged, and rebuilt")
    assert (tmp_path / "entries.sqlite.damaged").is_file()


def test_a_file_damaged_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    filled(path, "a").close()
    store = EntryStore(path)
    with path.open("r+b") as file:
        file.write(b"garbage garbage garbage!" * 200)
    assert store.get("a") in (None, b"a" * 1000)
    store.put("b", b"content")
    store.close()
    fresh = EntryStore(path)
    fresh.put("c", b"content")
    assert fresh.get("c") == b"content"


def test_used_entries_stay_where_the_limit_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    chance = random.Random(3)
    store = EntryStore(path)
    for number in range(40):
        store.put(str(number), chance.randbytes(1000))
    store.close()
    with sqlite3.connect(path) as connection:  # as if written long ago
        connection.execute("UPDATE entries SET used = used - 100000 + CAST(key AS INTEGER)")
    connection.close()
    store = EntryStore(path, limit=20_000)
    assert store.get("0") is not None  # the oldest, used again
    store.put("new", chance.randbytes(1000))
    store.close()
    again = EntryStore(path)
    assert again.size().content <= 20_000
    assert again.get("0") is not None
    assert again.get("new") is not None
    assert again.get("39") is not None
    assert again.get("1") is None


def test_entries_are_dropped_by_their_last_use(tmp_path: Path) -> None:
    store = filled(tmp_path / "entries.sqlite", "a", "b", "c")
    assert store.drop(time.time() - 60) == 0
    assert store.drop(time.time() + 60) == 3
    assert filled(tmp_path / "entries.sqlite", "a").drop() == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = EntryStore(tmp_path / "file" / "entries.sqlite")
    store.put("a", b"content")
    assert store.get("a") is None
    assert store.size().entries == 0
    assert not store.usable
    assert len(store.remarks) == 1
    assert store.remarks[0].endswith("nothing is remembered in this run")


def test_a_file_of_other_things_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE entries (something TEXT)")
    connection.close()
    store = EntryStore(path)
    assert store.get("a") is None
    store.put("a", b"content")
    assert len(store.remarks) == 1
    assert stat.S_ISREG(path.stat().st_mode)


def test_network_file_systems_are_told_apart(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nhost:/data /data nfs4 rw 0 0\ntmpfs /data/local tmpfs rw 0 0\n")
    assert on_network(Path("/data/user/cache"), mounts)
    assert not on_network(Path("/data/local/cache"), mounts)
    assert not on_network(Path("/var/cache"), mounts)
    assert not on_network(Path("/var/cache"), tmp_path / "missing")


@pytest.mark.parametrize(
    "values",
    ["content = 'text', digest = 'x'", "used = 'abc', made = 'zzz'", "used = x'00', made = x'00'", "made = 1e300"],
)
def test_an_entry_of_other_types_is_none(values: str, tmp_path: Path) -> None:
    path = tmp_path / "entries.sqlite"
    filled(path, "a", "b").close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE entries SET {values} WHERE key = 'a'")
    connection.close()
    store = EntryStore(path)
    assert (store.size().newest or 0) < time.time() + 1
    assert store.get("a") in (None, b"a" * 1000) and store.get("b") == b"b" * 1000
    store.close()
