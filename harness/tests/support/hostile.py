"""HTML in every name and text of a document: whatever of it stands unescaped on a page is a way in for a script."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from samebits.report.html.sections import Section, html_page, section_of

PLANTED = "</script><planted onload=\"alert('x')\">&{{7*7}}`"

_KEPT = ("environment", "verdicts", "states", "dimensions")
"""Fields whose keys are the project's own words."""


def hostile(value: Any, hint: Any = Any) -> Any:
    """A document with HTML in all of its strings but those of a fixed vocabulary."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        changed = {
            field.name: hostile(getattr(value, field.name), hints[field.name])
            for field in fields(value)
            if field.init and field.name not in _KEPT
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


def require_escaped(document: object) -> Section:
    """The section of a document made hostile; nothing of it is markup, neither in the section nor on its page."""
    section = section_of(hostile(document))
    page = html_page([section], section.title)
    assert "<planted" not in page, page[page.index("<planted") - 300 :][:400]
    assert "&lt;planted" in section.body, "what is planted is shown, as text"
    assert "{{7*7}}" in section.body, "and no template is evaluated twice"
    assert page.count("</script>") == page.count("<script"), "no text ends a script"
    return section
