"""A stamp is another one where a file has changed."""

import os
from pathlib import Path

from samebits.host.stamps import Stamp


def test_a_stamp_sees_a_change_whose_time_was_set_back(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("")
    before, status = Stamp.of(path), path.stat()
    path.write_text("x = 1\n")
    path.write_text("")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert Stamp.of(path) != before
    assert Stamp.of(tmp_path / "missing.py") == Stamp((), 0)
