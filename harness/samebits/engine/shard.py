"""One of several equal parts of a run, for the jobs of a CI matrix; `samebits merge` puts the parts together again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.engine.work import Item
from samebits.errors import RequestError


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `count`, counted from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a text such as `3/8`.

        Raises:
            RequestError: it is not of this form.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise RequestError(f"--shard {text}: expected K/N with K from 1 to N, such as 3/8")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, items: Sequence[Item]) -> list[Item]:
        """Return the items of this part: every `count`-th group, so that parts take about equally long."""
        groups = {group: index for index, group in enumerate(dict.fromkeys(item.group for item in items))}
        return [item for item in items if groups[item.group] % self.count == self.number - 1]
