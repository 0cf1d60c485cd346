"""`samebits bisect commits`: the commit that introduced a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samebits.bisect.commits.finding import commit_finding
from samebits.bisect.commits.judge import judge_of
from samebits.bisect.commits.request import CommitsRequest, both_ends, required_check
from samebits.bisect.result import Finding, Session
from samebits.bisect.search.history import first_failing
from samebits.errors import RequestError
from samebits.host import git
from samebits.host.git import Commit


def bisect_commits(request: CommitsRequest, session: Session) -> Finding:
    """Find the commit that introduced a failure.

    A commit is judged by its content: commits that leave the implementations as they are cannot be the cause, and are
    not run.

    Raises:
        RequestError: the revisions or the check are wrong, or an end is not as it was said to be.
        NothingFails: the bad end passes.
        CouldNotRun: an end does not repeat.
    """
    check = required_check(request)
    good, bad = both_ends(request)
    commits = {commit.id: commit for commit in git.history(request.tree, good.id, bad.id)}
    known = {good.id: good, **commits}
    parents = {parent for commit in commits.values() for parent in commit.parents}
    contents = git.contents(request.tree, sorted({*known, *parents}), request.folders)
    graph, last = changing(list(commits.values()), contents, good.id, bad.id)
    if not graph or contents[good.id] == contents[bad.id]:
        same = "files" if request.whole else "reference_impls/ and optimized_impls/"
        raise RequestError(
            f"--good {request.good} and --bad {request.bad} have the same {same}, so that nothing tells them apart"
            + ("" if request.whole else "; --whole runs all of an old tree")
        )

    def label(commit: str) -> str:
        if commit not in known:
            known[commit] = git.commit_read(request.tree, commit)
        return str(known[commit])

    with judge_of(request, check) as judge:
        trials = session.trials(
            judge,
            searched={**judge.searched, "bad": bad.id},
            key=lambda commit: contents[commit],
            label=label,
        )
        if trials.remembers(bad.id):  # of a search that was killed
            judge.wanted = trials.known(bad.id).signature
        trials.ends(good.id, bad.id)
        judge.wanted = trials.signature
        found = first_failing(graph, last, trials)
        return commit_finding(request, check, trials, found, commits, good, bad, len(graph))


def changing(
    commits: Sequence[Commit], contents: Mapping[str, str], good: str, bad: str
) -> tuple[dict[str, tuple[str, ...]], str]:
    """The commits that change the content, with what they descend from, oldest first; and the last of them.

    One that has the content of a parent cannot be the cause: the parent stands for it, as in git's own simplification
    of histories. Of a merge that takes one side as it is, the other side is left out. What comes before a commit with
    the content of the good end was taken back, and is left out too.

    Args:
        commits: parents before children.
        contents: of them and of their parents.
        good: passes.
        bad: the last commit.
    """
    stands: dict[str, str] = {}
    graph: dict[str, tuple[str, ...]] = {}
    for commit in commits:
        same = [parent for parent in commit.parents if contents[parent] == contents[commit.id]]
        same.sort(key=lambda parent: parent not in stands)
        if same:
            stands[commit.id] = stands.get(same[0], same[0])
        else:
            stands[commit.id] = commit.id
            graph[commit.id] = tuple(dict.fromkeys(stands.get(parent, parent) for parent in commit.parents))
    last = stands.get(bad, bad)
    back = _histories(graph, [one for one in graph if contents[one] == contents[good]])
    left = _histories(graph, [last]) - back
    return {one: before for one, before in graph.items() if one in left}, last


def _histories(graph: Mapping[str, Sequence[str]], todo: list[str]) -> set[str]:
    """Commits and all that they descend from."""
    found = set[str]()
    while todo:
        one = todo.pop()
        if one in graph and one not in found:
            found.add(one)
            todo += graph[one]
    return found
