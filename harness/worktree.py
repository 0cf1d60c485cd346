"""What git says about a tree, and a tree as it was: the only code here that knows git."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.errors import RequestError


def commit_of(root: Path, revision: str) -> str:
    """The commit that a revision names in the repository of a tree.

    Raises:
        RequestError: the tree is in no repository, or it has no such revision.
    """
    top = _top(root)
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except RequestError:
        raise RequestError(f"'{revision}' is no revision of {top}; expected a branch, a tag or a commit") from None


@contextlib.contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """A tree as it was at a revision, in a temporary worktree that is removed again.

    Args:
        root: a tree of today, the top of its repository or a folder in it.
        revision: a branch, a tag or a commit.

    Raises:
        RequestError: as `commit_of`, or the tree did not exist at that revision.
    """
    commit = commit_of(root, revision)
    inside = root.resolve().relative_to(_top(root).resolve())
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        place = Path(folder) / "tree"
        _git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        try:
            if not (place / inside).is_dir():
                raise RequestError(f"{revision} ({commit[:12]}) has no folder {inside}")
            yield place / inside
        finally:
            _git(root, "worktree", "remove", "--force", str(place))


def _top(root: Path) -> Path:
    try:
        return Path(_git(root, "rev-parse", "--show-toplevel"))
    except RequestError:
        raise RequestError(
            f"'{root}' is in no git repository; a revision can only be compared with inside one"
        ) from None


def is_dirty(root: Path, except_for: Path | None = None) -> list[str]:
    """The files of a tree that are not as committed, untracked ones included; empty where it is clean.

    Args:
        root: the tree.
        except_for: a folder of it whose files do not count.

    Raises:
        RequestError: the tree is in no git repository.
    """
    words = ["status", "--porcelain", "--untracked-files=all", "--", "."]
    if except_for is not None:
        words.append(f":(exclude){except_for.resolve().relative_to(root.resolve()).as_posix()}")
    return [line[3:] for line in _git(root, *words).splitlines()]


def head_commit(root: Path) -> str:
    """The commit that a tree is at.

    Raises:
        RequestError: the tree is in no git repository, or in one without a commit.
    """
    return _git(root, "rev-parse", "--verify", "HEAD")


def author(root: Path) -> str | None:
    """Who git would name as the author, as `Name <mail>`; None where it is not configured."""
    try:
        name, mail = (_git(root, "config", f"user.{what}") for what in ("name", "email"))
    except RequestError:
        return None
    return f"{name} <{mail}>" if name and mail else None


def _git(root: Path, *words: str) -> str:
    # Inside a hook git names its own repository in the environment; the tree decides here.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            env=clean,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"'{root}': git does not run: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or "nothing found").splitlines()[-1]
        raise RequestError(f"'{root}': git {words[0]} says: {said}")
    return done.stdout.rstrip("\n")
