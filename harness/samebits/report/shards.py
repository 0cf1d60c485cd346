"""The shards of one check: what each found, read from its document or from the journal of a run that was killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from samebits.engine.journal import JournalHead, JournalText, read_journal
from samebits.engine.work import Shard
from samebits.errors import RequestError
from samebits.host.environment import Environment
from samebits.report.check import Document, read_document
from samebits.report.words import typed
from samebits.schema.finding import Finding, summarise

Asked = TypeVar("Asked")

NAMED = 5
"""How many missing shards are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardFile:
    """A part of a check.

    Args:
        document: what it holds; that of a journal has results, and no pairs and problems.
        shard: None for a whole check.
    """

    path: Path
    document: Document
    request: Mapping[str, Any]
    shard: Shard | None


def read_shard(path: Path) -> ShardFile:
    """Return a shard from its document or its journal."""
    return shard_of(path, read_document(path) if _is_document(path) else _of_journal(path))


def shard_of(path: Path, document: Document) -> ShardFile:
    """Return a shard from its document."""
    if document.request is None:
        raise RequestError(f"{path}: does not say what was asked for: an older samebits wrote it; check again")
    try:
        shard = None if document.shard is None else Shard.parse(document.shard)
    except RequestError:
        text = f"says that it is shard {document.shard!r}; expected K/N with K from 1 to N"
        raise RequestError(f"{path}: {text}") from None
    return ShardFile(path=path, document=document, request=document.request, shard=shard)


def _is_document(path: Path) -> bool:
    """Whether a file begins as JSON does; a journal begins with a checksum."""
    try:
        with path.open("rb") as file:
            return file.read(1) in (b"{", b"[", b"")
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror or error}") from None


def _of_journal(path: Path) -> Document:
    text = read_journal(path)
    head = text.head
    if head is None or head.command != "check":
        of = "no command" if head is None else f"`{typed(head.command)}`"
        raise RequestError(f"{path}: is the journal of {of}; expected one of a check")
    try:
        environment = msgspec.convert(head.environment, Environment)
        results = [msgspec.json.decode(row, type=Finding) for entry in text.entries.values() for row in entry.rows]
    except msgspec.MsgspecError as error:
        raise RequestError(f"{path}: is a journal of another version of samebits: {error}") from None
    notes = tuple(_journal_notes(path, text))
    return Document(
        shard=head.shard,
        request=request_of(head),
        environment=environment,
        pairs=(),
        results=tuple(results),
        problems=(),
        summary=summarise(results, selected=0, product=0, seconds=0.0, notes=notes),
        written=head.written,
    )


def _journal_notes(path: Path, text: JournalText) -> Iterator[str]:
    if text.damaged:
        yield f"{path.name}: {text.damaged} damaged lines were dropped"
    if text.continued:
        commits = ", ".join(str(commit)[:12] for commit in text.continued)
        yield f"{path.name}: the run went on at another commit ({commits}); results of the earlier ones may be in it"
    if text.head is not None and text.head.written is None:
        yield f"{path.name}: an older samebits wrote this journal, which does not say at which commit"


def asked_for(file: ShardFile, kind: type[Asked], value: object) -> Asked:
    """Return what of the request of a file is of one kind."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RequestError(f"{file.path}: its request is not one of `samebits check`: {error}; check again") from None


def request_of(head: JournalHead) -> dict[str, Any]:
    """Return what was asked for, without the folder: shards run in several."""
    return {name: value for name, value in head.request.items() if name != "root"}


def require_same_request(files: Sequence[ShardFile]) -> int:
    """Return how many shards there are."""
    first = files[0]
    seen: dict[Shard | None, Path] = {}
    for file in files:
        if msgspec.json.encode(file.request, order="sorted") != msgspec.json.encode(first.request, order="sorted"):
            raise RequestError(
                f"{first.path} and {file.path} are of different requests: {_difference(first.request, file.request)}"
            )
        commits = [part.document.written and part.document.written.commit for part in (first, file)]
        if None not in commits and commits[0] != commits[1]:
            short = [str(commit)[:12] for commit in commits]
            raise RequestError(
                f"{first.path} was checked at commit {short[0]}, and {file.path} at {short[1]}: their results are of "
                "different code; run all shards at one commit"
            )
        counts = [None if part.shard is None else part.shard.count for part in (first, file)]
        if counts[0] != counts[1]:
            kinds = ["a whole check" if part.shard is None else f"shard {part.shard}" for part in (first, file)]
            raise RequestError(f"{first.path} is {kinds[0]}, {file.path} is {kinds[1]}: not of one run")
        if file.shard in seen:
            what = "a whole check" if file.shard is None else f"shard {file.shard}"
            raise RequestError(f"{seen[file.shard]} and {file.path} are both {what}; give each once")
        seen[file.shard] = file.path
    return 1 if first.shard is None else first.shard.count


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return ", ".join(f"{name} {first.get(name)!r} and {second.get(name)!r}" for name in names)


def missing_shards(files: Iterable[ShardFile], count: int) -> str | None:
    """Return which shards have no file, the first few by number; None where all have one."""
    there = {1 if file.shard is None else file.shard.number for file in files}
    lacking = count - len(there)
    if lacking == 0:
        return None
    first = itertools.islice((number for number in range(1, count + 1) if number not in there), NAMED)
    listed = ", ".join(f"{number}/{count}" for number in first)
    if lacking == 1:
        return f"shard {listed} is missing; give its document too"
    more = f" and {lacking - NAMED} more" if lacking > NAMED else ""
    return f"shards {listed}{more} are missing; give their documents too"


def other_environments(files: Sequence[ShardFile]) -> list[str]:
    """Return notes on shards that ran elsewhere than the first."""
    first = files[0]
    here = first.document.environment
    notes = []
    for file in files[1:]:
        there = file.document.environment
        if there != here:
            names = [name for name in Environment.__dataclass_fields__ if getattr(there, name) != getattr(here, name)]
            notes.append(
                f"{file.path.name} ran in another environment than {first.path.name}, which the document names "
                f"({', '.join(names)} differ); bits that depend on the machine may differ between them"
            )
    return notes
