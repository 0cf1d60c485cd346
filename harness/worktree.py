"""The only code that knows git."""

from __future__ import annotations

import contextlib
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
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise RequestError(f"'{root}' is in no git repository; a revision can only be compared with inside one")
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found is None:
        raise RequestError(f"'{revision}' is no revision of {top}; expected a branch, a tag or a commit")
    return found


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
    top = Path(str(_git(root, "rev-parse", "--show-toplevel")))
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        place = Path(folder) / "tree"
        if _git(root, "worktree", "add", "--detach", "--quiet", str(place), commit) is None:
            raise RequestError(f"git could not check out {revision} ({commit[:12]}) into a worktree")
        try:
            tree = place / root.resolve().relative_to(top.resolve())
            if not tree.is_dir():
                raise RequestError(
                    f"{revision} ({commit[:12]}) has no folder {root.resolve().relative_to(top.resolve())}"
                )
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(place))


def _git(root: Path, *words: str) -> str | None:
    """What git prints, or None where it fails."""
    try:
        found = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise RequestError(f"git cannot be run: {error.strerror or error}") from None
    return found.stdout.strip() if found.returncode == 0 else None
