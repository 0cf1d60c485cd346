"""`samebits bisect commits`: finds the commit that introduced a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samebits.bisect.commits.finding import CommitSearch, commit_finding
from samebits.bisect.commits.judge import commit_judge
from samebits.bisect.commits.request import CommitsRequest, both_ends, required_check
from samebits.bisect.result import Finding, Session
from samebits.bisect.search.history import first_failing
from samebits.bisect.search.space import SearchSpace
from samebits.errors import RequestError
from samebits.host import git
from samebits.host.git import Commit


def bisect_commits(request: CommitsRequest, session: Session) -> Finding:
    """Find the commit that introduced a failure.

    Commits that change neither the implementations nor sources that Python imports from the repository cannot be the
    cause, and are not run.

    Raises:
        RequestError: the revisions or the check are invalid, or the good end fails.
        NothingFails: the bad end passes.
        CouldNotRun: the result at an end is not reproducible.
    """
    check = required_check(request)
    good, bad = both_ends(request)
    commits = {commit.id: commit for commit in git.history(request.tree, good.id, bad.id)}
    known = {good.id: good, **commits}
    parents = {parent for commit in commits.values() for parent in commit.parents}
    contents = git.contents(request.tree, sorted({*known, *parents}), request.folders)
    graph, last = changing(list(commits.values()), contents, good.id, bad.id)
    if not graph or contents[good.id] == contents[bad.id]:
        same = "files" if request.whole else request.in_words("and")
        raise RequestError(
            f"--good {request.good} and --bad {request.bad} have the same {same}, so there is nothing to search"
            + ("" if request.whole else "; --whole runs all of an old tree")
        )

    def label(commit: str) -> str:
        if commit not in known:
            known[commit] = git.commit_read(request.tree, commit)
        return str(known[commit])

    with commit_judge(request, check) as judge:
        trials = session.trials(
            judge,
            searched={**judge.searched, "bad": bad.id},
            key=lambda commit: contents[commit],
            label=label,
        )
        places = {commit: number for number, commit in enumerate(graph)}
        trials.space = SearchSpace(
            candidates=tuple(map(label, graph)),
            taken=lambda commit: (places[commit],) if commit in places else (),
        )
        if trials.remembers(bad.id):  # from the journal of an interrupted search
            judge.wanted = trials.known(bad.id).signature
        trials.ends(good.id, bad.id)
        judge.wanted = trials.signature
        culprits = first_failing(graph, last, trials, trials.narrowed)
        search = CommitSearch(
            request=request, check=check, trials=trials, commits=commits, good=good, bad=bad, candidates=len(graph)
        )
        return commit_finding(search, culprits)


def changing(
    commits: Sequence[Commit], contents: Mapping[str, str], good: str, bad: str
) -> tuple[dict[str, tuple[str, ...]], str]:
    """The commits that change the content, with their parents among these, oldest first; and the last of them.

    A commit with the content of one of its parents cannot be the cause, so that parent replaces it, as in git's history
    simplification. If a merge takes one side unchanged, the other side is left out. Commits before one with the content
    of the good end were reverted, and are left out too.

    Args:
        commits: parents before children.
        contents: digests of the content of these commits and of their parents, by commit.
        good: the good commit.
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
    back = _histories(graph, [commit_id for commit_id in graph if contents[commit_id] == contents[good]])
    left = _histories(graph, [last]) - back
    return {commit_id: before for commit_id, before in graph.items() if commit_id in left}, last


def _histories(graph: Mapping[str, Sequence[str]], todo: list[str]) -> set[str]:
    """Commits and all their ancestors in a graph."""
    reached = set[str]()
    while todo:
        commit_id = todo.pop()
        if commit_id in graph and commit_id not in reached:
            reached.add(commit_id)
            todo += graph[commit_id]
    return reached
