"""What all kinds of work report in the same way: rows as JSON, remarks of the user's code, why a process ended."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from samebits.engine.work import Event, Finished, Loss, Remark, Trouble, UserTraceback
from samebits.errors import COULD_NOT_TELL, SamebitsError
from samebits.host.isolation import take_notes
from samebits.user_errors import one_line, retain, take_tracebacks

T = TypeVar("T")


def finished(key: str, rows: Iterable[object], reads: Iterable[str] = ()) -> Finished:
    """The end of an item, with its rows encoded.

    Args:
        key: of the item.
        rows: its results.
        reads: as in `Finished`.
    """
    return Finished(key=key, rows=tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows), reads=tuple(reads))


def remarks() -> Iterator[Event]:
    """What has been noted down in this process since the last time: remarks, and tracebacks of the user's code."""
    yield from (Remark(text) for text in take_notes())
    yield from (UserTraceback(text) for text in take_tracebacks())


def trouble(pair: str, error: Exception) -> Trouble:
    """An exception that leaves nothing to be said about a pair or configuration.

    Args:
        pair: its name.
        error: ours, or a bug of samebits, whose traceback is printed.
    """
    if isinstance(error, SamebitsError):
        retain(error.__cause__)
        return Trouble(pair=pair, message=str(error), exit_code=error.exit_code)
    traceback.print_exception(error)
    message = f"samebits itself {one_line(error)}; please report it with the lines above"
    return Trouble(pair=pair, message=message, exit_code=COULD_NOT_TELL)


def lost_words(loss: Loss, stage: str) -> str:
    """Why there is no result, for the row of an item whose process ended.

    Args:
        loss: why it ended.
        stage: the last one that the item had reached; empty where it had reached none.
    """
    return f"its process ended while {stage}: {loss.said()}"


def to_text(value: object) -> str:
    """A record as text for a field of a row, with infinities and NaN, which JSON as such does not have."""
    return json.dumps(msgspec.to_builtins(value))


def from_text(text: str, kind: type[T]) -> T:
    """The inverse of `to_text`."""
    return msgspec.convert(json.loads(text), kind, str_keys=True)
