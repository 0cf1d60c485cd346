"""Where two environments differ in what the bits depend on: package versions, processor, devices, flags, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from samebits.host.environment import Environment


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentChange:
    """One difference.

    Args:
        name: of a package or setting, or of a field of the environment.
        before, after: the values as texts; None where there is none.
    """

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'none'} -> {self.after or 'none'}"


def environment_changes(old: Environment | None, new: Environment | None) -> tuple[EnvironmentChange, ...]:
    """What differs; the version of samebits itself does not count, and neither does a document without environment.

    Args:
        old, new: the environments.
    """
    if old is None or new is None:
        return ()
    changes: list[EnvironmentChange] = []
    for name in (field.name for field in fields(Environment)):
        left, right = getattr(old, name), getattr(new, name)
        if isinstance(left, dict):
            keys = _compared(left, right) if name == "versions" else {**left, **right}
            changes += [_change(key, left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)]
        elif left != right:
            changes.append(_change(name.replace("_", " "), left, right))
    return tuple(changes)


def environment_sentence(changes: Iterable[EnvironmentChange]) -> str:
    """All differences in one line; empty without any."""
    return ", ".join(str(change) for change in changes)


def _compared(left: Mapping[str, str | None], right: Mapping[str, str | None]) -> list[str]:
    """The packages that both list: an older document does not say that a package was missing."""
    return [key for key in left if key in right and key != "samebits"]


def _change(name: str, before: object, after: object) -> EnvironmentChange:
    return EnvironmentChange(name=name, before=_text(before), after=_text(after))


def _text(value: object) -> str | None:
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or None
    return None if value in (None, "") else str(value)
