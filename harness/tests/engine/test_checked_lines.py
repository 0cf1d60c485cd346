"""A line that was not written whole is seen, wherever it was cut or changed."""

from pathlib import Path

import msgspec
import pytest

from samebits.engine.journal import LineReader, decode_line, encode_line

LINE = encode_line({"key": "rope", "rows": [1, 2]})


def test_a_line_comes_back() -> None:
    assert LINE.endswith(b"\n") and LINE.count(b"\n") == 1
    text = decode_line(LINE[:-1])
    assert text is not None and msgspec.json.decode(text) == {"key": "rope", "rows": [1, 2]}


@pytest.mark.parametrize("end", range(len(LINE) - 1))
def test_a_cut_line_is_none(end: int) -> None:
    assert decode_line(LINE[:end]) is None


@pytest.mark.parametrize("place", range(len(LINE) - 1))
def test_a_changed_byte_is_seen(place: int) -> None:
    changed = bytearray(LINE[:-1])
    changed[place] ^= 1
    assert decode_line(bytes(changed)) is None


def test_a_reader_gives_each_whole_line_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    reader = LineReader(path)
    assert reader.new() == []
    first, second = encode_line(1), encode_line(2)
    path.write_bytes(first + second[:5])
    assert reader.new() == [b"1"]
    path.write_bytes(first + second)
    assert reader.new() == [b"2"] and reader.new() == []


def test_a_reader_leaves_damaged_lines_out(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(encode_line(1) + b"00000000 2\n" + encode_line(3))
    reader = LineReader(path)
    assert reader.new() == [b"1", b"3"]
