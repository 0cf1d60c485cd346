"""Writes docs/findings/all_sizes.md: `make sizes`.

In: `samebits prove --all-sizes --json FILE` over all pairs, run here, or the file of such a run. Out: what is shown of
each pair for all sizes, under which conditions, and why the rest is undecided.

`python docs/make_all_sizes.py [PROOFS.json]...`; the points of a later file stand in place of those of an earlier
one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from samebits.check.contract_audit import ANY_DEVICES
from samebits.programs.catalogue import Locator, load, names
from samebits.programs.plan import Request, plan
from samebits.report.document import read_as
from samebits.report.markdown import escaped, folded, markdown_table
from samebits.report.prove import ProofDocument, leaf_words
from samebits.report.words import plural
from samebits.schema.finding import Finding
from samebits.sizes.points import sized_points

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "findings" / "all_sizes.md"

SECONDS = 120
"""The time limit of a point, after which its leaves are undecided."""

LONGEST = 160
"""The most characters of a reason that are shown."""

HEAD = f"""# Pairs at every size

Made by `make sizes`, which runs `samebits prove --all-sizes --timeout {SECONDS}` over all pairs; every number is from
such a run. What "all" means, and what the words promise, is in [every size at once](../guides/all_sizes.md). A leaf is
one output, or one gradient, of a variant in one case, dtype and mesh."""

CUT_SHORT = "The run was interrupted: points that it did not come to are not counted"

IN_PARTS = "Points of these pairs are of a later run than the others"

SHOWN = """## What is shown

Each row is one leaf of a variant. The sizes are those of one of its cases; "one program" says that on one device the
bits are equal too."""

UNDECIDED = """## What is undecided, and why

Of these, proofs at the sizes of the cases and executions tell what there is to tell: `samebits check` passes."""


def main(arguments: Sequence[str]) -> int:
    """Write the page of a file of proofs, or of a run made now."""
    if arguments:
        documents = [read_as(Path(argument), ProofDocument) for argument in arguments]
        PAGE.write_text(page(*documents), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proofs.json"
        command = ["prove", "--all-sizes", "--timeout", str(SECONDS), "--json", str(path)]
        # It exits with 3, since of some leaves proof alone does not tell.
        subprocess.run([sys.executable, "-m", "samebits", *command], cwd=ROOT, check=False)
        return main([str(path)])


def page(*documents: ProofDocument) -> str:
    """The page as Markdown; the points of a later document stand in place of those of an earlier one."""
    latest = {_point(proof): document for document in documents for proof in document.results}
    results = [proof for document in documents for proof in document.results if latest[_point(proof)] is document]
    results.sort(key=lambda proof: proof.place.pair)
    proofs = [proof for proof in results if proof.ruling.verdict != "refused"]
    later = sorted({pair for (pair, _), document in latest.items() if document is not documents[0]})
    missing = _missing(results) if any(document.interrupted for document in documents) else []
    shown, undecided = list(_shown(proofs)), list(_undecided(proofs))
    parts = [
        HEAD,
        _learned(proofs),
        escaped("; ".join(documents[-1].environment.lines())) + ".",
        *([f"{IN_PARTS}: {', '.join(later)}."] if later else []),
        *([f"{CUT_SHORT} ({', '.join(missing)})."] if missing else []),
        _summary(proofs),
        SHOWN,
        folded(
            plural(len(shown), "row"), markdown_table(("pair", "variant", "leaf", "where", "shown", "sizes"), shown)
        ),
        UNDECIDED,
        folded(
            plural(len(undecided), "row"), markdown_table(("pair", "variant", "leaf", "where", "reason"), undecided)
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _missing(results: Iterable[Finding]) -> list[str]:
    """By pair of the tree, how many of its points no run came to; pairs of which none is missing are left out."""
    reached = {_point(proof) for proof in results}
    missing = []
    for name in names(ROOT):
        pair = load(Locator(name=name, root=str(ROOT)))
        points = sized_points(pair, plan(pair, Request(), ANY_DEVICES).points)
        left = sum((name, str(point)) not in reached for point in points)
        missing += [f"{name}: {left} of {len(points)}"] if left else []
    return missing


def _point(proof: Finding) -> tuple[str, str]:
    words = (
        proof.place.variant,
        proof.place.case,
        proof.place.dtype,
        proof.place.mesh,
        proof.place.mode,
        proof.place.direction,
    )
    return proof.place.pair, "-".join(words)


def _summary(proofs: Iterable[Finding]) -> str:
    """How many leaves of each pair come to what."""
    counts: dict[str, Counter[str]] = {}
    for proof in proofs:
        counts.setdefault(proof.place.pair, Counter())[_kind(proof)] += 1
    kinds = ("proved", "same formulas, one program", "same formulas", "different", "undecided")
    lines = [(pair, *(str(count[kind] or "") for kind in kinds)) for pair, count in counts.items()]
    total = sum(counts.values(), Counter())
    heads = ("proved", "same formulas, one program on one device", "same formulas", "different", "undecided")
    return markdown_table(("pair", *heads), [*lines, ("all", *(str(total[kind] or "") for kind in kinds))])


def _learned(proofs: Sequence[Finding]) -> str:
    """Say in a few sentences what the tables come to."""
    kinds = Counter(_kind(proof) for proof in proofs)
    decided = {proof.place.pair for proof in proofs if _kind(proof) != "undecided"}
    none = [pair for pair in dict.fromkeys(proof.place.pair for proof in proofs) if pair not in decided]
    one = kinds["same formulas, one program"]
    return (
        f"Of {len(proofs)} leaves, {kinds['proved']} have the same bits at every size and "
        f"{kinds['same formulas'] + one} are the same formulas ({one} of them one program on one device); "
        f"{kinds['different']} differ at some size, and {kinds['undecided']} are undecided. "
        f"Pairs of which nothing is shown: {', '.join(none) or 'none'}."
    )


def _kind(proof: Finding) -> str:
    if proof.ruling.verdict == "proved":
        return "proved"
    if proof.ruling.verdict == "rounding":
        return "same formulas" + (", one program" if proof.proof.family and proof.proof.family.one_program else "")
    return "different" if proof.ruling.verdict == "different" else "undecided"


def _groups(proofs: Iterable[Finding]) -> list[list[Finding]]:
    """Proofs of one leaf of a variant that come to the same."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for proof in proofs:
        groups.setdefault((proof.place.pair, proof.place.variant, leaf_words(proof), _kind(proof)), []).append(proof)
    return list(groups.values())


def _where(group: Sequence[Finding]) -> str:
    cases = ", ".join(dict.fromkeys(proof.place.case for proof in group))
    return f"{cases}; {', '.join(dict.fromkeys(proof.place.dtype for proof in group))}"


def _shown(proofs: Iterable[Finding]) -> Iterable[tuple[str, ...]]:
    for group in _groups(proofs):
        first = group[0]
        if first.ruling.verdict in ("proved", "rounding", "different") and first.proof.family is not None:
            yield (
                first.place.pair,
                first.place.variant,
                leaf_words(first),
                _where(group),
                _kind(first),
                first.proof.family.text,
            )


def _undecided(proofs: Iterable[Finding]) -> Iterable[tuple[str, ...]]:
    for group in _groups(proofs):
        first = group[0]
        if _kind(first) == "undecided":
            reason = (first.ruling.reason or "").replace(f"{ROOT}/", "")
            text = reason if len(reason) <= LONGEST else f"{reason[:LONGEST]}..."
            yield first.place.pair, first.place.variant, leaf_words(first), _where(group), text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
