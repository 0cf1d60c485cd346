"""The report of `accept --verdicts`: the document, and a line per pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from samebits.audit.snapshots.accept import AcceptedVerdicts
from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.words import plural
from samebits.schema.result import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptDocument:
    """Everything that was accepted."""

    schema: Literal["samebits/1"] = SCHEMA
    command: Literal["accept"] = "accept"
    environment: Environment
    results: tuple[AcceptedVerdicts, ...]
    problems: tuple[Problem, ...] = ()
    written: Written | None = None


def show_accepted_verdicts(to: Console, pairs: Sequence[AcceptedVerdicts]) -> None:
    """A line per pair."""
    for pair in pairs:
        moved = f" ({pair.gained} more, {pair.lost} fewer)" if pair.gained or pair.lost else ""
        text = f"{pair.pair}: {pair.change}: {plural(pair.equal, 'result')} with equal bits beyond the contract{moved}"
        to.print(Text(text if pair.change == "unchanged" else f"{text}; {pair.path}"), soft_wrap=True)
