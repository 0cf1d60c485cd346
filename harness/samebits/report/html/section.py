"""What one document contributes to a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from samebits.report.words import State

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, kw_only=True)
class Section:
    """One document as a part of a page.

    A body has no `id` attributes, since a page may show two documents of one command: scripts find their elements
    by classes and `data-` attributes inside the section.

    Args:
        command: of the document, such as `check` or `compile model`; scripts start by it.
        state: what the run comes to.
        headline: what broke, and where, in one sentence.
        next_command: what to run next; None where nothing is left to do.
        body: HTML from a template.
        charts: Vega-Lite specifications by the names that `data-chart` attributes of the body give.
        data: what the scripts read, as JSON values by name.
        scripts, styles: files of `static/` that the section needs besides those of every page.
        source: the file that the document was read from; None where there is none.
        id: the section's name in the page's address, by default of the command; the page numbers those that come twice.
        title: as the navigation names it; the command by default.
    """

    command: str
    state: State
    headline: str
    next_command: str | None
    body: Markup
    charts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    source: str | None = None
    id: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.id or self.command.replace(" ", "-"))
        object.__setattr__(self, "title", self.title or self.command)
