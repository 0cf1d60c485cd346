"""When a document was written, and at which commit of the tree: what puts several documents into an order.

Both belong to the document and not to its environment: two runs of one environment have the same environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from samebits.errors import RequestError
from samebits.host.git import head_commit, is_dirty


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """When a document was written, and at which commit of the tree.

    Args:
        time: in UTC, such as `2026-01-31T23:59:59Z`; `SOURCE_DATE_EPOCH` decides where it is set.
        commit: of the repository of the tree; None where it is in none.
        dirty: whether the repository had files that are not as committed.
    """

    time: str
    commit: str | None = None
    dirty: bool = False


def written_now(tree: Path, variables: Mapping[str, str] = os.environ) -> Written:
    """Return the record for a document that is written now."""
    time = _time(variables.get("SOURCE_DATE_EPOCH", ""))
    try:
        return Written(time=time, commit=head_commit(tree), dirty=bool(is_dirty(tree)))
    except RequestError:  # in no repository, or there is no git
        return Written(time=time)


def _time(epoch: str) -> str:
    if not epoch:
        return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    try:
        return f"{datetime.fromtimestamp(int(epoch), UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        raise RequestError(
            f"SOURCE_DATE_EPOCH={epoch}: expected a number of seconds since 1970, such as 1700000000"
        ) from None
