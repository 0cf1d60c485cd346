"""`causes`: the failing results of a check, each group with its likely cause, its smallest example and what to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from samebits.errors import MeshError
from samebits.report.causes.groups import Key, group_failures, holds_at_its_sizes
from samebits.report.causes.rules import Group, likely
from samebits.report.failing import Failing
from samebits.report.failure import point_block, shown_example
from samebits.report.words import listed, plural, short_meshes
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.result import requirement

_GRAVEST = ("different", "unstable", "rounding", "refused", "error")


def causes(results: Iterable[Finding], references: Mapping[str, str] | None = None) -> list[Failing]:
    """The groups of failing results, differences before errors and large groups before small ones.

    Args:
        results: all results of a check; those that hold restrict the cause.
        references: by pair, the name of its reference; without it no group is known to be the mesh's.
    """
    every = list(results)
    groups = group_failures(every, references or {})
    return sorted(
        (_cause(key, group, every) for key, group in groups.items()),
        key=lambda cause: (_rank(cause), -len(cause.findings)),
    )


def _cause(key: Key, group: Sequence[Finding], every: Sequence[Finding]) -> Failing:
    # Results that lack only other sizes belong to this cause, but hold where they are: they show where it ends.
    wrong = [result for result in group if not holds_at_its_sizes(result)] or list(group)
    example = min(wrong, key=_size)
    restricted = tuple(only(wrong, every))
    reason = likely(Group(key, wrong, restricted))
    lines = point_block(group) if len({replace(each.place, leaf="") for each in group}) == 1 else []
    if lines and key[0] != "error":  # an error is its own explanation
        lines.insert(1, f"  likely    {reason}")
    return Failing(
        kind=key[0],
        title=f"{_subject(group, every)}: {_verdicts(group)}",
        likely=reason,
        where=place_words(wrong),
        only=restricted,
        findings=tuple(group),
        smallest=example,
        example="\n".join(shown_example(example)),
        whole=tuple(lines),
        next_command=example.replay or None,
    )


def _size(result: Finding) -> tuple[int, bool, int]:
    return result.run.devices or 1 << 30, result.place.direction != "forward", result.comparison.elements


def _subject(group: Sequence[Finding], every: Sequence[Finding]) -> str:
    sides = dict.fromkeys((result.place.pair, result.place.variant) for result in group)
    pairs = list(dict.fromkeys(pair for pair, _ in sides))
    if len(sides) == 1:
        whose = "/".join(next(iter(sides)))
    elif len(pairs) == 1:
        whose = f"{pairs[0]} ({', '.join(variant for _, variant in sides)})"
    else:
        whose = ", ".join(pairs) if len(pairs) <= 3 else plural(len(pairs), "pair")
    return f"{whose}: {len(group)} of {plural(len(_beside(group, every)), 'result')}"


def _beside(group: Sequence[Finding], every: Iterable[Finding]) -> list[Finding]:
    """The results of the sides of a group that ran, the group itself included."""
    sides = {result.place.side() for result in group}
    return [result for result in every if result.place.side() in sides and result.ruling.verdict != "skipped"]


def _verdicts(group: Sequence[Finding]) -> str:
    """Return the verdicts; with what is required where another contract would accept them."""
    counts: Counter[str] = Counter()
    for ruling in (result.ruling for result in group):
        needs = f", required {requirement(ruling.required, ruling.reason)}"
        counts[ruling.verdict + (needs if ruling.verdict in ("proved", "bitwise") else "")] += 1
    return ", ".join(verdict if len(counts) == 1 else f"{verdict} {count}" for verdict, count in counts.items())


def _rank(cause: Failing) -> int:
    verdicts = {result.ruling.verdict for result in cause.findings}
    return min(_GRAVEST.index(verdict) if verdict in _GRAVEST else 0 for verdict in verdicts)


_LISTED = 4
"""Names of cases or dtypes that are listed; more are counted."""


def only(failing: Sequence[Finding], results: Iterable[Finding]) -> list[str]:
    """What restricts a group of failures, each in words and each by results beside it that hold.

    Args:
        failing: the group, without what holds at its own sizes.
        results: all of the check.
    """
    beside = _beside(failing, results)
    return [
        *_only_value(failing, beside, "direction", lambda value: f"only in the {value}" + _plural_of(value)),
        *_only_value(failing, beside, "dtype", lambda value: f"only with {value}"),
        *_only_value(failing, beside, "mode", lambda value: f"only in mode {value}"),
        *_only_meshes(failing, beside),
        *_only_parts(failing),
        *_only_value(failing, beside, "case", lambda value: f"only in case {value}"),
    ]


def place_words(failing: Sequence[Finding]) -> str:
    """Where a group lies, in few words: cases; dtypes; meshes; directions."""
    names = {
        noun: list(dict.fromkeys(filter(None, (getattr(result.place, noun) for result in failing))))
        for noun in ("case", "dtype", "mesh", "direction")
    }
    words = {noun: listed(these, noun) for noun, these in names.items()}
    if len(names["mesh"]) <= 2 * _LISTED:
        words["mesh"] = short_meshes(names["mesh"])
    return "; ".join(filter(None, words.values()))


def _plural_of(direction: str) -> str:
    return "s" if direction == "gradient" else " pass"


def _only_value(
    failing: Sequence[Finding], beside: Sequence[Finding], name: str, words: Callable[[str], str]
) -> list[str]:
    """The one value that all failures share, if every result that is alike but for it holds."""
    values = {getattr(result.place, name) for result in failing}
    if len(values) != 1:
        return []
    others = [field for field in ("case", "dtype", "direction") if field != name]
    alike = {tuple(getattr(result.place, field) for field in others) for result in failing}
    if name == "case":  # cases differ in much: whatever of the other cases ran has to hold
        control = [result for result in beside if result.place.case not in values]
    else:
        control = [
            result
            for result in beside
            if getattr(result.place, name) not in values
            and tuple(getattr(result.place, field) for field in others) in alike
        ]
    if not control or not all(holds_at_its_sizes(result) for result in control):
        return []
    return [words(values.pop())]


def _only_meshes(failing: Sequence[Finding], beside: Sequence[Finding]) -> list[str]:
    """A number of devices or an axis of the mesh that separates the failures from what holds."""
    kind = attrgetter("place.case", "place.dtype", "place.direction")
    alike = set(map(kind, failing))
    holding = [result for result in beside if holds_at_its_sizes(result) and kind(result) in alike]
    bad, good = ({_devices(result.place.mesh) for result in group} - {0} for group in (failing, holding))
    if not bad or not good:
        return []
    if min(bad) > max(good):
        least = min(bad)
        return ["only on meshes of several devices" if least == 2 else f"only on meshes of {least} devices and more"]
    if max(bad) < min(good):
        return ["only on one device" if max(bad) == 1 else f"only on meshes of {max(bad)} devices and fewer"]
    odd = {size % 2 for size in bad} == {1} and {size % 2 for size in good} == {0}
    if odd:
        return ["only where the number of devices is odd"]
    axes = set.intersection(*(_split_axes(result.place.mesh) for result in failing))
    axes -= set().union(*(_split_axes(result.place.mesh) for result in holding))
    if axes:
        return [f"only where the mesh has the axis '{axis}'" for axis in sorted(axes)]
    meshes = dict.fromkeys(result.place.mesh for result in failing)
    apart = len(meshes) <= 2 and not {result.place.mesh for result in holding} & set(meshes)
    return [f"only on {' and '.join(meshes)}"] if apart else []


def _only_parts(failing: Sequence[Finding]) -> list[str]:
    """The devices in whose parts of the array elements differ, where those of others are equal in every result."""
    pictures = [result.comparison.picture for result in failing if result.comparison.picture is not None]
    if not pictures or len(pictures) < len(failing) or any(len(picture.devices) < 2 for picture in pictures):
        return []
    parts = {tuple(devices for devices, count in picture.devices.items() if count) for picture in pictures}
    if len(parts) != 1 or any(all(picture.devices.values()) for picture in pictures):
        return []
    listed = parts.pop()
    if not listed or len(listed) > _LISTED:
        return []
    noun = "device" if len(listed) == 1 and "," not in listed[0] else "devices"
    return [f"only in the {'part' if len(listed) == 1 else 'parts'} of {noun} {' and '.join(listed)}"]


def _devices(mesh: str) -> int:
    try:
        return MeshSpec.parse(mesh).devices
    except MeshError:  # of another version's document
        return 0


def _split_axes(mesh: str) -> set[str]:
    try:
        spec = MeshSpec.parse(mesh)
    except MeshError:
        return set()
    return {axis for axis, size in spec.axes if size > 1}
