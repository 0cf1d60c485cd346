"""`samebits bisect commits`: the commit that introduced a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness import worktree
from harness.bisect.commits_asked import Request, both_ends, required_check
from harness.bisect.commits_judged import judge_of
from harness.bisect.finding import Finding, Session, command
from harness.errors import RequestError
from harness.search.graph import First, first_failing, least_runs
from harness.search.judgement import Judgement
from harness.search.trials import Trials
from harness.worktree import Commit


def bisect_commits(request: Request, session: Session) -> Finding:
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
    commits = {commit.id: commit for commit in worktree.history(request.tree, good.id, bad.id)}
    known = {good.id: good, **commits}
    parents = {parent for commit in commits.values() for parent in commit.parents}
    contents = worktree.contents(request.tree, sorted({*known, *parents}), request.folders)
    graph, last = changing(list(commits.values()), contents, good.id, bad.id)
    if not graph or contents[good.id] == contents[bad.id]:
        same = "files" if request.whole else "reference_impls/ and optimized_impls/"
        raise RequestError(
            f"--good {request.good} and --bad {request.bad} have the same {same}, so that nothing tells them apart"
            + ("" if request.whole else "; --whole runs all of an old tree")
        )

    def label(commit: str) -> str:
        if commit not in known:
            known[commit] = worktree.commit_read(request.tree, commit)
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
        return _finding(request, check, trials, found, commits, good, bad, len(graph))


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


# --- the answer ------------------------------------------------------------------------------------------------------


def _finding(
    request: Request,
    check: tuple[str, ...],
    trials: Trials[str],
    found: First[str],
    commits: Mapping[str, Commit],
    good: Commit,
    bad: Commit,
    candidates: int,
) -> Finding:
    about = f"{len(commits)} commits between, of which {candidates} change " + (
        "a file" if request.whole else "the implementations"
    )
    culprits = tuple(commits[commit] for commit in found.culprits)
    last, before = culprits[-1], good.id
    notes, sure = [about], len(culprits) == 1
    if sure:
        for parent in last.parents:
            outcome = trials(parent)
            if outcome == "pass":
                before = parent
            elif outcome == "fail":
                sure = False
                notes.append(f"{parent[:12]}, a parent of it that is no descendant of --good, fails already")
            else:
                notes.append(f"{parent[:12]}, a parent of it, cannot be judged: {trials.known(parent).detail}")
        if len(last.parents) > 1:
            notes.append("it is a merge: what it merges is judged apart")
    signature = trials.signature or ""
    who = f"commit {last.id[:12]} '{last.subject}' by {last.author}, {last.date},"
    if sure:
        sentence = f"{who} introduced it: PASS before, FAIL ({signature}) from it on"
    elif len(culprits) > 1:
        names = ", ".join(str(commit) for commit in culprits[:5]) + (", ..." if len(culprits) > 5 else "")
        sentence = (
            f"one of {len(culprits)} commits introduced it ({signature}), and all but the last cannot be judged: "
        )
        sentence += names
    else:
        sentence = f"{who} is the first that fails ({signature}) after --good, and does not tell what introduced it"
    start, end = trials.known(before), trials.known(last.id)
    return Finding(
        what="commits",
        found=sure,
        sentence=sentence,
        culprits=tuple((commit.id,) for commit in culprits),
        witness=f"before: {_numbers(start)}; from it on: {_numbers(end)}",
        replay=_replay(request, before, last.id),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        least=least_runs(candidates),
        skipped=tuple(f"{commits[commit]}: {trials.known(commit).detail}" for commit in found.skipped),
        notes=tuple(notes),
        detail={
            "good": good,
            "bad": bad,
            "check": check,
            "signature": signature,
            "commits": len(commits),
            "candidates": candidates,
            "culprit": last if sure else None,
            "before": {"commit": before, "judgement": start},
            "after": {"commit": last.id, "judgement": end},
            "diff": worktree.difference(request.tree, _base(last, before), last.id, request.folders) if sure else "",
        },
    )


def _base(culprit: Commit, before: str) -> str | None:
    """What the diff is against: the parent that passes, if it is one."""
    if before in culprit.parents:
        return before
    return culprit.parents[0] if culprit.parents else None


def _numbers(found: Judgement) -> str:
    """A judgement's place and numbers in words."""
    said = dict(found.numbers)
    if not said:
        return f"{found.outcome.upper()} {found.detail}".rstrip()
    words = [str(said.get("verdict", found.outcome))]
    witness = said.get("witness")
    if isinstance(witness, Mapping):
        at = f"{witness['leaf']}{list(witness['index'])}" if witness.get("index") else str(witness["leaf"])
        words.append(
            f"{at}: reference={witness['reference']} ({witness['reference_hex']}), "
            f"optimized={witness['optimized']} ({witness['optimized_hex']})"
        )
    elif witness:
        words.append(str(witness))
    if "elements" in said and "mismatches" in said:
        words.append(f"{said['mismatches']} of {said['elements']} elements differ")
    if said.get("distance") is not None:
        words.append(f"{said['worst_leaf']}: distance {said['distance']:.3g}, bound {said['bound']:.3g}")
    if said.get("max_ulp"):
        words.append(f"up to {said['max_ulp']} ulps")
    return ", ".join(words)


def _replay(request: Request, before: str, after: str) -> str:
    words = ["samebits", "bisect", "commits", "--good", before[:12], "--bad", after[:12]]
    if request.root is not None:
        words += ["--root", str(request.root.resolve())]
    words += ["--whole"] if request.whole else []
    if request.setup:
        words += ["--setup", command(*request.setup)]
    if request.timeout is not None:
        words += ["--timeout", f"{request.timeout:g}"]
    return command(*words, "--", *request.check)
