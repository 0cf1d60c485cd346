"""The finding of `samebits bisect commits`: the commit, its patch, and the judgements before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samebits.bisect.commits.request import CommitsRequest
from samebits.bisect.result import Finding, command, counted
from samebits.bisect.search.history import FirstFailing, least_runs
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.trials import Trials
from samebits.host import git
from samebits.host.git import Commit


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitSearch:
    """A finished search between two commits.

    Args:
        request: as given.
        check: the command that was run.
        trials: the points that were judged, and the judge of further ones.
        commits: the commits between both ends, by hash.
        good, bad: both ends.
        candidates: how many of the commits change the content.
    """

    request: CommitsRequest
    check: tuple[str, ...]
    trials: Trials[str]
    commits: Mapping[str, Commit]
    good: Commit
    bad: Commit
    candidates: int


def commit_finding(search: CommitSearch, first: FirstFailing[str]) -> Finding:
    """The finding of a search; it judges every parent of the culprit, so that both sides of the change are known.

    Args:
        search: the search.
        first: the first failing commit, or the commits among which it is.
    """
    request, trials, commits = search.request, search.trials, search.commits
    culprits = tuple(commits[commit] for commit in first.culprits)
    last = culprits[-1]
    what = "a file" if request.whole else "the implementations"
    if request.sources.paths and not request.whole:
        what = request.in_words("or")
    notes = [f"{len(commits)} commits between, of which {search.candidates} change {what}"]
    before, sure = search.good.id, len(culprits) == 1
    if sure:
        before, sure = _passing_parent(search, last, notes)
    if request.whole and search.check[0] == "samebits":
        notes.append(
            "`samebits` is the one of your path at every commit; .venv/bin/samebits is the tree's own (--setup)"
        )
    start, end = trials.known(before), trials.known(last.id)
    at_bad = numbers_in_words(trials.known(search.bad.id))
    otherwise = at_bad != numbers_in_words(end)
    sentence = _sentence(culprits, trials.signature or "", _later(search, last) if sure else None)
    return Finding(
        what="commits",
        found=sure,
        sentence=sentence + ("; at --bad it fails otherwise, so a later commit may matter" if otherwise else ""),
        culprits=tuple((commit.id,) for commit in culprits),
        witness=f"before: {numbers_in_words(start)}; at it: {numbers_in_words(end)}"
        + (f"; at --bad: {at_bad}" if otherwise else ""),
        replay=_replay(request, before, last.id),
        least=least_runs(search.candidates),
        skipped=tuple(f"{commits[commit]}: {trials.known(commit).detail}" for commit in first.skipped),
        notes=tuple(notes),
        detail={
            "good": search.good,
            "bad": search.bad,
            "check": search.check,
            "signature": trials.signature or "",
            "commits": len(commits),
            "candidates": search.candidates,
            "culprit": last if sure else None,
            "before": {"commit": before, "judgement": start},
            "after": {"commit": last.id, "judgement": end},
            "diff": git.difference(request.tree, _base(last, before), last.id, request.folders) if sure else "",
        },
    ).with_trials(trials)


def _passing_parent(search: CommitSearch, culprit: Commit, notes: list[str]) -> tuple[str, bool]:
    """The passing parent of a culprit (else the good end), and whether the culprit introduced the failure."""
    before, sure = search.good.id, True
    for parent in culprit.parents:
        outcome = search.trials(parent)
        if outcome == "pass":
            before = parent
        elif outcome == "fail":
            sure = False
            notes.append(f"{parent[:12]}, a parent of it that is not a descendant of --good, fails already")
        else:
            notes.append(f"{parent[:12]}, a parent of it, cannot be judged: {search.trials.known(parent).detail}")
    if len(culprit.parents) > 1:
        notes.append("it is a merge: what it merges is judged apart")
    return before, sure


def _later(search: CommitSearch, culprit: Commit) -> str:
    """From where on the failure was seen; commits that the search did not need are not judged."""
    after = {culprit.id}
    for commit in search.commits.values():  # parents come before children
        if after & {*commit.parents}:
            after.add(commit.id)
    later = after - {culprit.id, search.bad.id}
    outcomes = [search.trials.known(commit).outcome for commit in later if search.trials.remembers(commit)]
    if outcomes.count("fail") == len(later):
        return "from it on"
    judged = (
        f"{len(outcomes)} of {counted(len(later), 'commit')} after it {'was' if len(outcomes) == 1 else 'were'} judged"
    )
    others = len(outcomes) - outcomes.count("fail")
    return f"from it on where judged: {judged}" + (f", and {others} of these did not fail" if others else "")


def _sentence(culprits: Sequence[Commit], signature: str, later: str | None) -> str:
    last = culprits[-1]
    commit = f"commit {last.id[:12]} '{last.subject}' by {last.author}, {last.date},"
    if later is not None:
        return f"{commit} introduced it: PASS before, FAIL ({signature}) {later}"
    if len(culprits) > 1:
        names = ", ".join(str(culprit) for culprit in culprits[:5]) + (", ..." if len(culprits) > 5 else "")
        hidden = "and all but the last cannot be judged"
        return f"one of {len(culprits)} commits introduced it ({signature}), {hidden}: {names}"
    return f"{commit} is the first that fails ({signature}) after --good, but may not have introduced it"


def _base(culprit: Commit, before: str) -> str | None:
    """The commit that the diff starts from: the passing commit if it is a parent, else the first parent."""
    if before in culprit.parents:
        return before
    return culprit.parents[0] if culprit.parents else None


def numbers_in_words(judgement: Judgement) -> str:
    """The witness and the numbers of a judgement, in words."""
    numbers = dict(judgement.numbers)
    if not numbers:
        return f"{judgement.outcome.upper()} {judgement.detail}".rstrip()
    words = [str(numbers.get("verdict", judgement.outcome))]
    witness = numbers.get("witness")
    if isinstance(witness, Mapping):
        at = f"{witness['leaf']}{list(witness['index'])}" if witness.get("index") else str(witness["leaf"])
        words.append(
            f"{at}: reference={witness['reference']} ({witness['reference_hex']}), "
            f"optimized={witness['optimized']} ({witness['optimized_hex']})"
        )
    elif witness:
        words.append(str(witness))
    if "elements" in numbers and "mismatches" in numbers:
        words.append(f"{numbers['mismatches']} of {numbers['elements']} elements differ")
    if numbers.get("ulps") is not None:
        words.append(f"{numbers['ulps']} ulps there, {numbers.get('bound')} allowed")
    if numbers.get("distance") is not None:
        words.append(f"{numbers['worst_leaf']}: distance {numbers['distance']:.3g}, bound {numbers['bound']:.3g}")
    if numbers.get("max_ulp"):
        words.append(f"up to {numbers['max_ulp']} ulps")
    return ", ".join(words)


def _replay(request: CommitsRequest, before: str, after: str) -> str:
    words = ["samebits", "bisect", "commits", "--good", before[:12], "--bad", after[:12]]
    if request.root is not None:
        words += ["--root", str(request.root.resolve())]
    words += ["--whole"] if request.whole else []
    if request.setup:
        words += ["--setup", command(*request.setup)]
    if request.timeout is not None:
        words += ["--timeout", f"{request.timeout:g}"]
    return command(*words, "--", *request.check)
