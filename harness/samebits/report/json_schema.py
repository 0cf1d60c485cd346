"""JSON Schema of every document that `--json` writes, and the page that explains its keys; both made from the records.

`python -m samebits.report.json_schema` prints the schema. The page and the schema are part of the documentation site.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from samebits.report import bisect, check, claims, compile_model, defaults, faults, golden, snapshots, train, tune
from samebits.report import compile as compile_document
from samebits.report import list as list_document
from samebits.report import prove as prove_document
from samebits.report.advise import AdviseDocument
from samebits.report.cache import CacheDocument
from samebits.report.changes.diff_document import DiffDocument
from samebits.report.document import SCHEMA
from samebits.report.gate import GateDocument
from samebits.report.prove_model import StepDocument
from samebits.schema.program_facts import Facts

SCHEMA_FILE = "samebits-2.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{name}"


RECORDS: tuple[type, ...] = (
    list_document.Listing,
    check.Document,
    prove_document.ProofDocument,
    StepDocument,
    compile_document.CompileDocument,
    compile_model.StepsDocument,
    tune.TuneDocument,
    train.TrainDocument,
    golden.GoldenCheckDocument,
    golden.GoldenAcceptDocument,
    golden.GoldenListDocument,
    golden.GoldenShowDocument,
    snapshots.AcceptDocument,
    bisect.BisectDocument,
    claims.ClaimsDocument,
    defaults.DefaultsDocument,
    AdviseDocument,
    faults.FaultTable,
    GateDocument,
    CacheDocument,
    DiffDocument,
)
"""One record for each kind of document, in the order of the page."""

SHARED = {
    "schema": "the version of the documents.",
    "command": "what wrote the document.",
    "environment": "what the bits depend on: versions, devices, processor, settings of jax.",
    "written": "when the run that wrote the document began, and at which commit of its tree.",
    "results": "one row for each thing that the command judged, in the order of the request.",
    "problems": "what could not be judged at all, with the reason.",
    "notes": "lines that the terminal shows besides.",
    "summary": "the counts over all rows.",
    "seconds": "the time that it took.",
    "interrupted": "whether the run was stopped before its end.",
    "pair": "the name of the pair.",
    "variant": "the variant; the reference's own name where the reference is held against itself.",
    "side": "the reference or a variant.",
    "reference": "the name of the reference.",
    "case": "the case of the declaration.",
    "dtype": "the dtype of the inputs.",
    "mesh": "axes and their sizes, such as `expert4_fsdp2`.",
    "mode": "the sharding mode, `auto` or `explicit`.",
    "direction": "`forward` or `gradient`.",
    "target": "what the program is compiled for, such as `tpu7x:2x2x1`.",
    "compiler": "the version of the compiler.",
    "shapes": "of the arguments, such as `x bfloat16[1,131072,128,128]`.",
    "options": "compiler options that were given.",
    "argument": "the static argument whose values are tried.",
    "replay": "the command that shows this row again.",
    "path": "of the file.",
    "model": "the name of the model.",
}
"""Keys that mean the same in every record, where the record itself does not explain them."""


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return what a record is for, and the meaning of each field.

    Args:
        docstring: in Google's style; fields that share one line (`low, high: ...`) share their meaning.

    Returns:
        The paragraphs before `Args:` as one line, and a line for each field.
    """
    head, _, listed = inspect.cleandoc(docstring).partition("\nArgs:\n")
    rows = re.split(r"\n(?=    \w)", re.split(r"\n(?=\S)", "\n" + listed)[0])
    meanings: dict[str, str] = {}
    for row in filter(str.strip, rows):
        names, _, text = row.partition(": ")
        meanings |= {name.strip(): " ".join(text.split()) for name in names.split(",")}
    return " ".join(head.split()), meanings


def schema() -> dict[str, Any]:
    """Return the schema of all documents: each is one of `oneOf`, distinguished by its `command`."""
    kinds, records = msgspec.json.schema_components(RECORDS, ref_template=_REF)
    _, facts = described(Facts.__doc__ or "")
    for record in records.values():
        record["description"], own = described(record.get("description", ""))
        meanings = SHARED | facts | own
        for name, shape in record["properties"].items():
            if name in meanings:
                shape["description"] = meanings[name]
    head = {"$schema": _DIALECT, "title": SCHEMA, "oneOf": list(kinds)}
    return {**head, "$defs": dict(sorted(records.items()))}


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(schema(), indent=1) + "\n"


# --- the page --------------------------------------------------------------------------------------------------------

_HEAD = f"""# The JSON document

Every command takes `--json FILE` and writes one document. A published key never changes its meaning within
`{SCHEMA}`; new keys may be added. JSON has no infinity: an infinite number is written as null.

This page is generated from the records that the commands write. The same as JSON Schema:
[{SCHEMA_FILE}]({SCHEMA_FILE}).
"""


def type_text(shape: Mapping[str, Any]) -> str:
    """Return the type of a value in words, as Markdown, with a link to the record where it is one."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](#record-{name.lower()})"
    if "anyOf" in shape:
        return " or ".join(type_text(part) for part in shape["anyOf"])
    if "enum" in shape:
        return " or ".join(f"`{json.dumps(value)}`" for value in shape["enum"])
    kind = shape.get("type", "any value")
    if kind == "array":
        each: Mapping[str, Any] = shape.get("items") or next(iter(shape.get("prefixItems", ())), {})
        return f"list of {type_text(each)}"
    inner = shape.get("additionalProperties")
    return f"object of {type_text(inner)}" if kind == "object" and isinstance(inner, dict) else str(kind)


def _table(record: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | type | meaning |"
    yield "|---|---|---|"
    for name in sorted(record["properties"], key=lambda name: name not in ("schema", "command")):
        shape = record["properties"][name]
        cells = (f"`{name}`", type_text(shape), shape.get("description", ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def schema_page() -> str:
    """Return the page of the documents and their records, as Markdown."""
    document_schema = schema()
    records: dict[str, dict[str, Any]] = document_schema["$defs"]
    kinds = [kind["$ref"].rpartition("/")[2] for kind in document_schema["oneOf"]]
    lines = [_HEAD]
    for name in kinds:
        commands = records[name]["properties"]["command"]["enum"]
        lines += [f"## {commands[0]} {{ #record-{name.lower()} }}", "", records[name]["description"], ""]
        lines += [*_table(records[name]), ""]
    lines += ["## Records", ""]
    for name in sorted(set(records) - set(kinds)):
        lines += [f"### {name} {{ #record-{name.lower()} }}", "", records[name]["description"], ""]
        lines += [*_table(records[name]), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(schema_text(), end="")
