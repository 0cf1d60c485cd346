"""Sentences about a check that terminal and Markdown share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from samebits.report.document import Document
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


_PLURALS = {"entry": "entries", "leaf": "leaves", "mesh": "meshes"}


def plural(count: int, word: str) -> str:
    """A count with its noun."""
    return f"{count} {word if count == 1 else _PLURALS.get(word, f'{word}s')}"


def listed(names: Sequence[str], noun: str, most: int = 4) -> str:
    """Names where they are few; else how many there are."""
    return ", ".join(names) if len(names) <= most else plural(len(names), noun)


def some(names: Sequence[str], most: int = 6) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def problems_sentence(problems: Sequence[Problem]) -> str:
    """Return how many problems there are, with the first one."""
    return f"{plural(len(problems), 'problem')}: {problems[0].pair}: {problems[0].message}"


def first_problem(problems: Sequence[Problem]) -> str:
    """Return the first problem, and how many others there are."""
    more = f" (and {plural(len(problems) - 1, 'other')})" if len(problems) > 1 else ""
    return f"{problems[0].pair}: {problems[0].message}{more}"


def state_of(code: int, wrong: State = "incomplete") -> State:
    """Return what a run comes to by its exit code.

    Args:
        code: the exit code.
        wrong: what a wrong request or declaration comes to.
    """
    states: tuple[State, ...] = ("passed", "failed", wrong, "incomplete")
    return states[code]


def state_word(code: int, passed: str, failed: str) -> str:
    """Return the word for an exit code: of 0, of 1, else `incomplete`."""
    return {0: passed, 1: failed}.get(code, "incomplete")


def verdict_counts(counts: Mapping[Any, int]) -> str:
    """Counts in words, the highest verdict first: `bitwise 96, rounding 12`."""
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS if counts.get(verdict))


def short_meshes(meshes: Iterable[str]) -> str:
    """Meshes in few words: `context1/2/4/8 expert4_fsdp2`."""
    families: dict[str, list[str]] = {}
    for mesh in meshes:
        axis = mesh if "_" in mesh or "," in mesh else mesh.rstrip("0123456789")
        families.setdefault(axis, []).append(mesh.removeprefix(axis))
    return " ".join(axis + "/".join(sorted(sizes, key=lambda s: int(s or 0))) for axis, sizes in families.items())


def counts_sentence(document: Document) -> str:
    """How much of the product ran; of a shard, or where something could not run, how many settings have results."""
    s = document.summary
    if s.interrupted:
        return f"not all of {plural(s.selected, 'setting')} ran"
    ran = len({(r.place.pair, r.place.case, r.place.dtype, r.place.mesh, r.place.mode) for r in document.results})
    if ran < s.selected and (document.shard is not None or document.problems):
        here = "" if document.shard is None else f" in shard {document.shard}"
        return f"{ran} of {plural(s.selected, 'setting')} ran{here}"
    if s.selected >= s.product:
        return f"all {plural(s.product, 'setting')} ran"
    return (
        f"selection of {s.selected} of {s.product} settings covers every two of case, dtype, mesh, mode together "
        "and every three of dtype, mesh, mode; --full runs all"
    )


def is_empty_shard(document: Document) -> bool:
    """Whether it is a part of a check that has no points, as where there are more parts than groups of points."""
    left_nothing = not (document.results or document.problems or document.summary.interrupted)
    return document.shard is not None and bool(document.pairs) and left_nothing


def empty_shard_sentence(document: Document) -> str:
    """That a part of a check has no points."""
    return f"shard {document.shard} has no points of this request"


def skips_words(document: Document) -> str:
    """That what was skipped fails the run, for a document in which it does."""
    skips = document.summary.skipped
    return f"{plural(skips, 'skipped result')} {'fails' if skips == 1 else 'fail'} the run (--no-skips)"


def assumed_sentence(results: Iterable[Finding]) -> str | None:
    """How many results hold under assumptions that other values could break; None where none does.

    Args:
        results: of a check or of proofs.
    """
    words = passing_words([[each.word for each in breakable([leaf])] for leaf in results], "results hold")
    return words and f"{words}; --no-assumptions accepts none, --json FILE has each with how it could be false"


def closing(document: Document) -> str:
    """One sentence: counts per verdict, what ran, how long, and what it comes to."""
    s = document.summary
    if is_empty_shard(document):
        return f"{empty_shard_sentence(document)}; {s.seconds:.1f} s"
    counts = verdict_counts(s.verdicts) or "nothing"
    begin = f"{plural(s.cases, 'result')} of {plural(len(document.pairs), 'pair')}: {counts}"
    if s.exempt:
        begin += f" (known differences among them: {s.exempt})"
    if s.failed:
        state = f"{s.failed} fail"
    elif document.problems:
        ran = "what ran holds, but" if s.cases else "nothing was checked:"
        state = f"{ran} {plural(len(document.problems), 'problem')} must be fixed"
    elif s.skipped == s.cases:
        state = "nothing was checked"
    elif document.skips_fail:
        state = f"what ran holds, but {skips_words(document)}"
    elif s.interrupted:
        state = "what ran holds"
    else:
        state = "all contracts hold" + (f", {s.skipped} skipped" if s.skipped else "")
    cut = "interrupted; " if s.interrupted else ""
    return f"{cut}{begin}; {counts_sentence(document)}; {s.seconds:.1f} s; {state}"


def remembered_sentence(document: Document) -> str | None:
    """How many results an earlier run has found, and when; None where all were executed now."""
    dates = sorted(result.run.remembered[:10] for result in document.results if result.run.remembered is not None)
    if not dates:
        return None
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    count = plural(len(dates), "result")
    return f"{count} remembered, from {when} on this environment; check --fresh runs them again"
