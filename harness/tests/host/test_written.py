"""When a document was written: the commit of the tree, and a time that a build can set."""

import re
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host.git import head_commit
from samebits.host.written import Written, written_now
from tests.support.toy_model import commit
from tests.support.toy_model import git as run_git

EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
THEN = "2023-11-14T22:13:20Z"


def test_a_tree_in_no_repository_has_no_commit(tmp_path: Path) -> None:
    assert written_now(tmp_path, EPOCH) == Written(time=THEN, commit=None, dirty=False)


def test_a_repository_names_its_commit(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    (tmp_path / "one").write_text("1")
    commit(tmp_path)
    assert written_now(tmp_path, EPOCH) == Written(time=THEN, commit=head_commit(tmp_path), dirty=False)
    (tmp_path / "one").write_text("2")
    assert written_now(tmp_path, EPOCH).dirty


def test_the_time_is_in_utc(tmp_path: Path) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", written_now(tmp_path, {}).time)


@pytest.mark.parametrize("epoch", ["soon", "9" * 30])
def test_a_wrong_time_is_one_line(epoch: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as error:
        written_now(tmp_path, {"SOURCE_DATE_EPOCH": epoch})
    assert str(error.value) == (
        f"SOURCE_DATE_EPOCH={epoch}: expected a number of seconds since 1970, such as 1700000000"
    )
