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
        whole: whether to check the whole old tree, rather than its implementations with today's suites.
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
    def folders(self) -> tuple[str, ...] | None:
        """The folders of a commit that are checked; None for all."""
        return None if self.whole else FOLDERS


def both_ends(request: CommitsRequest) -> tuple[Commit, Commit]:
    """Both ends as commits.

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
    """The check, as it is run.

    Raises:
        RequestError: it is empty, or not a check.
    """
    if not request.whole:
        return require_check(request.check)
    if not request.check:
        raise RequestError("give a check after `--`: with --whole any command line, such as `-- make test`")
    return request.check
