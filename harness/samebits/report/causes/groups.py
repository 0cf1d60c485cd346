"""Failing results of a check in groups with one cause each: one wrong line is one group, however many results it has.

The key of a group is the strongest fact that its results share: the reference fails as badly at the same point, the
line of the source that the check names, the text of an error without its numbers, or else the kind of difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from samebits.schema.finding import Finding
from samebits.schema.result import ACCEPTABLE, ALL_SIZES_REQUIRED, VERDICTS

Key = tuple[str, ...]

FORM = frozenset({"structure", "dtype", "shape", "weak type"})
"""Kinds of difference in what an array is, not in its values."""

SPECIAL = frozenset({"sign of zero", "NaN payload", "subnormal flushed"})
"""Kinds of difference between values that compare equal, or nearly so."""

NONFINITE = frozenset({"NaN vs number", "overflow to infinity"})
"""Kinds of difference that need an infinity or a NaN."""

FELL = "these bits were equal here before"
"""How the reason begins where a snapshot of accepted verdicts fails."""

REFUTED = "not the same mathematics"
"""How the evidence begins where formulas differ."""

LOST = "its process ended while "
"""How the reason begins where a process ended."""

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z0-9_])[+-]?\d+(\.\d+)?(e[+-]?\d+)?")
_VALUE = re.compile(r"\b(True|False|None)\b")
_LIST = re.compile(r"#(\s*,\s*#)+,?")


def group_failures(results: Iterable[Finding], references: Mapping[str, str]) -> dict[Key, list[Finding]]:
    """The failing results by the key of their cause, in the order of the results.

    Args:
        results: all of them.
        references: by pair, the name of its reference.
    """
    every = list(results)
    own = (result for result in every if result.failed and references.get(result.place.pair) == result.place.variant)
    moved = {point_of(result): result for result in own}
    groups: dict[Key, list[Finding]] = {}
    for result in every:
        if result.failed:
            groups.setdefault(_key(result, moved), []).append(result)
    return _joined(groups)


def holds_at_its_sizes(result: Finding) -> bool:
    """Whether a result holds, or fails only because its contract requires other sizes too."""
    return result.ruling.ok or (
        result.ruling.verdict in ACCEPTABLE and ALL_SIZES_REQUIRED in (result.ruling.reason or "")
    )


def point_of(result: Finding) -> Key:
    """Where a result lies, whatever the side."""
    names = ("pair", "case", "dtype", "mesh", "mode", "direction", "leaf")
    return tuple(str(getattr(result.place, name)) for name in names)


def kinds_of(result: Finding) -> frozenset[str]:
    """The kinds of difference of a result; of several, all of them."""
    if result.comparison.differences:
        return frozenset(difference.kind for difference in result.comparison.differences)
    return frozenset() if result.comparison.kind is None else frozenset({result.comparison.kind.partition(" (")[0]})


def without_numbers(text: str) -> str:
    """A text with `#` for each number, truth value and list of these, on one line."""
    return _LIST.sub("#", _VALUE.sub("#", _NUMBER.sub("#", " ".join(text.split()))))


def error_text(result: Finding) -> str:
    """The error of a result without the point at which it was raised."""
    text = " ".join((result.ruling.reason or result.ruling.evidence or "no reason is recorded").split())
    begin, raised, rest = text.partition(" raised ")
    return rest if raised and f"'{result.place.case}'" in begin else text


def _is_of_mesh(result: Finding, moved: Mapping[Key, Finding]) -> bool:
    """Whether the reference's own failure at a point explains a result: what is worse, or located, is the variant's."""
    own = moved.get(point_of(result))
    if own is None or own.ruling.verdict not in ("rounding", "different"):
        return False  # what lacks only a proof, or could not be told, moves nothing
    if own.place.variant == result.place.variant:
        return True
    is_worse = VERDICTS.index(result.ruling.verdict) > VERDICTS.index(own.ruling.verdict)
    return not (is_worse or result.named.lines or (result.ruling.evidence or "").startswith(REFUTED))


def _key(result: Finding, moved: Mapping[Key, Finding]) -> Key:
    pair, variant = result.place.pair, result.place.variant
    if result.ruling.verdict == "error":
        return _error_key(result)
    if result.ruling.verdict == "unstable":
        return ("unstable", pair, without_numbers(result.ruling.evidence or variant))
    if result.ruling.required == "refused":
        return ("expected error", pair, without_numbers(result.ruling.reason or ""))
    if (result.ruling.reason or "").startswith(FELL):
        return ("fell", pair, variant)
    if _is_of_mesh(result, moved):
        return ("mesh", pair, moved[point_of(result)].place.variant)
    if holds_at_its_sizes(result):
        return ("sizes", pair, variant)
    if result.ruling.verdict in ("proved", "bitwise"):
        return ("unproved", pair, variant)
    if result.named.lines:
        first = result.named.lines[0]
        # Variants, and pairs, may call one function: the line alone is the cause.
        return ("line", str(first.variant or first.reference))
    return (_family(result), pair, variant)


def _family(result: Finding) -> str:
    """The kinds of difference of a result as one word."""
    kinds = kinds_of(result)
    families = (("form", bool(kinds & FORM)), ("special", kinds <= SPECIAL), ("nonfinite", kinds <= NONFINITE))
    usual = "rounding" if result.ruling.verdict == "rounding" else "values"
    return next((name for name, fits in families if fits and kinds), usual)


def _error_key(result: Finding) -> Key:
    text = error_text(result)
    if text.startswith(LOST):
        _, _, why = text.removeprefix(LOST).partition(": ")
        return ("lost", without_numbers(why.partition(";")[0]))
    own = (result.place.pair, result.place.variant, result.place.case, result.place.dtype, result.place.mesh)
    for name in filter(None, own):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", "*", text)
    return ("error", without_numbers(text))


def _joined(groups: dict[Key, list[Finding]]) -> dict[Key, list[Finding]]:
    """The same groups, where results without a named line join the only named line that can explain them."""
    lines = [_Line(key, results) for key, results in groups.items() if key[0] == "line"]
    joined: dict[Key, list[Finding]] = {key: [] for key in groups}
    for key, results in groups.items():
        joins = key[0] in ("values", "special", "nonfinite", "rounding", "unproved", "sizes")
        for result in results:
            target = _explained_by(result, key[0], lines) if joins else None
            joined[key if target is None else target].append(result)
    return {key: results for key, results in joined.items() if results}


class _Line:
    """A group with a named line: what other results are compared with, so that thousands of them take no time."""

    def __init__(self, key: Key, results: Sequence[Finding]) -> None:
        self.key = key
        self.moves = results[0].named.lines[0].change == "moved"
        self.family = _family(results[0])
        self.sides = {(known.place.pair, known.place.variant) for known in results}
        self.cases = {known.place.case for known in results}
        self.directions = {(known.place.case, known.place.direction) for known in results}
        self.points = {point_of(known)[:-1] for known in results}


def _explained_by(result: Finding, family: str, lines: Iterable[_Line]) -> Key | None:
    """The one line that can explain a result; the nearest counts: of its case and direction, of its case, of its side.

    Elements in another order differ in any way; another computation in its own. What lacks only its proof is explained
    by a leaf of the same point, and what lacks only other sizes by a line that is wrong at one of these.
    """
    own = [line for line in lines if (result.place.pair, result.place.variant) in line.sides]
    if family == "unproved":
        return next((line.key for line in own if point_of(result)[:-1] in line.points), None)
    own = [line for line in own if family in ("values", "sizes") or line.moves or line.family == family]
    narrowed = (
        [line.key for line in own if (result.place.case, result.place.direction) in line.directions],
        [line.key for line in own if result.place.case in line.cases],
        [line.key for line in own],
    )
    return next((keys[0] for keys in narrowed if len(keys) == 1), None)
