"""Where the caches are, and how large the remembered results may become."""

import os
from pathlib import Path

import platformdirs
import pytest

from samebits.errors import RequestError
from samebits.host.cache_folder import VARIABLE, cache_folder, cache_root, limit, limit_text, parse_limit, parse_size


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
