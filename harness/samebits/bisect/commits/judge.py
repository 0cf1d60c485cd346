"""Judges one commit: its implementations under today's samebits and suites, or its whole tree as it was.

What Python imports from the repository beside them, such as an editable install of `src/`, is the commit's too.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from samebits.bisect.commits.command import judge_command, judge_process, samebits_command
from samebits.bisect.commits.request import CommitsRequest
from samebits.bisect.read_documents import read_observations
from samebits.bisect.search.judgement import Judgement, untestable
from samebits.bisect.session import files_digest
from samebits.errors import CouldNotRun, RequestError
from samebits.host import git
from samebits.host.package import PACKAGE
from samebits.host.subprocesses import ProcessResult, samebits_environment
from samebits.programs.catalogue import SUITES


@dataclass(kw_only=True, slots=True)
class CommitJudge:
    """Judges one commit.

    Args:
        request, check: what is run.
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
            return self._judged(ended, document, tree, top, Path(folder))

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
                return self._judged(ended, document, tree, top, Path(folder)) if of_ours else judge_process(ended)
        except RequestError as error:  # the commit does not have this folder
            return untestable(str(error))

    def _judged(self, ended: ProcessResult, document: Path, *folders: Path) -> Judgement:
        text = document.read_text(encoding="utf-8") if document.is_file() else ""
        for name in (f"{folder}/" for folder in folders):  # those of temporary folders change from run to run
            ended = ProcessResult(code=ended.code, out=ended.out.replace(name, ""), err=ended.err.replace(name, ""))
            text = text.replace(name, "")
        return judge_command(ended, read_observations(text) if text else None, self.wanted)


def runs_samebits(check: Sequence[str]) -> bool:
    """Whether a command line runs samebits without its own `--json`, so that a document can be requested."""
    ours = Path(check[0]).name == "samebits" or any(check[i : i + 2] == ("-m", "samebits") for i in range(len(check)))
    return ours and not any(word.partition("=")[0] == "--json" for word in check)


@contextmanager
def commit_judge(request: CommitsRequest, check: tuple[str, ...]) -> Iterator[CommitJudge]:
    """A judge with a copy of today's suites, so that edits during the search have no effect."""
    versions, sources = {}, request.sources
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
        "sources": (sources.folders, sources.packages),
    }
    with tempfile.TemporaryDirectory(prefix="samebits-suites-") as folder:
        suites = Path(folder) / SUITES
        if not request.whole:
            today = request.tree / SUITES
            if not today.is_dir():
                raise RequestError(f"'{request.tree}' has no {SUITES}/; today's are run over old implementations")
            shutil.copytree(today, suites, ignore=shutil.ignore_patterns("__pycache__"))
            own = PACKAGE
            code = [path for path in own.rglob("*.py") if "tests" not in path.relative_to(own).parts]
            files = [path for path in suites.rglob("*") if path.is_file()]
            searched |= {
                "python": sys.version,
                "versions": versions,
                "harness": files_digest(code, own),
                "suites": files_digest(files, suites),
            }
        yield CommitJudge(request=request, check=check, suites=suites, searched=searched)
