"""Decides whether goldens and snapshots may be accepted: not in CI, from a clean tree, with author and reason."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError
from samebits.host.git import author, head_commit, is_dirty, top_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Permit:
    """The permission to accept goldens or snapshots now, with the author, the reason and the commit.

    Args:
        root: the tree that runs.
        folder: of the accepted files, which need not be committed.
    """

    root: Path
    folder: Path
    commit: str
    author: str
    reason: str
    date: str

    def still(self) -> None:
        """Check that the tree is still at the commit that was run, without changes."""
        _clean(self.root, self.folder)
        if head_commit(self.root) != self.commit:
            raise RequestError(f"'{self.root}' is at another commit than when the run began; accept again")


def permit_in(
    root: Path,
    folder: Path,
    *,
    things: str,
    reason: str,
    author_given: str | None,
    variables: Mapping[str, str] = os.environ,
) -> Permit:
    """Return the permission to accept files into a folder."""
    if variables.get("CI"):
        raise RequestError(
            f"CI={variables['CI']}: {things} are not accepted in CI; accept them on a workstation, and commit"
        )
    if not reason.strip():
        raise RequestError(f"--reason is empty; say in a sentence why today's run is right and the {things} are not")
    _clean(root, folder)
    accepted_by = (author_given or "").strip() or author(root)
    if not accepted_by:
        raise RequestError("git names no author; set user.name and user.email, or give --author 'Name <mail>'")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Permit(
        root=root,
        folder=folder,
        commit=head_commit(root),
        author=accepted_by,
        reason=" ".join(reason.split()),
        date=today,
    )


def _clean(root: Path, folder: Path) -> None:
    try:
        top_folder(root)
    except RequestError:
        raise RequestError(
            f"'{root}' is in no git repository; what is accepted names its commit: accept in a tree that is committed"
        ) from None
    dirty = is_dirty(root, folder)
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        raise RequestError(
            f"'{root}' is dirty ({dirty[0]}{more}): what is accepted names its commit; commit or stash first"
        )
