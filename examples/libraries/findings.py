"""The page docs/findings/libraries.md, of the JSON documents that `make libraries` wrote.

`python examples/libraries/findings.py CHECK.json FAULTS.json > PAGE`, in the environment of the run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from samebits.report.check import Document, SideTally, closing, read_document, rows
from samebits.report.document import read_as
from samebits.report.faults import FaultTable
from samebits.report.markdown import escaped, folded, markdown_table
from samebits.report.words import plural
from samebits.schema.contract import COMPUTES
from samebits.schema.finding import Finding

HERE = Path(__file__).resolve().parent
REQUIREMENTS = ("requirements.txt", "requirements_maxtext.txt")

HEAD = """# Pairs over real libraries

Made by `make libraries`; every number is from that run. The declarations are in `examples/libraries/suites/`, a tree of
its own. `samebits check NAME --root examples/libraries` checks a pair again; the replay commands below take that option
too."""

DIFFERS = """## What differs

Known differences, each with what was seen: an element of the reference and of the variant. The check fails where one
comes out otherwise."""

LESS_ACCURATE = """## What is less accurate

The same formulas, with more than twice the reference's error and within the limit that the declaration gives."""

SAME = """## What is the same

*proved*: for every input of these shapes. *bitwise*: on the inputs tried. *rounding*: the same formulas; in parentheses
the largest distance in units in the last place (ulp), and the largest error as a multiple of the reference's."""


def page(document: Document, faults: FaultTable) -> str:
    """The page as Markdown.

    Args:
        document: of `samebits check` on this tree.
        faults: of `samebits audit faults` on it.
    """
    caught = sum(row.caught and row.honest for row in faults.results)
    planted = [(row.pair, row.side, row.fault, "yes" if row.caught else "no") for row in faults.results]
    parts = [
        HEAD,
        _learned(document, faults),
        escaped(closing(document)) + ".",
        escaped("; ".join([*document.environment.lines(), *versions(document.environment.versions)])) + ".",
        DIFFERS,
        markdown_table(("pair", "variant", "where", "finding", "what was seen", "replay"), _differences(document)),
        LESS_ACCURATE,
        markdown_table(("pair", "variant", "where", "error", "why"), _less_accurate(document)),
        SAME,
        *_sides(document),
        "## Planted faults",
        f"{plural(len(faults.results), 'fault')}, one at a time, each of them `different` ({caught} caught).",
        folded(plural(len(planted), "row"), markdown_table(("pair", "side", "fault", "caught"), planted)),
    ]
    return "\n\n".join(parts) + "\n"


def _learned(document: Document, faults: FaultTable) -> str:
    """Say in a few sentences what the tables come to."""
    pairs = {result.place.pair for result in document.results}
    known, caught = _differences(document), sum(row.caught for row in faults.results)
    types = sum(seen.startswith("dtype: ") for _, _, _, _, seen, _ in known)
    return (
        f"{len({pair for pair, *_ in known})} of {plural(len(pairs), 'pair')} have known differences ({len(known)}, "
        f"{types} of them another dtype), and in {plural(len(_less_accurate(document)), 'row')} a variant has more "
        "than twice the reference's error. Elsewhere the libraries agree to the bit or but for rounding, and "
        f"{caught} of {plural(len(faults.results), 'planted fault')} are caught."
    )


def versions(stated: Mapping[str, str | None]) -> list[str]:
    """The installed versions of what this tree requires, such as `equinox 0.13.8`, but for those already stated."""
    names = dict.fromkeys(
        Requirement(line).name
        for file in REQUIREMENTS
        for line in (HERE / file).read_text(encoding="utf-8").splitlines()
        if line[:1].isalpha()
    )
    installed = {distribution.name.lower(): distribution.version for distribution in metadata.distributions()}
    return [f"{name} {installed[name.lower()]}" for name in names if name.lower() in installed and name not in stated]


def _where(results: Iterable[Finding]) -> str:
    """The dtypes and directions of results in words."""
    results = list(results)
    dtypes = dict.fromkeys(result.place.dtype for result in results)
    directions = dict.fromkeys(result.place.direction for result in results)
    return f"{', '.join(dtypes)}; {', '.join(directions)}"


def _differences(document: Document) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    by_reason: dict[tuple[str, str, str], list[Finding]] = {}
    for result in document.results:
        if result.ruling.exempt and result.ruling.ok:
            key = (result.place.pair, result.place.variant, result.ruling.reason or "")
            by_reason.setdefault(key, []).append(result)
    for (pair, variant, reason), known in by_reason.items():
        first = next((result for result in known if result.comparison.witness), known[0])
        lines.append((pair, variant, _where(known), reason, _seen(first), first.replay))
    return lines


def _seen(result: Finding) -> str:
    """The witness, and without one how the verdict was found."""
    if not result.comparison.witness:
        return result.ruling.evidence or ""
    witness = result.comparison.witness
    return f"{witness.leaf}{[*witness.index]}: {witness.reference} and {witness.optimized}"


def _less_accurate(document: Document) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for result in document.results:
        chosen = (
            result.ruling.required == "rounding"
            and result.ruling.reason != COMPUTES.reason
            and not result.ruling.exempt
        )
        if chosen and result.ruling.ok and (result.accuracy.error_ratio or 0) > 2:
            groups.setdefault((result.place.pair, result.place.variant, result.ruling.reason or ""), []).append(result)
    return [
        (pair, variant, _where(found), f"{max(r.accuracy.error_ratio or 0 for r in found):.2g}x", reason)
        for (pair, variant, reason), found in groups.items()
    ]


def _sides(document: Document) -> list[str]:
    """A table for each library: its pairs, what each compares, and the verdicts of each variant."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    references = {head.pair: head.reference for head in document.pairs}
    for tally in rows(document.results):
        if tally.variant != references.get(tally.pair):
            own = [r for r in document.results if (r.place.pair, r.place.variant) == (tally.pair, tally.variant)]
            cells = (tally.pair, tally.variant, *(_cell(tally, own, way) for way in ("forward", "gradient")))
            tables.setdefault(tally.pair.partition("_")[0], []).append(cells)
    parts = []
    for library, lines in tables.items():
        names = dict.fromkeys(line[0] for line in lines)
        described = "\n".join(f"- `{name}`: {_described(name)}" for name in names)
        table = markdown_table(("pair", "variant", "forward", "gradient"), lines)
        parts += [f"### {library}", folded(plural(len(names), "pair"), described, table)]
    return parts


def _cell(tally: SideTally, results: Sequence[Finding], direction: str) -> str:
    """The verdicts of a direction, with how far what only rounds goes."""
    text = ", ".join(words for _, words in tally.parts(direction))
    rounded = [r for r in results if r.place.direction == direction and r.ruling.verdict == "rounding"]
    if not rounded:
        return text
    ratio = max(r.accuracy.error_ratio or 0 for r in rounded)
    unproved = sum(r.proof.log2_error is None for r in rounded)
    how = f"; {unproved} of them by execution in float64" if unproved else ""
    return f"{text} (at most {max(r.comparison.max_ulp or 0 for r in rounded)} ulp, error {ratio:.2g}x{how})"


def _described(name: str) -> str:
    """The first line of a suite file's docstring."""
    tree = ast.parse((HERE / "suites" / f"test_{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


if __name__ == "__main__":
    check, faults = (Path(argument) for argument in sys.argv[1:3])
    sys.stdout.write(page(read_document(check), read_as(faults, FaultTable)))
