"""The comment that the GitHub action writes: updated and not repeated, one for each use, and none where it cannot."""

import json
import sys
from pathlib import Path

import pytest

from tests.project.test_action import INSTALLED, ONCE
from tests.support.action import ActionRun, new_repository
from tests.support.foreign import PLANTED, write_pair


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose branch `main` has a pair that holds, in a folder of its own."""
    return new_repository(tmp_path)


GH = """\
#!%s
# `gh api` on a pull request whose comments are in a file; two of them on a page.
import json, os, pathlib, sys

store = pathlib.Path(__file__).with_name("comments.json")
assert os.environ["GH_TOKEN"] == "a token" and sys.argv[1] == "api"
words = sys.argv[2:]
if store.with_name("forbidden").exists():
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
comments = json.loads(store.read_text()) if store.exists() else []
if words[0] == "--paginate":
    assert words[1] == "repos/us/ours/issues/7/comments?per_page=100"
    for start in range(0, len(comments) or 1, 2):
        print(json.dumps(comments[start : start + 2]))
    sys.exit()
(body,) = json.loads(pathlib.Path(words[words.index("--input") + 1]).read_text()).values()
method, place = words[words.index("--method") + 1 :][:2]
if method == "POST":
    assert place == "repos/us/ours/issues/7/comments"
    comments.append({"id": 100 + len(comments), "body": body})
else:
    assert method == "PATCH"
    (known,) = [comment for comment in comments if place == f"repos/us/ours/issues/comments/{comment['id']}"]
    known["body"] = body
store.write_text(json.dumps(comments))
"""


def commented(repository: Path, number: str = "7", /, **inputs: str) -> tuple[ActionRun, list[str]]:
    """A run with a `gh` of ours, and the comments of the pull request after it."""
    folder = repository.parent / "runner" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gh").write_text(GH % sys.executable)
    (folder / "gh").chmod(0o755)
    given = {**INSTALLED, "root": "checks", "args": " ".join(ONCE), "comment": "true", **inputs}
    ran = ActionRun(workspace=repository, temporary=repository.parent / "runner", inputs=given, number=number).run()
    store = folder / "comments.json"
    return ran, [comment["body"] for comment in json.loads(store.read_text())] if store.exists() else []


@pytest.mark.slow
def test_a_comment_is_updated_and_not_repeated(repository: Path) -> None:
    (repository.parent / "runner" / "bin").mkdir(parents=True)
    others = [
        {"id": number, "body": body} for number, body in enumerate((None, "hello", "see <!-- samebits: samebits -->"))
    ]
    (repository.parent / "runner" / "bin" / "comments.json").write_text(json.dumps(others))
    write_pair(repository / "checks", "twice", optimized=PLANTED)
    ran, comments = commented(repository, base="main")
    assert ran.code == 1, ran.out
    assert comments[:3] == [other["body"] for other in others]
    (first,) = comments[3:]
    assert first.startswith("<!-- samebits: samebits -->\n### samebits check: failed\n")
    assert "### samebits diff: worse" in first
    assert first.endswith("[All documents](https://github.example/us/ours/actions/runs/17) of commit 5ca1ab1e5ca1\n")
    write_pair(repository / "checks", "twice")
    ran, comments = commented(repository)
    assert ran.code == 0, ran.out
    assert len(comments) == 4 and comments[3].startswith("<!-- samebits: samebits -->\n### samebits check: passed\n")


@pytest.mark.slow
def test_a_comment_for_each_use_of_the_action(repository: Path) -> None:
    for name in ("cpu", "a -->b", "cpu"):
        ran, comments = commented(repository, artifact=name)
        assert ran.code == 0, ran.out
    assert [body.partition("\n")[0] for body in comments] == ["<!-- samebits: cpu -->", "<!-- samebits: a____b -->"]


@pytest.mark.slow
def test_no_comment_where_none_is_wanted_or_possible(repository: Path) -> None:
    assert commented(repository, comment="false")[1] == []
    ran, comments = commented(repository, "")
    assert (ran.code, ran.annotations, comments) == (0, [], [])
    assert "samebits: no pull request, no comment" in ran.out
    (repository.parent / "runner" / "bin" / "forbidden").touch()
    ran, comments = commented(repository)
    assert (ran.code, comments) == (0, [])  # a fork's pull request is checked all the same
    assert ran.annotations == [
        "::warning title=samebits::no comment: the comments of pull request 7 cannot be read: gh: Resource not "
        "accessible by integration (HTTP 403); give the job 'permissions: pull-requests: write'; a pull request from a "
        "fork has no such token"
    ]
