"""Rows of `samebits/1`, where the fields of all groups of a finding stood side by side, as rows of `samebits/2`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from samebits.schema.finding import Finding, Place

_RENAMED = {"proof_alone": "alone", "no_lines": "why"}
"""Fields that have another name in their group."""

_CLAIM_WORDS = {"not told": "undecided", "not asked": "not tested"}
"""Verdicts of claims that have other words now."""


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
    if command in ("diff", "report diff"):
        return _one_list(document)
    if command == "claims":
        text = json.dumps(document)
        for old, new in _CLAIM_WORDS.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        document = json.loads(text)
    return document


_OTHER_CHANGES = {"losses": "loss moved", "contracts": "contract", "moved": "other bits"}
_OTHER_CHANGES |= {"figures": "", "slower": "slower"}
"""The lists of a document of `diff` beside its results, with the change that each was of."""


def _one_list(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of `diff` with all changes in one list, each as it is written now."""
    summary = document.get("summary", {})
    kept = {key: document[key] for key in document if key not in _OTHER_CHANGES}
    same = summary.get("same_environment", True)
    rows = [_changed(row, row.get("change"), same) for row in document.get("results", ())]
    for name, change in _OTHER_CHANGES.items():
        rows += [_changed(row, change, same) for row in document.get(name, ())]
    named = {"compared", "same_environment", "failed", "seconds_before", "seconds_after", "still_fail"}
    summary = {key: value for key, value in summary.items() if key in named}
    summary["changes"] = dict(Counter(row["change"] for row in rows))
    return {**kept, "command": "diff", "results": rows, "summary": summary}


def _changed(row: Mapping[str, Any], change: str, same: bool) -> dict[str, Any]:
    now = {key: row[key] for key in ("before", "after", "figure", "reason", "replay") if key in row}
    now |= {"change": change or ("larger" if row["after"] > row["before"] else "smaller")}
    worse, excuse = change in ("new failure", "worse failure"), ""
    if change == "fell":
        excuse = "as declared" if row.get("declared") else "" if same else "in another environment"
    if change == "loss moved":
        now["after"] = f"{row['after']} at step {row['step']} (up to {row['max_ulp']} ulp)"
        excuse = "by rounding" if row["verdict"] != "different" else "" if same else "in another environment"
    fails = worse or (change in ("fell", "loss moved") and not excuse)
    place = {name: row[name] for name in Place.__dataclass_fields__ if name in row}
    return {**now, "place": place, "excuse": excuse, "fails": fails}
