"""The git history of a tree, and checkouts of earlier commits: the only module that calls git."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError


def commit_of(root: Path, revision: str) -> str:
    """Return the commit that a revision names in the repository of a tree."""
    top = top_folder(root)
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except RequestError:
        raise RequestError(f"'{revision}' is not a revision of {top}; expected a branch, a tag or a commit") from None


@contextlib.contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """Check a tree out at a revision, in a temporary worktree that is removed again."""
    commit = commit_of(root, revision)
    inside = folder_in_repository(root)
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        place = Path(folder) / "tree"
        # Without hooks: those of the repository are for its user's own checkouts.
        _git(root, "-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", "--quiet", str(place), commit)
        try:
            if not (place / inside).is_dir():
                raise RequestError(f"{revision} ({commit[:12]}) has no folder {inside}")
            yield place / inside
        finally:
            _git(root, "worktree", "remove", "--force", str(place))


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One commit of a history.

    Args:
        author, date, subject: as git has them; the date of the author, `2026-01-31`.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str

    def __str__(self) -> str:
        subject = self.subject if len(self.subject) <= SUBJECT else f"{self.subject[: SUBJECT - 3]}..."
        return f"{self.id[:SHORT]} {subject}"


SHORT = 12
"""Digits of a hash that are shown; enough to be given back to git."""
SUBJECT = 60


def history(root: Path, good: str, bad: str) -> list[Commit]:
    """Return the commits that `bad` has and `good` has not, parents before children, all parents of merges followed."""
    # Traversed here: where clocks were wrong, git's own subtraction of histories may stop too early.
    lines = _git(root, "rev-list", "--topo-order", "--parents", "--end-of-options", bad).split("\n")
    parents = {words[0]: words[1:] for words in (line.split() for line in lines)}
    old, todo = set[str](), [good]
    while todo:
        current = todo.pop()
        if current in parents and current not in old:
            old.add(current)
            todo += parents[current]
    between = [commit for commit in reversed(parents) if commit not in old]
    read = {commit.id: commit for commit in _read(root, between)}
    return [read[commit] for commit in between]


def commit_read(root: Path, commit: str) -> Commit:
    """Return what git says about one commit."""
    return _read(root, [commit])[0]


def _read(root: Path, commits: Sequence[str]) -> list[Commit]:
    if not commits:
        return []
    words = ("--no-walk", "--no-show-signature", "--format=%H%x00%P%x00%an%x00%as%x00%s", "--stdin")
    text = _git(root, "log", *words, stdin="".join(f"{commit}\n" for commit in commits))
    read = []
    for line in filter(None, text.split("\n")):
        commit, parents, author, date, subject = line.split("\0", 4)
        read.append(Commit(id=commit, parents=tuple(parents.split()), author=author, date=date, subject=subject))
    return read


def is_ancestor(root: Path, ancestor: str, other: str) -> bool:
    """Return whether `other` has all of the history of `one`."""
    # Not `merge-base --is-ancestor`: its "no" is an exit code like that of an error.
    return _git(root, "merge-base", "--all", "--end-of-options", ancestor, other, none=True).split() == [ancestor]


def contents(root: Path, commits: Sequence[str], folders: Sequence[str] | None = None) -> dict[str, str]:
    """Return what each commit has in folders of a tree, or in all of it, as a text that is equal where that is."""
    paths = [""] if folders is None else [_path_of(root, folder) for folder in folders]
    objects = [f"{commit}:{path}" for commit in commits for path in paths]
    # A name that is not there is answered by `NAME missing`, and any by one line.
    answers = _git(root, "cat-file", "--batch-check=%(objectname)", stdin="".join(f"{name}\n" for name in objects))
    ids = ["missing" if line.endswith(" missing") else line for line in answers.split("\n")]
    return {
        commit: " ".join(ids[number * len(paths) : (number + 1) * len(paths)]) for number, commit in enumerate(commits)
    }


def extract(root: Path, commit: str, folders: Sequence[str], to: Path) -> None:
    """Write folders of a tree, or beside it as `../src`, as they were at a commit; one that it has not is left out.

    Neither the tree nor the index of the user is read or written.
    """
    top = top_folder(root)
    for folder in folders:
        path = _path_of(root, folder)
        if contents(root, [commit], [folder])[commit] == "missing":
            continue
        with tempfile.TemporaryDirectory(prefix="samebits-index-") as own:
            index = {"GIT_INDEX_FILE": str(Path(own) / "index")}
            _git(top, "read-tree", f"{commit}:{path}", more=index)
            place = os.path.normpath(to.resolve() / folder)
            # Forced: one of the folders may contain another.
            _git(top, "checkout-index", "--all", "--force", "--quiet", f"--prefix={place}/", more=index)


def difference(root: Path, before: str | None, commit: str, folders: Sequence[str] | None = None) -> str:
    """Return what a commit changes in folders of a tree, as a patch."""
    base = [before, commit] if before else ["--root", "--no-commit-id", commit]
    paths = [] if folders is None else ["--", *(_path_of(root, folder) or "." for folder in folders)]
    return _git(top_folder(root), "diff-tree", "-r", "-p", "-M", "--no-color", *base, *paths)


def _path_of(root: Path, folder: str) -> str:
    """Return the path of a folder from the top of the repository; empty at the top."""
    path = os.path.normpath(folder_in_repository(root) / folder)
    return "" if path == os.curdir else Path(path).as_posix()


def folder_in_repository(root: Path) -> Path:
    """Return the folder of a tree, relative to the top of its repository."""
    return root.resolve().relative_to(top_folder(root).resolve())


def top_folder(root: Path) -> Path:
    """Return the folder of the repository that a tree lies in."""
    try:
        return Path(_git(root, "rev-parse", "--show-toplevel"))
    except RequestError:
        raise RequestError(
            f"'{root}' is in no git repository; a revision can only be compared with inside one"
        ) from None


def is_dirty(root: Path, except_for: Path | None = None) -> list[str]:
    """List the files of the repository of a tree that are not as committed, untracked ones included; not of a folder.

    Those outside of the tree count: a commit stands for all of its repository, and a tree imports sources beside it.
    What Python compiles beside its sources does not count: samebits has it do so where it imports a declaration.
    """
    words = ["status", "--porcelain", "--untracked-files=all", "--", ":(top)", ":(top,exclude,glob)**/__pycache__/**"]
    if except_for is not None:
        top, but = top_folder(root).resolve(), except_for.resolve()
        if but.is_relative_to(top):
            words.append(f":(top,exclude,literal){but.relative_to(top).as_posix()}")
    return [line[3:] for line in _git(root, *words).splitlines()]


def head_commit(root: Path) -> str:
    """Return the commit that a tree is at."""
    return _git(root, "rev-parse", "--verify", "HEAD")


def author(root: Path) -> str | None:
    """Return who git would name as the author, as `Name <mail>`; None where it is not configured."""
    try:
        name, mail = (_git(root, "config", f"user.{what}") for what in ("name", "email"))
    except RequestError:  # git exits with 1 where a setting is missing
        return None
    return f"{name} <{mail}>" if name and mail else None


def _git(root: Path, *words: str, stdin: str = "", more: Mapping[str, str] | None = None, none: bool = False) -> str:
    # Inside a hook git names its own repository in the environment; the tree decides here.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            env={**clean, **(more or {})},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"'{root}': git does not run: {error}") from None
    if done.returncode and not (none and done.returncode == 1 and not done.stderr):
        said = (done.stderr.strip() or "nothing found").splitlines()[-1]
        raise RequestError(f"'{root}': git {words[2] if words[0] == '-c' else words[0]} says: {said}")
    return done.stdout.rstrip("\n")
