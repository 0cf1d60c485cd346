"""`samebits bisect commits`: the commit that introduced a failure."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
from harness import worktree
from harness.bisect.commanded import (
    Ended,
    harness_command,
    harness_environment,
    judge_harness,
    judge_process,
    read_seen,
    require_check,
    run_process,
)
from harness.bisect.finding import Finding, Session, command, files_digest
from harness.catalogue import SUITES, default_root
from harness.errors import CouldNotRun, RequestError
from harness.search.graph import First, first_failing, least_runs
from harness.search.judgement import Judgement, untestable
from harness.search.trials import Trials
from harness.worktree import Commit

FOLDERS = ("reference_impls", "optimized_impls")

Run = Callable[[Sequence[str], Path, Mapping[str, str], float | None], Ended]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is searched.

    Args:
        good, bad: revisions; `bad` has all of the history of `good`.
        check: the command that judges a commit, word by word.
        root: the tree, of which other commits are looked at; the current one by default.
        whole: whether the old tree runs as it was, instead of its implementations in today's tree.
        setup: with `whole`, a command line that makes its environment, word by word.
        timeout: of one check or setup, in seconds.
        environment: of the processes.
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
        """The tree of today."""
        return self.root or default_root()

    @property
    def folders(self) -> tuple[str, ...] | None:
        """What of a commit counts; None for all of it."""
        return None if self.whole else FOLDERS


def bisect_commits(request: Request, session: Session) -> Finding:
    """Find the commit that introduced a failure.

    A commit is judged by its content: commits that leave the implementations as they are cannot be the cause, and are
    not run.

    Raises:
        RequestError: the revisions or the check are wrong, or an end is not as it was said to be.
        NothingFails: the bad end passes.
        CouldNotRun: an end does not repeat.
    """
    check = _require_command(request) if request.whole else require_check(request.check)
    good, bad = _ends(request)
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

    with _judge(request, check) as judge:
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


def _ends(request: Request) -> tuple[Commit, Commit]:
    """Both ends as commits.

    Raises:
        RequestError: no repository, no such revision, or one is not in the history of the other.
    """
    tree = request.tree
    good, bad = (worktree.commit_of(tree, revision) for revision in (request.good, request.bad))
    if good == bad:
        raise RequestError(f"--good {request.good} and --bad {request.bad} are the same commit, {good[:12]}; give two")
    if not worktree.is_ancestor(tree, good, bad):
        if worktree.is_ancestor(tree, bad, good):
            raise RequestError(
                f"--bad {request.bad} comes before --good {request.good}; the failure must be the later one: are they "
                "swapped?"
            )
        raise RequestError(
            f"--good {request.good} is not in the history of --bad {request.bad}; give a commit that both descend from"
        )
    return worktree.commit_read(tree, good), worktree.commit_read(tree, bad)


def _require_command(request: Request) -> tuple[str, ...]:
    if not request.check:
        raise RequestError("give a check after `--`: with --whole any command line, such as `-- make test`")
    return request.check


# --- one commit ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True)
class _Judge:
    """Looks at one commit.

    Args:
        request, check: what is run.
        suites: today's suites as they were when the search began.
        searched: everything that a judgement depends on beside the commit.
        wanted: the signature that is searched for, once it is known.
    """

    request: Request
    check: tuple[str, ...]
    suites: Path
    searched: dict[str, Any]
    wanted: str | None = None

    def __call__(self, commit: str) -> Judgement:
        try:
            found = self._whole(commit) if self.request.whole else self._composed(commit)
        except CouldNotRun as error:
            found = untestable(str(error))
        if self.wanted is None and found.outcome == "fail":
            self.wanted = found.signature
        return found

    def _composed(self, commit: str) -> Judgement:
        """Today's suites over the implementations of a commit."""
        request = self.request
        with tempfile.TemporaryDirectory(prefix="samebits-bisect-") as folder:
            tree, document = Path(folder) / "tree", Path(folder) / "document.json"
            shutil.copytree(self.suites, tree / SUITES)
            worktree.extract(request.tree, commit, FOLDERS, tree)
            words = harness_command(self.check, tree, document, sys.executable)
            ended = request.run(words, Path.cwd(), harness_environment(request.environment), request.timeout)
            return self._judged(ended, document, f"{tree}/")

    def _whole(self, commit: str) -> Judgement:
        """A commit as it was, in an environment of its own."""
        request = self.request
        own = {name: value for name, value in request.environment.items() if name != "PYTHONPATH"}
        try:
            with (
                worktree.checkout(request.tree, commit) as tree,
                tempfile.TemporaryDirectory(prefix="samebits-bisect-") as folder,
            ):
                if request.setup:
                    made = request.run(request.setup, tree, own, request.timeout)
                    if made.code:
                        return untestable(f"setup ends with {made.code}: {made.last}")
                document = Path(folder) / "document.json"
                of_ours = runs_samebits(self.check)
                words = [*self.check, "--json", str(document)] if of_ours else list(self.check)
                ended = request.run(words, tree, own, request.timeout)
                return self._judged(ended, document, f"{tree}/") if of_ours else judge_process(ended)
        except RequestError as error:  # a commit without this folder
            return untestable(str(error))

    def _judged(self, ended: Ended, document: Path, tree: str) -> Judgement:
        # Names of temporary folders are not the same twice.
        ended = Ended(code=ended.code, out=ended.out.replace(tree, ""), err=ended.err.replace(tree, ""))
        text = document.read_text(encoding="utf-8").replace(tree, "") if document.is_file() else ""
        return judge_harness(ended, read_seen(text) if text else None, self.wanted)


def runs_samebits(check: Sequence[str]) -> bool:
    """Whether a command line is one of samebits, which writes a document."""
    ours = Path(check[0]).name == "samebits" or any(check[i : i + 2] == ("-m", "harness") for i in range(len(check)))
    return ours and not any(word.partition("=")[0] == "--json" for word in check)


@contextmanager
def _judge(request: Request, check: tuple[str, ...]) -> Iterator[_Judge]:
    """A judge; today's suites are kept as they are now, so that edits during the search change nothing."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in ("jax", "jaxlib", "libtpu", "numpy", "flax", "optax"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    flags = {name: text for name, text in request.environment.items() if name.startswith(("JAX_", "XLA_", "LIBTPU_"))}
    searched: dict[str, Any] = {
        "what": "commits",
        "check": check,
        "setup": request.setup,
        "whole": request.whole,
        "timeout": request.timeout,
        "tree": str(request.tree.resolve()),
        "flags": flags,
    }
    with tempfile.TemporaryDirectory(prefix="samebits-suites-") as folder:
        suites = Path(folder) / SUITES
        if not request.whole:
            today = request.tree / SUITES
            if not today.is_dir():
                raise RequestError(f"'{request.tree}' has no {SUITES}/; today's are run over old implementations")
            shutil.copytree(today, suites, ignore=shutil.ignore_patterns("__pycache__"))
            own = Path(harness.__file__).resolve().parent
            code = [path for path in own.rglob("*.py") if "tests" not in path.relative_to(own).parts]
            files = [path for path in suites.rglob("*") if path.is_file()]
            searched |= {
                "python": sys.version,
                "versions": versions,
                "harness": files_digest(code, own),
                "suites": files_digest(files, suites),
            }
        yield _Judge(request=request, check=check, suites=suites, searched=searched)


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
