"""What a bisection found: one sentence, one witness, one command that shows it again, every point that was tried."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from samebits.bisect.search.journal import Journal
from samebits.bisect.search.judgement import Judgement
from samebits.bisect.search.trials import Say, Trials, TriedPoint
from samebits.compile.cache import cache_folder

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer of a bisection; published, so keys keep their meaning.

    Args:
        what: which bisection.
        found: whether there was something to find, and it was found.
        sentence: the answer.
        culprits: what causes it; each entry is one minimal set of names.
        witness: the place and the numbers that show it.
        replay: the command that shows it again.
        trials: every point, in order.
        runs, repeats: points that were run, and runs of points that had been run before.
        least: the least number of runs that could have told it.
        skipped: points that could not be judged.
        notes: what else should be known.
        detail: what only this bisection has.
        seconds: wall time.
    """

    what: str
    found: bool
    sentence: str
    culprits: tuple[tuple[str, ...], ...] = ()
    witness: str = ""
    replay: str = ""
    trials: tuple[TriedPoint, ...] = ()
    runs: int = 0
    repeats: int = 0
    least: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """How a search is run, as every bisection's options say.

    Args:
        journal: its file; None for one in the cache, found again by what is searched.
        fresh: whether what the journal knows is forgotten first.
        repeat: how often each point is run.
        say: told what is under way.
    """

    journal: Path | None = None
    fresh: bool = False
    repeat: int = 1
    say: Say = lambda text: None

    def trials(
        self,
        judge: Callable[[P], Judgement],
        *,
        searched: Mapping[str, Any],
        key: Callable[[P], str] = str,
        label: Callable[[P], str] = str,
    ) -> Trials[P]:
        """A judge with a journal.

        Args:
            judge: looks at one point.
            searched: everything that a judgement depends on beside the point: the command, versions, digests of files.
            key, label: of points, as in `Trials`.

        Raises:
            RequestError: the journal is of another search, or cannot be read.
        """
        what = hashlib.sha256(json.dumps(searched, sort_keys=True, default=str).encode()).hexdigest()
        path = self.journal
        if path is None:
            folder = cache_folder("bisect")
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{what[:24]}.jsonl"
        if self.fresh:
            path.unlink(missing_ok=True)
        return Trials(judge, key=key, label=label, journal=Journal(path, what), repeat=self.repeat, say=self.say)


def files_digest(files: Sequence[Path], root: Path) -> str:
    """A digest of files by their paths in a tree and their bytes."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def tree_digest(root: Path) -> str:
    """A digest of what a tree runs: its implementations and suites."""
    folders = ("reference_impls", "optimized_impls", "suites")
    return files_digest([path for folder in folders for path in (root / folder).rglob("*.py")], root)


def command(*words: str) -> str:
    """A command line as it is pasted into a shell."""
    return shlex.join(words)


def counted(count: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
