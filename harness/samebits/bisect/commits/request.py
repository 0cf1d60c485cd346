"""The request of `samebits bisect commits`: a good and a bad revision, and the check to run on commits between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samebits.bisect.commits.command import require_check
from samebits.errors import RequestError
from samebits.host import git
from samebits.host.git import Commit
from samebits.host.installed import PACKAGE
from samebits.host.repository_sources import RepositorySources, imported_sources
from samebits.host.subprocesses import ProcessResult, run_process
from samebits.programs.catalogue import default_root

FOLDERS = ("reference_impls", "optimized_impls")

Run = Callable[[Sequence[str], Path, Mapping[str, str], float | None], ProcessResult]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitsRequest:
    """The request.

    Args:
        good, bad: revisions; `good` is an ancestor of `bad`.
        check: the command that judges a commit, as words.
        root: the tree whose history is searched; the current one by default.
        whole: whether to check the whole old tree, rather than its implementations, and the sources that they import
            from the repository, with today's suites.
        setup: with `whole`, the command that prepares its environment, as words.
        timeout: of one check or setup, in seconds.
        environment: environment variables of the processes.
        run: runs a command line.
    """

    good: str
    bad: str
    check: tuple[str, ...]
    root: Path | None = None
    whole: bool = False
    setup: tuple[str, ...] = ()
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    run: Run = run_process

    @property
    def tree(self) -> Path:
        """The current tree."""
        return self.root or default_root()

    @property
    def sources(self) -> RepositorySources:
        """What Python imports from the repository beside the implementations, as from `src/`: the commit's own is run.

        Samebits does not count where a commit runs with today's.
        """
        return imported_sources(git.top_folder(self.tree), self.environment, but=None if self.whole else PACKAGE.parent)

    @property
    def folders(self) -> tuple[str, ...] | None:
        """The folders of a commit that are checked, relative to the tree; None for all."""
        if self.whole:
            return None
        inside = git.folder_in_repository(self.tree)
        return (*FOLDERS, *(os.path.relpath(path, inside) for path in self.sources.paths))

    def in_words(self, conjunction: str) -> str:
        """Return the folders of a commit that are checked with today's suites, such as `reference_impls/ and src/`."""
        *names, last = (f"{folder}/" for folder in (*FOLDERS, *self.sources.paths))
        return f"{', '.join(names)} {conjunction} {last}"


def both_ends(request: CommitsRequest) -> tuple[Commit, Commit]:
    """Return both ends as commits.

    Raises:
        RequestError: there is no repository or no such revision, or `good` is not an ancestor of `bad`.
    """
    tree = request.tree
    good, bad = (git.commit_of(tree, revision) for revision in (request.good, request.bad))
    if good == bad:
        raise RequestError(f"--good {request.good} and --bad {request.bad} are the same commit, {good[:12]}; give two")
    if not git.is_ancestor(tree, good, bad):
        if git.is_ancestor(tree, bad, good):
            raise RequestError(
                f"--bad {request.bad} comes before --good {request.good}; the failure must be the later one: are they "
                "swapped?"
            )
        raise RequestError(
            f"--good {request.good} is not in the history of --bad {request.bad}; give a commit that both descend from"
        )
    return git.commit_read(tree, good), git.commit_read(tree, bad)


def required_check(request: CommitsRequest) -> tuple[str, ...]:
    """Return the check, as it is run.

    Raises:
        RequestError: it is empty, or not a check.
    """
    if not request.whole:
        return require_check(request.check)
    if not request.check:
        raise RequestError("give a check after `--`: with --whole any command line, such as `-- make test`")
    return request.check
