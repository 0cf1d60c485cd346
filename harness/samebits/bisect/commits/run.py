"""`samebits bisect commits`: finds the commit that introduced a failure.

A commit is judged by its implementations under today's samebits and suites, or by its whole tree as it was. What Python
imports from the repository beside them, such as an editable install of `src/`, is the commit's too.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from samebits.bisect.commits.command import judge_process, judge_written, require_check, samebits_command
from samebits.bisect.search.history import FirstFailing, first_failing, least_runs
from samebits.bisect.search.trials import Judgement, SearchFinding, SearchSpace, Trials, untestable
from samebits.bisect.session import Session, again, counted, files_digest
from samebits.errors import CouldNotRun, RequestError
from samebits.host import git
from samebits.host.git import Commit
from samebits.host.installed import PACKAGE
from samebits.host.repository_sources import RepositorySources, imported_sources
from samebits.host.subprocesses import ProcessResult, run_process, samebits_environment
from samebits.programs.catalogue import SUITES, default_root

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
    """Return the check, as it is run."""
    if not request.whole:
        return require_check(request.check)
    if not request.check:
        raise RequestError("give a check after `--`: with --whole any command line, such as `-- make test`")
    return request.check


def bisect_commits(request: CommitsRequest, session: Session) -> SearchFinding:
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
            "commits",
            judge,
            searched={**judge.searched, "bad": bad.id},
            key=lambda commit: contents[commit],
            label=label,
        )
        places = {commit: number for number, commit in enumerate(graph)}
        trials.space = SearchSpace(
            candidates=tuple(map(label, graph)), taken=lambda commit: (places[commit],) if commit in places else ()
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
    """Return the commits that change the content, with their parents among these, oldest first; and the last of them.

    A commit with the content of one of its parents cannot be the cause, so that parent replaces it, as in git's history
    simplification. If a merge takes one side unchanged, the other side is left out. Commits before one with the content
    of the good end were reverted, and are left out too.

    Args:
        contents: digests of the content of these commits and of their parents, by commit.
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
    """Return commits and all their ancestors in a graph."""
    reached = set[str]()
    while todo:
        commit_id = todo.pop()
        if commit_id in graph and commit_id not in reached:
            reached.add(commit_id)
            todo += graph[commit_id]
    return reached


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitSearch:
    """A finished search between two commits.

    Args:
        trials: the points that were judged, and the judge of further ones.
        commits: the commits between both ends, by hash.
        candidates: how many of the commits change the content.
    """

    request: CommitsRequest
    check: tuple[str, ...]
    trials: Trials[str]
    commits: Mapping[str, Commit]
    good: Commit
    bad: Commit
    candidates: int


def commit_finding(search: CommitSearch, first: FirstFailing[str]) -> SearchFinding:
    """Describe what a search found; every parent of the culprit is judged, so that both sides are known."""
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
    return trials.finding(
        found=sure,
        sentence=sentence + ("; at --bad it fails otherwise, so a later commit may matter" if otherwise else ""),
        culprits=tuple((commit.id,) for commit in culprits),
        witness=f"before: {numbers_in_words(start)}; at it: {numbers_in_words(end)}"
        + (f"; at --bad: {at_bad}" if otherwise else ""),
        replay=again(
            "commits", check=request.check, good=before[:12], bad=last.id[:12], root=request.root, whole=request.whole,
            setup=shlex.join(request.setup) or None, timeout=request.timeout,
        ),
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
    )  # fmt: skip


def _passing_parent(search: CommitSearch, culprit: Commit, notes: list[str]) -> tuple[str, bool]:
    """Return the passing parent of a culprit (else the good end), and whether the culprit introduced the failure."""
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
    """Say from where on the failure was seen; commits that the search did not need are not judged."""
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
    """Return the commit that the diff starts from: the passing commit if it is a parent, else the first parent."""
    if before in culprit.parents:
        return before
    return culprit.parents[0] if culprit.parents else None


