"""Words and sentences that the pages of several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from samebits.schema.assumption import passing_words
from samebits.schema.finding import Finding, breakable
from samebits.schema.result import VERDICTS, Problem

State = Literal["failed", "incomplete", "passed"]
"""What a command's run comes to; in the order in which a page shows its sections."""


TYPED = {**{name: f"audit {name}" for name in ("claims", "defaults", "advise", "faults")}, "tune": "compile --tune"}
"""By the command of a document, what is typed, where they differ: documents keep the names of their schema."""


def typed(command: str) -> str:
    """Return what is typed for the command of a document."""
    return f"samebits {TYPED.get(command, command)}"


_PLURALS = {"entry": "entries", "leaf": "leaves", "mesh": "meshes", "property": "properties"}


def plural(count: int, word: str) -> str:
    """Return a count with its noun."""
    return f"{count} {word if count == 1 else _PLURALS.get(word, f'{word}s')}"


def listed(names: Sequence[str], noun: str, most: int = 4) -> str:
    """Return names where they are few; else how many there are."""
    return ", ".join(names) if len(names) <= most else plural(len(names), noun)


def some(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def problems_sentence(problems: Sequence[Problem]) -> str:
    """Return how many problems there are, with the first one."""
    return f"{plural(len(problems), 'problem')}: {problems[0].pair}: {problems[0].message}"


def state_of(code: int, wrong: State = "incomplete") -> State:
    """Return what a run comes to by its exit code."""
    states: tuple[State, ...] = ("passed", "failed", wrong, "incomplete")
    return states[code]


def state_word(code: int, passed: str, failed: str) -> str:
    """Return the word for an exit code: of 0, of 1, else `incomplete`."""
    return {0: passed, 1: failed}.get(code, "incomplete")


def verdict_counts(counts: Mapping[Any, int]) -> str:
    """Return counts in words, the highest verdict first: `bitwise 96, rounding 12`."""
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS if counts.get(verdict))


def short_meshes(meshes: Iterable[str]) -> str:
    """Return meshes in few words: `context1/2/4/8 expert4_fsdp2`."""
    families: dict[str, list[str]] = {}
    for mesh in meshes:
        axis = mesh if "_" in mesh or "," in mesh else mesh.rstrip("0123456789")
        families.setdefault(axis, []).append(mesh.removeprefix(axis))
    return " ".join(axis + "/".join(sorted(sizes, key=lambda s: int(s or 0))) for axis, sizes in families.items())


def assumed_sentence(results: Iterable[Finding]) -> str | None:
    """Return how many results hold under assumptions that other values could break; None where none does."""
    words = passing_words([[each.word for each in breakable([leaf])] for leaf in results], "results hold")
    return words and f"{words}; --no-assumptions accepts none, --json FILE has each with how it could be false"


REMEDY = (
    "such inputs fail where they are declared, as by values=Integers(...); exactly= says of given integers and masks "
    "that they are all there are"
)


def other_input_notes(results: Iterable[Finding]) -> list[str]:
    """Write a line for each variant, direction and leaf that is not the same at other values, and what to do."""
    seen: dict[tuple[str, str, str, str], list[str]] = {}
    for result in results:
        for assumption in result.proof.assumptions:
            if assumption.counterexample is not None:
                place = result.place.pair, result.place.variant, result.place.direction, result.place.leaf
                derived = assumption.word == "derivatives"
                only = "but not its own gradient" if derived else "only at inputs like those tried"
                seen.setdefault(place, []).append(f"{only}: {assumption.counterexample}")
    lines = [
        f"{pair}/{variant}: {direction}, {leaf}: the same {texts[0]}"
        + (f"; and in {plural(len(texts) - 1, 'more setting')}" if len(texts) > 1 else "")
        for (pair, variant, direction, leaf), texts in seen.items()
    ]
    return [*lines, *([REMEDY] if lines else [])]
