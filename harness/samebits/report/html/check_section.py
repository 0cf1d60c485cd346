"""A check on a page: what failed and why, every verdict as a matrix of pair and mesh, and the results themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter

import msgspec

from samebits.report.causes.cause import Cause, document_causes, first_command
from samebits.report.document import Document
from samebits.report.html.section import Section, render
from samebits.report.notes import note_lines
from samebits.report.tally import accepted
from samebits.report.words import (
    State,
    counts_sentence,
    empty_shard_sentence,
    is_empty_shard,
    plural,
    remembered_sentence,
    skips_words,
    verdict_counts,
)
from samebits.schema.finding import Finding

RESULT_SCRIPTS = ("result_view.js", "result_values.js", "result_sharding.js", "result_heat.js", "result_source.js")
"""What shows one result in depth; `result_view.js` comes first."""

SHOWN_CAUSES = 3
"""How many causes are shown unfolded."""


def check_section(document: Document) -> Section:
    """The section of one check.

    Args:
        document: of `samebits check`, `compare` or `merge`.
    """
    causes = document_causes(document)
    places = {id(result): place for place, result in enumerate(document.results)}
    return Section(
        title="check" if document.shard is None else f"check, shard {document.shard}",
        command="check",
        state=_state(document),
        headline=_headline(document, causes),
        next_command=first_command(causes),
        body=render(
            "check.html.j2",
            document=document,
            causes=causes[:SHOWN_CAUSES],
            more_causes=causes[SHOWN_CAUSES:],
            ran=f"{counts_sentence(document)}; {document.summary.seconds:.1f} s",
            findings=_findings(document),
            shaken=_shaken(document),
        ),
        data={
            "results": columns(document.results),
            "causes": [[places[id(result)] for result in cause.results] for cause in causes],
            "pairs": document.pairs,
            "environment": document.environment,
        },
        scripts=(*RESULT_SCRIPTS, "check_rows.js", "check_matrix.js", "check.js"),
        styles=("check.css", "result.css"),
    )


def _state(document: Document) -> State:
    summary = document.summary
    if is_empty_shard(document):
        return "passed"
    if summary.failed or document.problems or not summary.cases:
        return "failed"
    return "incomplete" if document.incomplete else "passed"


def _headline(document: Document, causes: Sequence[Cause]) -> str:
    """What broke, and where; or that all contracts hold."""
    summary = document.summary
    begin = "Interrupted: " if summary.interrupted else ""
    if causes:
        fail = f"{summary.failed} of {plural(summary.cases, 'result')} {'fails' if summary.failed == 1 else 'fail'}"
        by = "" if len(causes) == 1 else f", by {len(causes)} causes; the gravest"
        return f"{begin}{fail}{by}: {causes[0].title} ({causes[0].where}); {causes[0].likely}"
    if document.problems:
        first, count = document.problems[0], len(document.problems)
        more = f" ({count - 1} more below)" if count > 1 else ""
        return f"{begin}{plural(count, 'problem')}: {first.pair}: {first.message}{more}"
    if is_empty_shard(document):
        return empty_shard_sentence(document).capitalize()
    if summary.skipped == summary.cases:
        return f"{begin}Nothing was checked: {plural(summary.cases, 'result')} skipped"
    if document.skips_fail:
        return f"{begin}What ran holds, but {skips_words(document)}: {verdict_counts(summary.verdicts)}"
    ran = f"{plural(summary.cases, 'result')} of {plural(len(document.pairs), 'pair')}"
    known = f" (known differences among them: {summary.exempt})" if summary.exempt else ""
    return f"{begin}All contracts hold: {ran}: {verdict_counts(summary.verdicts)}{known}"


def _shaken(document: Document) -> list[tuple[str, ...]]:
    """A row for each compiler option of `--shake`."""
    counted = ("robust", "fragile", "broken", "error", "no effect")
    options = () if document.shake is None else document.shake.options
    return [
        (row.option, *(str(row.outcomes.get(name, 0)) for name in counted), str(row.reference_moved)) for row in options
    ]


def _findings(document: Document) -> list[str]:
    """What a reader should know besides the results."""
    lines = [
        f"{group.pair}/{group.variant}, {group.direction}, {group.leaf}: {group.measured()}: {group.reason}"
        for group in accepted(document.results)
    ]
    remembered = remembered_sentence(document)
    return [*lines, *note_lines(document), *([] if remembered is None else [remembered])]


def columns(findings: Sequence[Finding]) -> dict[str, object]:
    """The fields of findings as columns, to be read by `samebits.rows` in `static/page.js`.

    The fields of groups stand beside each other; of two with one name, that of the first group counts.

    Returns:
        The number of findings, and for each field its distinct values and which of them each finding has; one that
        all share has no such list.
    """
    paths: dict[str, str] = {}
    for part in fields(Finding) if findings else ():
        group = getattr(findings[0], part.name)
        inner = fields(group) if is_dataclass(group) else ()
        for name, path in [(each.name, f"{part.name}.{each.name}") for each in inner] or [(part.name, part.name)]:
            paths.setdefault(name, path)
    return {"count": len(findings), "fields": {name: _column(findings, path) for name, path in paths.items()}}


def _column(findings: Sequence[Finding], path: str) -> dict[str, object]:
    places: dict[bytes, int] = {}
    values: list[msgspec.Raw] = []
    index, value_of = [], attrgetter(path)
    for finding in findings:
        text = msgspec.json.encode(value_of(finding))
        if text not in places:
            places[text] = len(values)
            values.append(msgspec.Raw(text))
        index.append(places[text])
    return {"values": values} if len(values) == 1 else {"values": values, "index": index}
