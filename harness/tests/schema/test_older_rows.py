"""Documents of `samebits/1`: their fields come into the groups of a finding, and none is lost."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from samebits.report.any_document import read_any_document
from samebits.report.document import to_json
from samebits.schema.finding import Finding
from samebits.schema.older_rows import group_of, nested, upgraded
from tests.support.findings import flat_rows

STORED = Path(__file__).parent.parent / "report" / "html" / "browser" / "documents"
"""As versions before wrote them."""

NAMES = sorted(path.stem for path in STORED.glob("*.json") if path.stem.startswith(("check_", "prove_")))
NOW = {"proof_alone": "alone", "no_lines": "why"}


def contains(new: Any, old: Any) -> bool:
    """Whether all of an older value is in a new one, whose records may have more keys."""
    if isinstance(old, dict):
        return all(contains(new[key], value) for key, value in old.items())
    if isinstance(old, list):
        return len(new) == len(old) and all(contains(*each) for each in zip(new, old, strict=True))
    return bool(new == old)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_an_older_document_is_read(name: str, tmp_path: Path) -> None:
    old = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
    assert old["schema"] == "samebits/1"
    file = tmp_path / "again.json"
    file.write_text(to_json(read_any_document(STORED / f"{name}.json")), encoding="utf-8")
    new = json.loads(file.read_text(encoding="utf-8"))
    assert new["schema"] == "samebits/2"
    for before, after in zip(old["results"], flat_rows(new), strict=True):
        for key, value in before.items():
            now = "refutation" if (old["command"], key) == ("prove", "witness") else NOW.get(key, key)
            assert contains(after[now], value), key
    assert read_any_document(file) == read_any_document(STORED / f"{name}.json")


@pytest.mark.parametrize("tool", ["check", "prove"])
def test_each_field_has_one_group(tool: str) -> None:
    known: dict[str, list[str]] = {}
    for group, kind in get_type_hints(Finding).items():
        for part in fields(kind) if is_dataclass(kind) else ():
            known.setdefault(part.name, []).append(group)
    twice = {name: groups for name, groups in known.items() if len(groups) > 1}
    assert twice == {"domain": ["ruling", "proof"]}, "what is read from a name must not depend on chance"
    assert group_of(tool)["domain"] == ("proof" if tool == "prove" else "ruling")


def test_unknown_keys_stay_where_they_are() -> None:
    row: dict[str, Any] = {"pair": "norm", "extra": 1, "witness": "out[0]", "no_lines": "why not"}
    assert nested(row, "prove") == {
        "tool": "prove",
        "place": {"pair": "norm"},
        "extra": 1,
        "proof": {"refutation": "out[0]"},
        "named": {"why": "why not"},
    }
    assert upgraded({"command": "check", "results": 3})["results"] == 3


def test_claims_have_the_words_of_today() -> None:
    row = {"id": "1", "holds": "not told", "values": "not asked", "said": "it was not told", "findings": []}
    document = upgraded({"command": "claims", "results": [row], "summary": {"states": {"not told": 1}}})
    assert document["results"] == [row | {"holds": "undecided", "values": "not tested"}]
    assert document["summary"] == {"states": {"undecided": 1}}
