"""Findings from the names of their fields alone, whichever group these are in."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from samebits.schema.finding import Finding
from samebits.schema.older_rows import group_of, nested

KINDS = get_type_hints(Finding)


def finding(tool: str = "check", **given: Any) -> Finding:
    """A finding with these fields."""
    return Finding(
        **{name: KINDS[name](**part) if isinstance(part, dict) else part for name, part in _parts(tool, given)}
    )


def changed(known: Finding, **given: Any) -> Finding:
    """A finding with other values of some fields."""
    parts = _parts(known.tool, given)
    return replace(
        known,
        **{name: replace(getattr(known, name), **part) if isinstance(part, dict) else part for name, part in parts},
    )


def value(known: Finding, name: str) -> Any:
    """The value of a field of any group."""
    group = group_of(known.tool).get(name)
    return getattr(known if group is None else getattr(known, group), name)


def having(findings: Iterable[Finding], **wanted: Any) -> list[Finding]:
    """The findings that have these values in fields of any group."""
    return [each for each in findings if all(value(each, name) == wanted[name] for name in wanted)]


def flat_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a JSON document, with the fields of all groups beside each other."""
    return [flat(row) for row in document["results"]]


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the fields of all groups beside each other; one of another command as it is."""
    if "tool" not in row:
        return {**row}
    known = group_of(row["tool"])
    groups = {group for group in known.values() if group in row}
    inner = {name: row[group][name] for name, group in known.items() if name in row.get(group, ())}
    return {**inner, **{name: part for name, part in row.items() if name not in groups}}


def _parts(tool: str, given: dict[str, Any]) -> list[tuple[str, Any]]:
    return [*nested(given, tool).items()]
