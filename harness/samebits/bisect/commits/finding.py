"""The answer of `samebits bisect commits`: the commit, its patch, and the verdicts on both sides of it."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.bisect.commits.request import CommitsRequest
from samebits.bisect.result import Finding, command
from samebits.bisect.search.history import FirstFailing, least_runs
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.trials import Trials
from samebits.host import git
from samebits.host.git import Commit


def commit_finding(
    request: CommitsRequest,
    check: tuple[str, ...],
    trials: Trials[str],
    found: FirstFailing[str],
    commits: Mapping[str, Commit],
    good: Commit,
    bad: Commit,
    candidates: int,
) -> Finding:
    """What the search found; every parent of the culprit is looked at, so that both sides are seen.

    Args:
        request: as asked.
        check: as it is run.
        trials: all looks, and the judge of the last ones.
        found: by the search.
        commits: between both ends, by their hashes.
        good, bad: both ends.
        candidates: how many of the commits change the content.
    """
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
    if request.whole and check[0] == "samebits":
        notes.append(
            "`samebits` is the one of your path at every commit; .venv/bin/samebits is the tree's own (--setup)"
        )
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
        witness=f"before: {numbers_in_words(start)}; from it on: {numbers_in_words(end)}",
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
            "diff": git.difference(request.tree, _base(last, before), last.id, request.folders) if sure else "",
        },
    )


def _base(culprit: Commit, before: str) -> str | None:
    """What the diff is against: the parent that passes, if it is one."""
    if before in culprit.parents:
        return before
    return culprit.parents[0] if culprit.parents else None


def numbers_in_words(found: Judgement) -> str:
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
    if said.get("ulps") is not None:
        words.append(f"{said['ulps']} ulps there, {said.get('bound')} allowed")
    if said.get("distance") is not None:
        words.append(f"{said['worst_leaf']}: distance {said['distance']:.3g}, bound {said['bound']:.3g}")
    if said.get("max_ulp"):
        words.append(f"up to {said['max_ulp']} ulps")
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
