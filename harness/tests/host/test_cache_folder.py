"""Where the caches are, how large remembered results may become, and what a store of them loses and keeps."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from samebits.errors import RequestError
from samebits.host.cache_folder import VARIABLE, cache_folder, cache_root, limit, limit_text, parse_limit, parse_size
from samebits.host.entry_store import EntryStore
from tests.support.invoke import clean_environment


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    assert cache_folder("compiled") == tmp_path / "compiled"
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", "")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    assert cache_folder("compiled") == tmp_path / "samebits" / "compiled"


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("500MB", 500_000_000), ("2 gb", 2_000_000_000), ("1.5kB", 1500), ("1TB", 10**12)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_limit(text, "here") == size


@pytest.mark.parametrize("text", ["", "12", "-1MB", "1 EB", "much", "0.5", "9" * 400 + "MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(RequestError, match=f"^here: '{text}' is not a size; expected 0, or a number with a unit"):
        parse_limit(text, "here")


def test_the_variable_goes_before_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SAMEBITS_CACHE_LIMIT")
    assert (limit(), limit_text()[1]) == (512_000_000, "the default")
    (tmp_path / "limit.txt").write_text("3MB\n")
    assert (limit(), limit_text()[1]) == (3_000_000, str(tmp_path / "limit.txt"))
    (tmp_path / "limit.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match=r"limit\.txt: '\ufffd\ufffd' is not a size"):
        limit()
    monkeypatch.setenv("SAMEBITS_CACHE_LIMIT", "4MB")
    assert (limit(), limit_text()[1]) == (4_000_000, "SAMEBITS_CACHE_LIMIT")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without a home and without an entry among the users, as in many containers; its temporary folder."""

    def unknown(*_: object) -> None:
        raise KeyError("getpwuid(): uid not found")

    for name in (VARIABLE, "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"samebits-{os.getuid()}"


def test_a_user_without_a_home_has_a_temporary_folder(homeless: Path) -> None:
    assert cache_root() == homeless
    assert homeless.stat().st_mode & 0o777 == 0o700


def test_the_temporary_folder_of_another_user_is_refused(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results would be believed."""
    folder = homeless.with_name(f"samebits-{os.getuid() + 1}")
    folder.mkdir()
    number = os.getuid() + 1
    monkeypatch.setattr("os.getuid", lambda: number)
    with pytest.raises(RequestError, match=f"{folder} belongs to another user; set SAMEBITS_CACHE_DIR"):
        cache_root()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 8 * 2**30),
        ("512M", 2**29),
        ("2.5GiB", 5 * 2**29),
        ("2 gib", 2**31),
        ("2GB", 2 * 10**9),
        ("1tb", 10**12),
        ("500 MB", 5 * 10**8),
        ("70000", 70000),
        ("70000B", 70000),
        ("0", 0),
    ],
)
def test_a_size(text: str, size: int) -> None:
    assert parse_size(text, "--memory", "8G") == size


@pytest.mark.parametrize("text", ["", "G", "8X", "-1G", "eight", "1G2", "8 G B", "8iB", "9" * 400])
def test_what_is_not_a_size_is_rejected(text: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_size(text, "--memory", "a size such as 8G")
    assert str(raised.value) == f"--memory: '{text}' is not a size; expected a size such as 8G"


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
