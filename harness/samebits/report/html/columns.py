"""Many records as columns: each distinct value once, which is what keeps a page of ten thousand results small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import msgspec


def columns(records: Sequence[Any], left_out: Iterable[str] = ()) -> dict[str, object]:
    """The fields of records as columns, to be read by `samebits.rows` in `static/page.js`.

    Args:
        records: dataclasses of one kind.
        left_out: fields that the page does not need.

    Returns:
        The number of records, and for each field its distinct values and which of them each record has; one that
        all records share has no such list.
    """
    names = [field.name for field in fields(records[0]) if field.name not in set(left_out)] if records else []
    return {"count": len(records), "fields": {name: _column(records, name) for name in names}}


def _column(records: Sequence[Any], name: str) -> dict[str, object]:
    places: dict[bytes, int] = {}
    values: list[msgspec.Raw] = []
    index = []
    for record in records:
        text = msgspec.json.encode(getattr(record, name))
        if text not in places:
            places[text] = len(values)
            values.append(msgspec.Raw(text))
        index.append(places[text])
    return {"values": values} if len(values) == 1 else {"values": values, "index": index}
