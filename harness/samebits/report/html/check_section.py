"""A check on a page: what failed and where, every verdict as a matrix of pair and mesh, and the results themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from samebits.report.causes.cause import document_causes, first_command
from samebits.report.document import Document
from samebits.report.html.columns import columns
from samebits.report.html.render import render
from samebits.report.html.section import Section, State
from samebits.report.tally import accepted, exempted, not_interpreted, skipped
from samebits.report.words import closing, plural, remembered_sentence, short_meshes
from samebits.schema.result import Result


def check_section(document: Document) -> Section:
    """The section of one check.

    Args:
        document: of `samebits check`, `compare` or `merge`.
    """
    return Section(
        id="check",
        title="check" if document.shard is None else f"check, shard {document.shard}",
        command="check",
        state=_state(document),
        headline=_headline(document),
        next_command=first_command(document_causes(document)),
        body=render("check.html.j2", document=document, closing=closing(document), findings=_findings(document)),
        data={
            "results": columns(document.results),
            "references": [f"{head.pair}/{head.reference}" for head in document.pairs],
        },
        scripts=("result_view.js", "check.js"),
        styles=("check.css",),
    )


def _state(document: Document) -> State:
    summary = document.summary
    if summary.failed or document.problems or not summary.cases:
        return "failed"
    return "incomplete" if summary.interrupted else "passed"


def _headline(document: Document) -> str:
    """What broke, and where."""
    failed = [result for result in document.results if result.failed]
    if not failed:
        return closing(document)
    sides = Counter((result.pair, result.variant) for result in failed)
    pair, variant = sides.most_common(1)[0][0]
    own = [result for result in failed if (result.pair, result.variant) == (pair, variant)]
    words = f"{plural(len(failed), 'result')} of {document.summary.cases} fail"
    where = f"{pair}/{variant} ({_verdicts(own)}; {' and '.join(_distinct(own, 'direction'))}; on {_meshes(own)})"
    more = f", most of them in {where} and {plural(len(sides) - 1, 'other side')}" if len(sides) > 1 else f": {where}"
    return f"{words}{more}"


def _verdicts(results: Sequence[Result]) -> str:
    counts = Counter(result.verdict for result in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def _meshes(results: Sequence[Result]) -> str:
    names = _distinct(results, "mesh")
    return f"{len(names)} meshes" if len(names) > 6 else short_meshes(names)


def _distinct(results: Sequence[Result], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(result, name) for result in results))


def _findings(document: Document) -> list[str]:
    """What a reader should know besides the results."""
    lines = [
        f"{pair}/{variant}: {plural(len(known), 'known difference')}: {reason}"
        for (pair, variant, reason), known in exempted(document.results).items()
    ]
    lines += [
        f"{group.pair}/{group.variant}, {group.direction}, {group.leaf}: {group.measured()}: {group.reason}"
        for group in accepted(document.results)
    ]
    lines += [
        f"{pair}: {plural(count, 'result')} on mesh {mesh} skipped, too few devices"
        for (pair, mesh), count in skipped(document.results).items()
    ]
    lines += [
        f"{pair}/{variant}: {plural(count, 'result')} not interpreted: {what}"
        for (pair, variant, what), count in not_interpreted(document.results).items()
    ]
    remembered = remembered_sentence(document)
    return [*lines, *document.summary.notes, *([] if remembered is None else [remembered])]
