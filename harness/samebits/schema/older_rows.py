"""Rows of `samebits/1`, where the fields of all groups of a finding stood side by side, as rows of `samebits/2`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from samebits.schema.finding import Finding

_RENAMED = {"proof_alone": "alone", "no_lines": "why"}
"""Fields that have another name in their group."""


@cache
def group_of(tool: str) -> dict[str, str]:
    """Map each field to its group; of a proof, what it requires of the inputs before what the contract states."""
    groups = {name: kind for name, kind in get_type_hints(Finding).items() if is_dataclass(kind)}
    ordered = sorted(groups, key=lambda name: tool == "prove" and name == "proof")  # the last one wins
    if tool != "prove":
        ordered.reverse()
    return {field.name: group for group in ordered for field in fields(groups[group])}


def nested(row: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Put the fields of a row of `samebits/1` into their groups; what is not a field of one stays where it is."""
    known, finding = group_of(tool), dict[str, Any](tool=tool)
    for key, value in row.items():
        name = "refutation" if (tool, key) == ("prove", "witness") else _RENAMED.get(key, key)
        if name in known:
            finding.setdefault(known[name], {})[name] = value
        else:
            finding[key] = value
    return finding


def upgraded(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of `samebits/1` as one of `samebits/2`."""
    document, command = {**raw, "schema": "samebits/2"}, raw.get("command")
    if command in ("check", "prove") and isinstance(raw.get("results"), list):
        document["results"] = [nested(row, command) if isinstance(row, dict) else row for row in raw["results"]]
    return _reworded(document) if command == "claims" else document


def _reworded(value: Any) -> Any:
    """Replace the words of claims that have others now, whatever holds them."""
    if isinstance(value, dict):
        return {_CLAIM_WORDS.get(key, key): _reworded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_reworded(part) for part in value]
    return _CLAIM_WORDS.get(value, value) if isinstance(value, str) else value


_CLAIM_WORDS = {"not told": "undecided", "not asked": "not tested"}
