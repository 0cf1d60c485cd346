"""Where a group of failures ends: what holds beside it narrows its cause, such as bfloat16 alone or gradients alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from samebits.errors import MeshError
from samebits.report.causes.groups import holds_at_its_sizes
from samebits.report.words import plural, short_meshes
from samebits.schema.meshes import MeshSpec
from samebits.schema.result import Result

_LISTED = 4
"""Names of cases or dtypes that are listed; more are counted."""


def only(failing: Sequence[Result], results: Iterable[Result]) -> list[str]:
    """What restricts a group of failures, each in words and each by results beside it that hold.

    Args:
        failing: the group, without what holds at its own sizes.
        results: all of the check.
    """
    sides = {(result.pair, result.variant) for result in failing}
    beside = [result for result in results if (result.pair, result.variant) in sides and result.verdict != "skipped"]
    words = [
        *_only_value(failing, beside, "direction", lambda value: f"only in the {value}" + _plural_of(value)),
        *_only_value(failing, beside, "dtype", lambda value: f"only with {value}"),
        *_only_value(failing, beside, "mode", lambda value: f"only in mode {value}"),
        *_only_meshes(failing, beside),
        *_only_parts(failing),
        *_only_value(failing, beside, "case", lambda value: f"only in case {value}"),
    ]
    return words


def place_words(failing: Sequence[Result]) -> str:
    """Where a group lies, in few words: cases; dtypes; meshes; directions."""
    cases, dtypes, directions = (
        list(dict.fromkeys(getattr(result, name) for result in failing)) for name in ("case", "dtype", "direction")
    )
    meshes = list(dict.fromkeys(result.mesh for result in failing))
    parts = [_listed(cases, "case"), _listed(dtypes, "dtype")]
    parts.append(
        short_meshes(meshes) if len(meshes) <= 2 * _LISTED else plural(len(meshes), "mesh").replace("hs", "hes")
    )
    return "; ".join(filter(None, (*parts, _listed(directions, "direction"))))


def _plural_of(direction: str) -> str:
    return "s" if direction == "gradient" else " pass"


def _listed(names: Sequence[str], noun: str) -> str:
    names = [name for name in names if name]
    return ", ".join(names) if len(names) <= _LISTED else plural(len(names), noun)


def _only_value(
    failing: Sequence[Result], beside: Sequence[Result], name: str, words: Callable[[str], str]
) -> list[str]:
    """The one value that all failures share, if every result that is alike but for it holds."""
    values = {getattr(result, name) for result in failing}
    if len(values) != 1:
        return []
    others = [field for field in ("case", "dtype", "direction") if field != name]
    alike = {tuple(getattr(result, field) for field in others) for result in failing}
    if name == "case":  # cases differ in much: whatever of the other cases ran has to hold
        control = [result for result in beside if result.case not in values]
    else:
        control = [
            result
            for result in beside
            if getattr(result, name) not in values and tuple(getattr(result, field) for field in others) in alike
        ]
    if not control or not all(holds_at_its_sizes(result) for result in control):
        return []
    return [words(values.pop())]


def _only_meshes(failing: Sequence[Result], beside: Sequence[Result]) -> list[str]:
    """A number of devices or an axis of the mesh that separates the failures from what holds."""
    alike = {(result.case, result.dtype, result.direction) for result in failing}
    holding = [
        result
        for result in beside
        if holds_at_its_sizes(result) and (result.case, result.dtype, result.direction) in alike
    ]
    bad, good = ({_devices(result.mesh) for result in group} - {0} for group in (failing, holding))
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
    axes = set.intersection(*(_split_axes(result.mesh) for result in failing))
    axes -= set().union(*(_split_axes(result.mesh) for result in holding))
    if axes:
        return [f"only where the mesh has the axis '{axis}'" for axis in sorted(axes)]
    meshes = dict.fromkeys(result.mesh for result in failing)
    apart = len(meshes) <= 2 and not {result.mesh for result in holding} & set(meshes)
    return [f"only on {' and '.join(meshes)}"] if apart else []


def _only_parts(failing: Sequence[Result]) -> list[str]:
    """The devices in whose parts of the array elements differ, where those of others are equal in every result."""
    pictures = [result.picture for result in failing if result.picture is not None]
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
