"""How a search is run (journal, repeats, progress), and the command that shows its finding again."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from samebits.bisect.search.trials import Judged, Judgement, Say, SearchFinding, SearchJournal, Trials
from samebits.errors import RequestError
from samebits.host.cache_folder import cache_folder
from samebits.host.environment import flags_header
from samebits.host.file_reads import OUTSIDE, READS, path_of
from samebits.host.installed import PACKAGE
from samebits.host.process_sources import sources_of_process

P = TypeVar("P")


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """How a search is run; common to all bisections.

    Args:
        journal: the journal file; None for one in the cache folder, named by a digest of the search.
        fresh: whether to delete the journal first.
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
        what: str,
        judge: Callable[[P], Judgement],
        *,
        searched: Mapping[str, Any],
        root: Path | None = None,
        key: Callable[[P], str] = str,
        label: Callable[[P], str] = str,
    ) -> Trials[P]:
        """Return a search with a journal.

        Args:
            searched: everything that a judgement depends on besides the point and the sources: the command, or digests
                of other files.
            root: the tree whose sources are judged by this process; None where others judge with sources of their own.

        Raises:
            RequestError: the journal belongs to another search, or cannot be read.
        """
        # A judgement of another state of samebits, perhaps of one that failed, does not belong to this search.
        searched = {**searched, "what": what, "samebits": files_digest(list(PACKAGE.rglob("*.py")), PACKAGE)}
        if root is not None:
            searched = {**searched, "in": flags_header(""), **sources_of_process(root).parts}
        digest = hashlib.sha256(json.dumps(searched, sort_keys=True, default=str).encode()).hexdigest()
        path = self.journal
        if path is None:
            path = cache_folder("bisect") / f"{digest[:24]}.jsonl"
        if self.fresh:
            _remove(path)
        journal = SearchJournal(path, digest, self._reads)
        trials = Trials(
            judge, key=key, label=label, journal=journal, repeat=self.repeat, say=self.say, judged=self.judged
        )
        trials.what = what
        self.begun(trials)
        return trials

    def _reads(self) -> Iterable[str]:
        reads = READS.all()
        yield from set(reads) - self.before
        changed = READS.changed(map(path_of, reads))
        if changed is not None:
            yield f"{OUTSIDE}reads {changed}, which changed meanwhile"


Search = Callable[[Session], SearchFinding]
"""Finds a cause."""


def _remove(journal: Path) -> None:
    try:
        journal.unlink(missing_ok=True)
    except NotADirectoryError:  # noqa: S110  a file in place of its folder: there is no journal
        pass
    except OSError as error:  # what it has recorded would count
        raise RequestError(
            f"--fresh: journal {journal} cannot be removed: {error.strerror or error}; give --journal FILE"
        ) from None


def files_digest(files: Sequence[Path], root: Path) -> str:
    """Return a digest of the paths, relative to a tree, and the contents of files."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def again(what: str, *words: str, check: Sequence[str] = (), **options: object) -> str:
    """Return the command that shows a finding again, quoted for a shell.

    Args:
        check: the command that judges, after `--`.
    """
    words = ("samebits", "bisect", what, *words, *option_words(**options))
    return shlex.join([*words, "--", *check] if check else words)


def option_words(**options: object) -> list[str]:
    """Return options as words: none for None, False and the current folder; an option of several values is repeated."""
    words = []
    for name, value in options.items():
        for each in value if isinstance(value, tuple | list) else (value,):
            if each is None or each is False or (isinstance(each, Path) and each.resolve() == Path.cwd()):
                continue
            words.append(f"--{name.replace('_', '-')}")
            if each is not True:
                words.append(f"{each:g}" if isinstance(each, float) else str(each))
    return words


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as `2 inputs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