def numbers_in_words(judgement: Judgement) -> str:
    """Return the witness and the numbers of a judgement, in words."""
    numbers = dict(judgement.numbers)
    if not numbers:
        return f"{judgement.outcome.upper()} {judgement.detail}".rstrip()
    words = [str(numbers.get("verdict", judgement.outcome))]
    witness = numbers.get("witness")
    if isinstance(witness, Mapping):
        at = f"{witness['leaf']}{list(witness['index'])}" if witness.get("index") else str(witness["leaf"])
        words.append(
            f"{at}: reference={witness['reference']} ({witness['reference_hex']}), "
            f"variant={witness['optimized']} ({witness['optimized_hex']})"
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


@dataclass(kw_only=True, slots=True)
class CommitJudge:
    """Judges one commit.

    Args:
        suites: a copy of today's suites, made when the search began.
        searched: everything that a judgement depends on besides the commit.
        wanted: the signature that is searched for, once known.
    """

    request: CommitsRequest
    check: tuple[str, ...]
    suites: Path
    searched: dict[str, Any]
    wanted: str | None = None

    def __call__(self, commit: str) -> Judgement:
        """Run the check on a commit."""
        try:
            judgement = self._whole(commit) if self.request.whole else self._composed(commit)
        except CouldNotRun as error:
            judgement = untestable(str(error))
        if self.wanted is None and judgement.outcome == "fail":
            self.wanted = judgement.signature
        return judgement

    def _composed(self, commit: str) -> Judgement:
        """Check the implementations of a commit, and the sources that they import, with today's suites."""
        request = self.request
        with tempfile.TemporaryDirectory(prefix="samebits-bisect-") as folder:
            top, document = Path(folder) / "tree", Path(folder) / "document.json"
            tree = top / git.folder_in_repository(request.tree)
            tree.mkdir(parents=True)
            git.extract(request.tree, commit, request.folders or (), tree)
            # After them: a folder of sources may be the top, which has the suites of the commit.
            shutil.rmtree(tree / SUITES, ignore_errors=True)
            shutil.copytree(self.suites, tree / SUITES)
            words = samebits_command(self.check, tree, document, sys.executable)
            path = request.sources.in_checkout(top, Path(folder) / "links")
            path += filter(None, [request.environment.get("PYTHONPATH")])
            environment = samebits_environment({**request.environment, "PYTHONPATH": os.pathsep.join(path)})
            ended = request.run(words, Path.cwd(), environment, request.timeout)
            return judge_written(ended, document, self.wanted, tree, top, Path(folder))

    def _whole(self, commit: str) -> Judgement:
        """Check the whole tree of a commit, in a checkout of its own."""
        request = self.request
        own = {name: value for name, value in request.environment.items() if name != "PYTHONPATH"}
        try:
            with (
                git.checkout(request.tree, commit) as tree,
                tempfile.TemporaryDirectory(prefix="samebits-bisect-") as folder,
            ):
                top, document = git.top_folder(tree), Path(folder) / "document.json"
                if request.setup:
                    setup = request.run(request.setup, tree, own, request.timeout)
                    if setup.code:
                        return untestable(f"setup ends with {setup.code}: {setup.last}")
                # Not for `setup`, which makes the tree's own environment.
                path = request.sources.in_checkout(top, Path(folder) / "links")
                own |= {"PYTHONPATH": os.pathsep.join(path)} if path else {}
                of_ours = runs_samebits(self.check)
                words = [*self.check, "--json", str(document)] if of_ours else list(self.check)
                ended = request.run(words, tree, own, request.timeout)
                if not of_ours:
                    return judge_process(ended)
                return judge_written(ended, document, self.wanted, tree, top, Path(folder))
        except RequestError as error:  # the commit does not have this folder
            return untestable(str(error))


def runs_samebits(check: Sequence[str]) -> bool:
    """Return whether a command line runs samebits without its own `--json`, so that a document can be requested."""
    ours = Path(check[0]).name == "samebits" or any(check[i : i + 2] == ("-m", "samebits") for i in range(len(check)))
    return ours and not any(word.partition("=")[0] == "--json" for word in check)


@contextmanager
def commit_judge(request: CommitsRequest, check: tuple[str, ...]) -> Iterator[CommitJudge]:
    """Make a judge with a copy of today's suites, so that edits during the search have no effect."""
    versions, sources = {}, request.sources
    for name in ("jax", "jaxlib", "libtpu", "numpy", "flax", "optax"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    flags = {name: text for name, text in request.environment.items() if name.startswith(("JAX_", "XLA_", "LIBTPU_"))}
    searched: dict[str, Any] = {
        "check": check,
        "setup": request.setup,
        "whole": request.whole,
        "timeout": request.timeout,
        "tree": str(request.tree.resolve()),
        "flags": flags,
        "sources": (sources.folders, sources.packages),
    }
    with tempfile.TemporaryDirectory(prefix="samebits-suites-") as folder:
        suites = Path(folder) / SUITES
        if not request.whole:
            today = request.tree / SUITES
            if not today.is_dir():
                raise RequestError(f"'{request.tree}' has no {SUITES}/; today's are run over old implementations")
            shutil.copytree(today, suites, ignore=shutil.ignore_patterns("__pycache__"))
            files = [path for path in suites.rglob("*") if path.is_file()]
            searched |= {"python": sys.version, "versions": versions, "suites": files_digest(files, suites)}
        yield CommitJudge(request=request, check=check, suites=suites, searched=searched)
