"""What git says about a tree: the only code here that knows git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness.errors import RequestError


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
