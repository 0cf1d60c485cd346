"""A document of any command from its file: its own `command` says which record it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

from samebits.errors import RequestError
from samebits.report.check import Document, PairHead
from samebits.report.contradictions import require_consistent
from samebits.report.document import as_record, read_raw
from samebits.report.json_schema import RECORDS
from samebits.report.shards import missing_shards, require_same_request, shard_of
from samebits.schema.finding import summarise
from samebits.schema.result import Problem


def read_any_document(path: Path) -> object:
    """Read a document of any command, every key and type checked; one of an older version opens too."""
    raw = read_raw(path)
    kinds = _kinds()
    command = raw.get("command")
    if not isinstance(command, str) or command not in kinds:
        raise RequestError(f'{path}: "command" is {command!r}; expected one of {", ".join(kinds)}')
    document: object = as_record(path, raw, kinds[command])
    require_consistent(path, document)
    return document


def join_shards(documents: Sequence[tuple[Path, object]]) -> list[tuple[str, object]]:
    """Return documents with their sources for one page: the shards of a check become one, all others stay as they are.

    Contracts are not audited and snapshots not compared, which needs the declarations: `samebits run merge` does both.
    """
    _require_distinct([path for path, _ in documents])
    shards = [(path, item) for path, item in documents if isinstance(item, Document) and item.shard is not None]
    joined = [(path.name, item) for path, item in documents if not isinstance(item, Document) or item.shard is None]
    if not shards:
        return joined
    name = shards[0][0].name if len(shards) == 1 else f"{len(shards)} shards"
    return [(name, _joined(shards)), *joined]


def _joined(shards: Sequence[tuple[Path, Document]]) -> Document:
    files = [shard_of(path, document) for path, document in shards]
    missing = missing_shards(files, require_same_request(files))
    parts = [document for _, document in shards]
    first = parts[0]
    results = [result for part in parts for result in part.results]
    problems = list(dict.fromkeys(problem for part in parts for problem in part.problems))
    problems += [] if missing is None else [Problem(pair="*", message=missing, exit_code=3)]
    return replace(
        first,
        pairs=tuple(join_heads(head for part in parts for head in part.pairs)),
        results=tuple(results),
        problems=tuple(problems),
        summary=summarise(
            results,
            selected=first.summary.selected,
            product=first.summary.product,
            seconds=sum(part.summary.seconds for part in parts),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.summary.notes)),
            interrupted=any(part.summary.interrupted for part in parts),
        ),
        shard=None,
    )


def join_heads(heads: Iterable[PairHead]) -> list[PairHead]:
    """Join the heads of each pair: only a part of a check that has failures has the text of a source."""
    joined: dict[str, PairHead] = {}
    for head in heads:
        other = joined.setdefault(head.pair, head)
        texts = {source.side: source for source in (*other.sources, *head.sources) if source.text is not None}
        sources = tuple(texts.get(source.side, source) for source in other.sources)
        joined[head.pair] = replace(other, sources=sources)
    return [*joined.values()]


def _require_distinct(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise RequestError(f"{path}: is given twice; give each document once")
        seen.add(path.resolve())


def _kinds() -> dict[str, type]:
    """Return the record of each command."""
    return {command: kind for kind in RECORDS for command in get_args(get_type_hints(kind)["command"])}
