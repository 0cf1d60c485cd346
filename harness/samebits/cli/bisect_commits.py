"""`samebits bisect commits`: the commit, or the change of pinned packages, that introduced a failure."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samebits.cli import options
from samebits.cli.bisect import SearchOptions
from samebits.cli.declared import argument, option
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.bisect.search.trials import SearchFinding
    from samebits.bisect.session import Session

    Search = Callable[[Session], SearchFinding]


@dataclass(frozen=True, kw_only=True)
class CommitsOptions(SearchOptions):
    """The options of `samebits bisect commits`."""

    check: Annotated[tuple[str, ...], argument("-- CHECK...")] = ()
    good: Annotated[str | None, option("A commit that passes.", "REV")] = None
    bad: Annotated[str | None, option("A later commit that fails.", "REV")] = None
    toolchain: Annotated[
        tuple[Path, Path] | None,
        option(
            "Instead of commits: files of pins NAME==VERSION, one that passes and one that fails.",
            "LOCK_A LOCK_B",
        ),
    ] = None
    root: options.Tree = None
    whole: Annotated[bool, option("Run old trees as they were; CHECK is then any command line, run in them.")] = False
    setup: Annotated[
        str | None, option("With --whole: makes the tree's own environment, such as 'make install'.", "CMD")
    ] = None
    timeout: Annotated[
        float | None, option("Of one CHECK or setup; a commit that takes longer is UNTESTABLE.", "SECONDS", above=0)
    ] = None


@options.command(CommitsOptions, "commits", runs_user_code=False, context_settings={"allow_interspersed_args": False})
def bisect_commits(chosen: CommitsOptions) -> int:
    """Find the commit that introduced a failure.

    CHECK is a samebits command (check, prove, train, compile or golden check, with its options): today's samebits and
    suites run it over the implementations of old commits, in temporary folders; your tree is not touched. Commits that
    break are skipped and listed, merges are followed to both sides, and commits that leave the implementations as they
    are cost nothing. Folders of the repository from which Python imports (editable installs, PYTHONPATH) are those of
    the commit.

    With --whole, CHECK is any command line without a shell, run in a worktree of the commit. Its exit code counts as in
    `git bisect run`: 0 passes, 125 skips, 1 to 124 fail; beyond, it did not run. A samebits command counts by its
    document.

    With --toolchain, today's tree runs in virtual environments made for pinned packages, and cached: all
    minimal sets of packages that make it fail are found.
    """
    session = chosen.session()
    before = dict(os.environ)  # as the user has it: what `prepare` sets is for this process
    before |= {"JAX_PLATFORMS": chosen.platform} if chosen.platform else {}
    what, search = _toolchain(chosen, before) if chosen.toolchain is not None else _commits(chosen, before)
    from samebits.host import environment

    environment.prepare(platform=chosen.platform)
    return chosen.run(what, search, session, cached=False, apart=True)


def _toolchain(chosen: CommitsOptions, variables: Mapping[str, str]) -> tuple[str, Search]:
    """The search among pinned packages, with its name.

    Raises:
        RequestError: an option of the other search is there too.
    """
    assert chosen.toolchain is not None
    of_commits = {"--good": chosen.good, "--bad": chosen.bad, "--whole": chosen.whole or None, "--setup": chosen.setup}
    wrong = next((name for name, value in of_commits.items() if value is not None), None)
    if wrong is not None:
        raise RequestError(f"{wrong} is of a search among commits; it does not go with --toolchain")
    from samebits.bisect.commits import toolchain

    good, bad = chosen.toolchain
    request = chosen.request(toolchain.ToolchainRequest, good=good, bad=bad, environment=variables)
    return "commits --toolchain", functools.partial(toolchain.bisect_toolchain, request)


def _commits(chosen: CommitsOptions, variables: Mapping[str, str]) -> tuple[str, Search]:
    """The search among commits, with its name.

    Raises:
        RequestError: an end is missing, or an option does not fit.
    """
    if chosen.good is None or chosen.bad is None:
        raise RequestError("give both ends: --good REV, which passes, and --bad REV, which fails")
    if chosen.setup is not None and not chosen.whole:
        raise RequestError("--setup makes the environment of an old tree; it goes with --whole")
    from samebits.bisect.commits import run
    from samebits.bisect.commits.request import CommitsRequest

    request = chosen.request(CommitsRequest, setup=_words(chosen.setup), environment=variables)
    return "commits", functools.partial(run.bisect_commits, request)


def _words(setup: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(setup or ""))
    except ValueError as error:
        raise RequestError(f"--setup {setup}: {error}") from None
    if setup is not None and not words:
        raise RequestError("--setup is empty; give a command line, such as 'make install'")
    return words
