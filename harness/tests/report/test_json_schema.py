"""The JSON Schema is that of the documents which the commands write, and every key of them is explained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from samebits.host import environment
from samebits.report.json_schema import SHARED, described, schema, schema_page, schema_text, type_text
from samebits.schema.finding import Finding, Place
from tests.support.invoke import samebits
from tests.support.rope_tree import write_tree

environment.prepare()

DOCUMENTS = (
    ("check", ("rope", "--case", "small", "--mesh", "data2", "--direction", "forward")),
    ("prove", ("rope", "--direction", "forward")),
    ("list", ()),
)


def wrong(document: Any) -> list[str]:
    """What the schema says against a document."""
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    errors = [error for found in validator.iter_errors(document) for error in [found, *(found.context or ())]]
    return [f"{error.json_path}: {error.message}" for error in errors]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `samebits check --json` writes of a small pair."""
    return written("check", DOCUMENTS[0][1], tmp_path_factory.mktemp("checked"))


def written(command: str, words: tuple[str, ...], root: Path) -> dict[str, Any]:
    """The document that a command writes in a tree of one pair."""
    write_tree(root)
    ended = samebits(command, *words, "--root", root, "--json", root / "out.json")
    assert ended.code == 0, ended.out + ended.err
    document = json.loads((root / "out.json").read_text(encoding="utf-8"))
    assert document["results"]
    return document  # type: ignore[no-any-return]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


@pytest.mark.slow
@pytest.mark.parametrize(("command", "words"), DOCUMENTS, ids=[command for command, _ in DOCUMENTS])
def test_documents_are_valid(command: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert wrong(written(command, words, tmp_path)) == []


def first(document: dict[str, Any]) -> dict[str, Any]:
    """The first result of a document."""
    return document["results"][0]  # type: ignore[no-any-return]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda document: first(document)["ruling"].update(verdict="equal"), "'equal' is not one of"),
        (lambda document: first(document)["comparison"].update(elements="8"), "'8' is not of type 'integer'"),
        (lambda document: first(document)["ruling"].pop("required"), "'required' is a required property"),
        (lambda document: document.pop("environment"), "'environment' is a required property"),
        (lambda document: document.update(schema="samebits/1"), "'samebits/1' is not one of"),
        (lambda document: document.update(command="chek"), "'chek' is not one of"),
        (lambda document: document["summary"].update(seconds=None), "None is not of type 'number'"),
    ],
    ids=["verdict", "type", "missing key", "missing part", "schema", "command", "null"],
)
def test_a_wrong_document_is_rejected(
    spoil: Callable[[dict[str, Any]], object], message: str, checked: dict[str, Any]
) -> None:
    document = json.loads(json.dumps(checked))
    spoil(document)
    assert message in "\n".join(wrong(document))


def unexplained(records: dict[str, Any]) -> list[str]:
    """The keys of records that have no description."""
    return [f"{name}.{key}" for name, record in records.items() for key, shape in record["properties"].items()
            if "description" not in shape]  # fmt: skip


def test_every_key_is_explained() -> None:
    records = schema()["$defs"]
    assert unexplained(records) == []
    del records["Compared"]["properties"]["max_ulp"]["description"]
    assert unexplained(records) == ["Compared.max_ulp"]


def test_fields_that_share_a_line_share_their_meaning() -> None:
    head, meanings = described(
        "What it is.\n\n    Args:\n        low, high: the range,\n            in ulps.\n        of: what.\n"
    )
    assert head == "What it is."
    assert meanings == {"low": "the range, in ulps.", "high": "the range, in ulps.", "of": "what."}
    assert described(Place.__doc__ or "")[1]["pair"].startswith("the point of the sweep")


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ({"$ref": "#/$defs/Finding"}, "[Finding](#record-finding)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"enum": ["a", 1]}, '`"a"` or `1`'),
        ({"type": "array", "items": {"type": "number"}}, "list of number"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({}, "any value"),
    ],
)
def test_types_in_words(shape: dict[str, Any], text: str) -> None:
    assert type_text(shape) == text


def test_the_page_has_every_document_and_key() -> None:
    page = schema_page()
    for command in ("check", "prove model", "golden show", "faults"):
        assert f"\n## {command} {{" in page
    assert all(f"| `{name}` |" in page for name in Finding.__dataclass_fields__)
    assert "| `schema` |" in page and SHARED["schema"] in page
