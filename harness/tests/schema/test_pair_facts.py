"""The head of a pair is read back, and that of an older version has none of the newer keys."""

import msgspec

from samebits.report.check import Document, PairHead
from samebits.schema.pair_facts import CaseInputs, SideSource
from tests.support.documents import document

HEAD = PairHead(
    pair="norm",
    reference="einsum",
    variants=("multiply",),
    selected=3,
    product=12,
    meshes={"data2": {"data": 2}},
    inputs=(CaseInputs(case="small", meshes=("data2",), arguments={"x": "[8] normal"}),),
    sources=(SideSource(side="einsum", file="reference_impls/norm.py", first=3, last=4, text="def einsum(x):\n    x"),),
)


def test_a_head_is_read_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(HEAD), type=PairHead) == HEAD


def test_a_document_of_an_older_version_opens() -> None:
    old = msgspec.json.decode(msgspec.json.encode(document()))
    for key in ("meshes", "inputs", "sources"):
        del old["pairs"][0][key]
    assert msgspec.convert(old, Document) == document()
