"""HTML in every name and text of a document: whatever of it stands unescaped on a page is a way in for a script."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from samebits.audit.snapshots import AcceptedVerdicts
from samebits.report.gate import GateDocument
from samebits.report.golden import GoldenListDocument, GoldenRow
from samebits.report.html.sections import html_page, section_of
from samebits.report.snapshots import AcceptDocument
from samebits.schema.gate_row import GateRow
from tests.report.html.browser.samples import SAMPLES, sample
from tests.report.html.run_samples import claim, steps_document, trial, tuned_document, two_sides
from tests.support.documents import ENVIRONMENT
from tests.support.evidence_documents import bisected, set_search, size_search, step_leaf, steps
from tests.support.golden_samples import golden

PLANTED = "</script><planted onload=\"alert('x')\">&{{7*7}}`"

KEPT = ("environment", "verdicts", "states", "dimensions")
"""Fields whose keys are the project's own words."""

ACCEPTED = AcceptedVerdicts(pair="norm", path="norm.json", change="changed", equal=6, lost=2, gained=1)
REFUTED = GateRow(kind="kept", state="refuted", words="call 2", where="k.py:3")
OTHERS: tuple[object, ...] = (
    AcceptDocument(environment=ENVIRONMENT, results=(ACCEPTED,)),
    GateDocument(kernel="k.py:kernel", reference="r.py:reference", results=(REFUTED,), leaves=(), claim="refuted"),
    GoldenListDocument(environment=None, results=(GoldenRow.of(golden(), Path("goldens/cpu/toy__one.json")),)),
    bisected(set_search()),
    bisected(size_search()),
    steps(step_leaf(leaf="gradients/w", verdict="different", witness="w[0] is 1 and 2", reason="a sum is missing")),
    steps_document("fsdp", notes=("a note",)),
    tuned_document(trial("128", equal=False)),
    two_sides(claim(), replay="samebits compile reorder"),
)
"""Documents of commands of which there is no sample."""


def hostile(value: Any, hint: Any = Any) -> Any:
    """A document with HTML in all of its strings but those of a fixed vocabulary."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        changed = {
            field.name: hostile(getattr(value, field.name), hints[field.name])
            for field in fields(value)
            if field.init and field.name not in KEPT
        }
        return replace(value, **changed)
    if isinstance(value, str):
        return value if _fixed(hint) else f"{PLANTED}{value}"
    if isinstance(value, Mapping):
        own = hint is Any or not get_args(hint) or get_args(hint)[1] is Any
        return {key if own else hostile(key): hostile(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        kinds = [kind for kind in get_args(hint) if kind is not Ellipsis]
        return type(value)(hostile(each, kinds[0] if kinds else Any) for each in value)
    return value


def _fixed(hint: Any) -> bool:
    """Whether a type is a fixed vocabulary."""
    return get_origin(hint) is Literal or any(_fixed(part) for part in get_args(hint))


@pytest.mark.parametrize(
    "document",
    [*(pytest.param(name, id=name) for name in SAMPLES if name != "check_passed"), *OTHERS],
    ids=lambda document: type(document).__name__,
)
def test_nothing_of_a_document_is_markup(document: object) -> None:
    """Neither in its section nor on its page; what passes shows no name outside of its data."""
    section = section_of(hostile(sample(document) if isinstance(document, str) else document))
    page = html_page([section], section.title)
    assert "<planted" not in page, page[page.index("<planted") - 300 :][:400]
    assert "&lt;planted" in section.body, "what is planted is shown, as text"
    assert "{{7*7}}" in section.body, "and no template is evaluated twice"
    assert page.count("</script>") == page.count("<script"), "no text ends a script"
