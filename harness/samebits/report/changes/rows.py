"""What a document says about each result, in one form for all commands, so that documents can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal

from samebits.schema.contract import leaf_words
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord

State = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPlace:
    """What a result is of. A part that the command does not have is empty.

    Args:
        pair, variant, case, dtype, mesh, mode, direction, leaf: as in `Result`.
        target: what the program is compiled for.
        item: the claim, planted fault, configuration, pair of runs, golden or parallelism.
    """

    pair: str = ""
    variant: str = ""
    case: str = ""
    dtype: str = ""
    mesh: str = ""
    mode: str = ""
    direction: str = ""
    leaf: str = ""
    target: str = ""
    item: str = ""

    def side(self) -> str:
        """Whose result it is, such as `rms_norm/multiply` or `train/context4`."""
        return "/".join(part for part in (self.pair, self.variant, self.item) if part)

    def what(self) -> str:
        """Which output, such as `gradient of scale`; empty where the result is of all."""
        leaf = "" if self.leaf == "*" else self.leaf
        if self.direction == "gradient" and not self.target:
            return leaf_words(self.direction, leaf) if leaf else "gradient"
        return " ".join(part for part in (self.direction if self.target else "", leaf) if part)

    def where(self) -> str:
        """Under which conditions, such as `case small, bfloat16, mesh data2 (auto)`."""
        case, mesh = f"case {self.case}" if self.case else "", f"mesh {self.mesh}" if self.mesh else ""
        mode = f" ({self.mode})" if self.mode else ""
        return ", ".join(part for part in (case, self.dtype, f"{mesh}{mode}".strip(), self.target) if part)


PARTS = tuple(part.name for part in fields(ResultPlace))


def place_of(record: object, **more: str) -> ResultPlace:
    """The place of a record that has some of the parts as attributes.

    Args:
        record: of any command.
        more: parts that it has under another name, or not at all.
    """
    parts = {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
    return ResultPlace(**{**parts, **more})


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRow:
    """One result.

    Args:
        place: of what.
        verdict: in the command's own words.
        rank: lower is better; two results that hold are compared by it.
        state: whether it holds, fails, or was not made.
        contract: what is required, in words; empty where the command has no contracts.
        why: the declared reason of the contract; a difference of either is a decision of a person.
        undeclared: no contract was declared, and what is required follows from what was proved.
        reason: why the verdict is not better.
        replay: the command that shows the result again.
    """

    place: ResultPlace
    verdict: str
    rank: int
    state: State
    contract: str = ""
    why: str = ""
    undeclared: bool = False
    reason: str | None = None
    replay: str = ""

    @property
    def promise(self) -> str:
        """What is required and why."""
        return f"{self.contract}: {self.why}" if self.why else self.contract

    def declared_otherwise(self, before: VerdictRow) -> bool:
        """Whether the declaration requires something else than before; a default follows what was proved.

        Args:
            before: the same result in an older document.
        """
        return self.promise != before.promise and not (self.undeclared and before.undeclared)


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopedRun:
    """A training run of a document.

    Args:
        record: its steps.
        envelope: of the document, how far rounding alone moves losses; None where none was measured.
    """

    record: RunRecord
    envelope: Envelope | None


@dataclass(kw_only=True, slots=True)
class DocumentRows:
    """Everything of a document that is compared with another.

    Args:
        verdicts: every result by its place.
        bits: digests of what the reference gave, or of programs and runs.
        seconds: processor or wall time, as the document has it.
        figures: of compiled programs, by the name of the figure.
        runs: of training.
    """

    verdicts: dict[ResultPlace, VerdictRow] = field(default_factory=dict)
    bits: dict[ResultPlace, str] = field(default_factory=dict)
    seconds: dict[ResultPlace, float] = field(default_factory=dict)
    figures: dict[tuple[ResultPlace, str], float] = field(default_factory=dict)
    runs: dict[ResultPlace, EnvelopedRun] = field(default_factory=dict)

    def add(self, row: VerdictRow) -> None:
        """Add a result; of several at one place the last one counts."""
        self.verdicts[row.place] = row

    def add_seconds(self, place: ResultPlace, seconds: float | None) -> None:
        """Add a time: the largest of those at one place, since leaves share the time of their point."""
        if seconds:
            self.seconds[place] = max(self.seconds.get(place, 0.0), seconds)

    def add_figures(self, place: ResultPlace, record: object, names: tuple[str, ...]) -> None:
        """Add the figures that a record has."""
        for name in names:
            value = getattr(record, name)
            if value is not None:
                self.figures[place, name] = float(value)


def without(place: ResultPlace, *parts: str) -> ResultPlace:
    """The place without some of its parts."""
    return replace(place, **dict.fromkeys(parts, ""))
