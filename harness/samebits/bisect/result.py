"""The result of a bisection (sentence, witness, replay command, every point tried), and how a search is run."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from samebits.bisect.search.journal import SearchJournal
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.trials import Judged, Say, Trials, TriedPoint
from samebits.errors import RequestError
from samebits.host.cache_folder import cache_folder
from samebits.host.file_reads import READS
from samebits.host.package import PACKAGE
from samebits.host.process_sources import sources_of_process

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The result of a bisection; published as JSON, so keys keep their meaning.

    Args:
        what: which bisection.
        found: whether a cause was found.
        sentence: the answer in one sentence.
        culprits: the causes; each entry is one minimal set of names.
        witness: the location and the numbers that show the failure.
        replay: the command that reproduces it.
        candidates: what may be the cause, in order: commits (oldest first), steps, choices, options; empty where the
            search makes one point smaller.
        trials: every point tried, in order.
        runs, repeats: number of points run, and number of repeated runs of the same point.
        least: the smallest number of runs that could have found the cause.
        skipped: points that could not be judged.
        notes: further remarks.
        detail: fields specific to this bisection.
        seconds: wall time.
        interrupted: whether the search was stopped before its end.
    """

    what: str
    found: bool
    sentence: str
    culprits: tuple[tuple[str, ...], ...] = ()
    witness: str = ""
    replay: str = ""
    candidates: tuple[str, ...] = ()
    trials: tuple[TriedPoint, ...] = ()
    runs: int = 0
    repeats: int = 0
    least: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False

    def with_trials(self, trials: Trials[Any]) -> Finding:
        """The same finding with the points of a search and their counts."""
        return replace(
            self,
            candidates=trials.space.candidates,
            trials=tuple(trials.tried),
            runs=trials.runs,
            repeats=trials.repeats,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """How a search is run; common to all bisections.

    Args:
        journal: the journal file; None for one in the cache folder, named by a digest of the search.
        fresh: whether to delete the journal first.
        repeat: how many times each point is run.
        say: receives progress messages.
        judged: as in `Trials`.
        begun: receives the trials of the search, for what is known of them where it is interrupted.
        before: what was read before the search began, which belongs to nothing that it judges.
    """

    journal: Path | None = None
    fresh: bool = False
    repeat: int = 1
    say: Say = lambda text: None
    judged: Judged = lambda seconds, left: None
    begun: Callable[[Trials[Any]], None] = lambda trials: None
    before: frozenset[str] = field(default_factory=lambda: frozenset(READS.all()))

    def trials(
        self,
        judge: Callable[[P], Judgement],
        *,
        searched: Mapping[str, Any],
        root: Path | None = None,
        key: Callable[[P], str] = str,
        label: Callable[[P], str] = str,
    ) -> Trials[P]:
        """A search with a journal.

        Args:
            judge: judges one point.
            searched: everything that a judgement depends on besides the point and the sources: the command, or digests
                of other files.
            root: the tree whose sources are judged by this process; None where others judge with sources of their own.
            key, label: as in `Trials`.

        Raises:
            RequestError: the journal belongs to another search, or cannot be read.
        """
        # A judgement of another state of samebits, perhaps of one that failed, does not belong to this search.
        searched = {**searched, "samebits": files_digest(list(PACKAGE.rglob("*.py")), PACKAGE)}
        if root is not None:
            searched = {**searched, **sources_of_process(root).parts}
        what = hashlib.sha256(json.dumps(searched, sort_keys=True, default=str).encode()).hexdigest()
        path = self.journal
        if path is None:
            path = cache_folder("bisect") / f"{what[:24]}.jsonl"
        if self.fresh:
            _remove(path)
        journal = SearchJournal(path, what, self._reads)
        trials = Trials(
            judge, key=key, label=label, journal=journal, repeat=self.repeat, say=self.say, judged=self.judged
        )
        self.begun(trials)
        return trials

    def _reads(self) -> Iterable[str]:
        return set(READS.all()) - self.before


def _remove(journal: Path) -> None:
    try:
        journal.unlink(missing_ok=True)
    except NotADirectoryError:  # a file in place of its folder: there is no journal
        pass
    except OSError as error:  # what it has recorded would count
        raise RequestError(
            f"--fresh: journal {journal} cannot be removed: {error.strerror or error}; give --journal FILE"
        ) from None


def files_digest(files: Sequence[Path], root: Path) -> str:
    """A digest of the paths, relative to a tree, and the contents of files."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def command(*words: str) -> str:
    """A command line, quoted for a shell."""
    return shlex.join(words)


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as `2 inputs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
