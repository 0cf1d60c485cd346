"""The document of `samebits prove`, and its page: what was proved, how, under which assumptions, and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from samebits.host.environment import Environment
from samebits.interpret.field.residues import PRIMES
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.html.read_matrix import matrix_markup
from samebits.report.page import Badge, Block, Cell, CommandLine, Fold, Hypertext, Line, Lines, Page, Table, ValueList
from samebits.report.words import assumed_sentence, listed, plural, short_meshes, verdict_counts
from samebits.schema.assumption import Assumption, words_of
from samebits.schema.contract import leaf_words as words_of_leaf
from samebits.schema.finding import DEPENDENCE, Finding, exit_code
from samebits.schema.result import Problem

CAP = 8
"""How many leaves without a proof are explained in full per group; the rest is counted."""

TITLES = {
    "proved": "PROVED: the same bits for every input",
    "rounding": "SAME FORMULAS: only rounding can differ",
    "different": "REFUTED",
    "refused": "REJECTED AS EXPECTED: every side that must raises the documented error",
    "error": "NOT PROVED",
}

FOR_ALL = {
    "proved": "PROVED FOR ALL SIZES: the same bits for every input",
    "rounding": "SAME FORMULAS FOR ALL SIZES: only rounding can differ",
}
"""The titles where the proof is for all sizes of a family."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofDocument(CommandDocument):
    """Everything that a run of `samebits prove` found, as it is written to JSON.

    Args:
        results: one per leaf of each point.
        problems: pairs that could not be looked at.
        notes: pairs left out by the filters.
    """

    command: Literal["prove"] = "prove"
    environment: Environment
    results: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """Return 1 where a leaf is refuted; a wrong request takes precedence over what could not be decided."""
        return exit_code(self.results, self.problems, interrupted=self.interrupted)

    def as_findings(self) -> Sequence[Finding]:
        """Return what is judged."""
        return self.results

    def page(self) -> Page:
        """Return the proofs of one kind together, what is refuted or not proved first, each kind with its argument."""
        groups = sorted(proof_groups(self.results), key=_gravity)
        refuted = next((number for number, group in enumerate(groups) if _gravity(group) == 0), None)
        table = Table(
            heads=HEADS,
            rows=[_cells(group) for group in groups],
            title="Proofs",
            caption="Proofs by side and leaf, what is refuted or not proved first; the argument is folded below each",
            bad=[number for number, group in enumerate(groups) if _gravity(group) < 2],
            details={number: _argument(group, opened=number == refuted) for number, group in enumerate(groups)},
            media=("markdown", "html"),
        )
        pairs: dict[str, list[Finding]] = {}
        for proof in self.results:
            pairs.setdefault(proof.place.pair, []).append(proof)
        by_leaf = Lines(lines=_leaf_lines(pairs), short=Lines(lines=_pair_lines(pairs), cut=1), cut=1)
        every = [pair_block(pair, proofs) for pair, proofs in pairs.items()]
        assumed = assumed_sentence(self.results)
        return replace(
            usual_page(self),
            title=f"prove {listed([*pairs], 'pair', 3)}" if pairs else "",
            closing=closing(self),
            live=[Fold(title="", blocks=[*every, Lines(lines=[""])], short=by_leaf, media=("terminal",))],
            blocks=[table],
            notes=(*([] if assumed is None else [assumed]), *self.notes),
            hint="--verbose prints every proof with its method, its assumptions and its probability of an error",
        )


def title(proof: Finding) -> str:
    """Return what a proof comes to, and of which inputs where it is not of every one."""
    known = FOR_ALL if proof.proof.sizes == "all" else TITLES
    if proof.proof.method == DEPENDENCE:
        known = {**TITLES, "proved": "PROVED, whatever the values"}
    words = known.get(proof.ruling.verdict, proof.ruling.verdict)
    if proof.proof.sizes == "all" and proof.proof.family is not None and proof.proof.family.kept:
        words = words.replace("SIZES", f"SIZES WITH {proof.proof.family.kept_text}")
    if proof.proof.routing and proof.ruling.verdict in ("proved", "rounding"):
        words += f", for the values of {' and '.join(proof.proof.routing)} tried"
    return (
        f"{words} in this domain: {proof.proof.domain}"
        if proof.ruling.verdict == "proved" and proof.proof.domain
        else words
    )


def proof_groups(proofs: Iterable[Finding]) -> list[list[Finding]]:
    """Return the proofs of one kind together: the same side, leaf, verdict, method, domain and sizes that are kept."""
    groups: dict[tuple[str | bool | None, ...], list[Finding]] = {}
    for proof in proofs:
        key = (
            proof.place.pair,
            proof.place.variant,
            proof.place.direction,
            proof.place.leaf,
            proof.ruling.verdict,
            proof.proof.method,
            proof.proof.domain,
        )
        kept = proof.proof.family.kept_text if proof.proof.family is not None else ""
        groups.setdefault((*key, proof.ruling.exempt, kept), []).append(proof)
    return list(groups.values())


def leaf_words(proof: Finding) -> str:
    """Return the leaf of a proof: `out`, or `gradient of x`."""
    return words_of_leaf(proof.place.direction, proof.place.leaf)


def paragraphs(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    """Return the argument of the proofs of one kind: names of paragraphs with their text."""
    first = group[0]
    yield "where", where(group)
    if first.proof.family is not None:
        yield from _sizes(group)
    one_program = first.proof.family is not None and first.proof.family.one_program
    if first.proof.method == DEPENDENCE:
        yield "claim", str(first.ruling.evidence)
    if first.proof.method == DEPENDENCE and first.ruling.verdict == "proved":
        yield "method", "dependence: one interpretation follows which inputs each element is computed from"
    elif first.proof.method == "all sizes" and first.ruling.verdict == "proved" and one_program:
        yield "method", "one program with symbols for sizes: on one device both sides are compiled to the same program"
    elif first.proof.method == "all sizes" and first.ruling.verdict == "proved":
        yield "method", "labels with symbols for sizes: both sides put the same element into every place"
    elif first.proof.method == "all sizes" and first.ruling.verdict == "rounding":
        yield (
            "method",
            "formulas with symbols for sizes: equal by the laws of real arithmetic; rounding casts count as nothing"
            + ("; on one device one program, and so the same bits" if one_program else ""),
        )
    elif first.ruling.verdict == "proved":
        yield (
            "method",
            f"labels: both sides only move data; {_elements(group)}, each from the same element of the inputs",
        )
    elif first.ruling.verdict == "rounding":
        yield "method", _fields(group)
        yield "error", _probability(group)
        for text in dict.fromkeys(text for proof in group for text in proof.proof.constants):
            yield "constants", text
        yield from _rounding(group)
    elif first.ruling.verdict == "different":
        for number, line in enumerate(first.named.lines):
            yield "or" if number else "line", str(line)
        if first.named.why:
            yield "line", f"none named: {first.named.why}"
        yield "witness", str(first.proof.refutation)
        yield "replay", first.replay
    elif first.ruling.verdict == "error":
        for reason, count in Counter(proof.ruling.reason for proof in group).most_common(CAP):
            yield "why", f"{reason}" + (f" ({plural(count, 'leaf')})" if count > 1 else "")
    if first.ruling.verdict in ("proved", "rounding"):
        for words in _assumptions(group):
            yield "assumes", words
    yield from _contract(group)


def _sizes(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    """Return the families of shapes, each once."""
    for text in dict.fromkeys(
        proof.proof.family.text for proof in group if proof.proof.family is not None and proof.proof.family.shapes
    ):
        yield "sizes", text


def _contract(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    """Return what is required, and whether the proof reaches it; a known difference is under its exemption."""
    short, first = [proof for proof in group if not proof.ruling.ok], group[0]
    rungs = ", ".join(f"{rung} {count}" for rung, count in Counter(proof.ruling.required for proof in group).items())
    name = "exemption" if first.ruling.exempt else "contract"
    if not short:
        words = f"a known difference, as declared: {first.ruling.reason}" if first.ruling.exempt else "reached by proof"
        yield name, f"{rungs}: {words}"
    elif any(proof.refutes for proof in short):
        yield name, f"{rungs}: {first.ruling.reason if first.ruling.exempt else 'refuted'}"
    else:
        for why, count in Counter(_reason(proof) for proof in short).most_common(CAP):
            yield name, f"{rungs}: NOT reached by proof for {count} of {len(group)}; {why}"


def where(group: Sequence[Finding]) -> str:
    """Return the cases, dtypes, meshes and modes of proofs."""
    cases, dtypes, modes = (
        dict.fromkeys(getattr(proof.place, name) for proof in group) for name in ("case", "dtype", "mode")
    )
    meshes = short_meshes(dict.fromkeys(proof.place.mesh for proof in group))
    return f"{len(group)} x {' '.join(cases)}; {' '.join(dtypes)}; {meshes}; {' '.join(modes)}"


def _elements(group: Sequence[Finding]) -> str:
    return f"{sum(proof.comparison.elements for proof in group):,} elements"


def _fields(group: Sequence[Finding]) -> str:
    below = (1 << 50) - PRIMES[0]
    return (
        f"finite fields: {_elements(group)} are equal polynomials at random points of GF(p), p = 2^50 - {below}, "
        "whatever the order of sums; rounding casts count as nothing"
    )


def _probability(group: Sequence[Finding]) -> str:
    worst = max(group, key=lambda proof: proof.proof.log2_error or -1e9)
    if worst.proof.log2_error is None:
        return "none: only constants are compared"
    unknown = ", ".join(f"{name} ({count} calls)" for name, count in worst.proof.unknown.items())
    words = (
        f"at most 2^{worst.proof.log2_error:.0f} that different formulas agree by accident (Schwartz-Zippel: degree "
    )
    words += f"{worst.proof.degree}, {plural(worst.proof.points, 'point')}"
    return words + (f"; taken as random functions: {unknown})" if unknown else ")")


def _rounding(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    bounded = [
        proof
        for proof in group
        if proof.accuracy.bound_optimized is not None and proof.accuracy.bound_reference is not None
    ]
    if not bounded:
        return
    worst = max((proof.accuracy for proof in bounded), key=lambda errors: errors.bound_optimized or 0.0)
    likely = "" if worst.likely is None else f", likely {worst.likely:.2g}"
    most = "" if worst.loses_most is None else f"; most can be lost by {worst.loses_most}"
    sides = f"{worst.bound_optimized:.2g} of the largest value (the reference {worst.bound_reference:.2g})"
    yield "rounding", f"at most {sides}{likely}{most}"


def _assumptions(group: Sequence[Finding]) -> Iterable[str]:
    """Yield each assumption with how it could be false; of one kind the first, as they name lines of a case."""
    kinds: dict[str, dict[str, Assumption]] = {}
    for proof in group:
        for taken in proof.proof.assumptions:
            kinds.setdefault(taken.word, {})[taken.text] = taken
    for alike in kinds.values():
        more = f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else ""
        yield f"{next(iter(alike.values()))}{more}"


def _reason(proof: Finding) -> str:
    if proof.ruling.verdict == "rounding" and proof.ruling.reason is None:
        return "equal formulas do not make equal bits: `samebits check` runs both sides"
    return proof.ruling.reason or "`samebits check` runs both sides"


def closing(document: ProofDocument) -> str:
    """Write one sentence for all pairs."""
    counts = Counter(proof.ruling.verdict for proof in document.results)
    words = verdict_counts(counts).replace("rounding", "same formulas").replace("error", "not proved")
    total = len(document.results)
    reached = sum(proof.ruling.ok for proof in document.results)
    noun = "property" if all(proof.proof.method == DEPENDENCE for proof in document.results) and total else "leaf"
    state = f"{reached} of {total} {plural(2, noun)[2:]} reach their contract by proof"
    if reached == total and not (document.problems or document.interrupted):
        state = f"every {noun} reaches its contract by proof"
    count = plural(total, noun)
    return f"{count}: {words or 'nothing'}; {document.seconds:.1f} s; {state}"


BADGES = {
    "proved": Badge(text="proved", sign="◆", tone="good"),
    "rounding": Badge(text="same formulas", sign="≈", tone="warn"),
    "different": Badge(text="REFUTED", sign="≠", tone="bad"),
    "refused": Badge(text="rejected as expected", sign="⊘", tone="good"),
    "error": Badge(text="NOT PROVED", sign="!", tone="bad"),
}
"""What a proof comes to, in few words."""


def _badge(proof: Finding) -> Badge:
    verdict = proof.ruling.verdict
    return BADGES.get(verdict, Badge(text=verdict, sign="≠"))


def few_words(proof: Finding) -> str:
    """Return what a proof comes to, in few words: whether for all sizes, and the kinds of what it assumes."""
    kept = proof.proof.family.kept_text if proof.proof.family is not None else ""
    taken = words_of(proof.proof.assumptions) if proof.ruling.verdict in ("proved", "rounding") else ""
    return _in_words(proof, f" with {kept}" if kept else "") + (f", assuming {taken}" if taken else "")


def _counted_words(proof: Finding) -> str:
    """Return the same without the sizes that are kept, which may be others in each case."""
    kept = proof.proof.family is not None and proof.proof.family.kept
    return _in_words(proof, " (some as declared)" if kept else "")


def _in_words(proof: Finding, kept: str) -> str:
    words = _badge(proof).text
    return f"{words} for all sizes{kept}" if proof.proof.sizes == "all" else words


HEADS = ("pair", "variant", "leaf", "by proof", "where", "required", "reached", "error probability")

LEAVES = 60
"""Proofs of one kind in a table; JSON has all of them."""


def _gravity(group: Sequence[Finding]) -> int:
    """Return 0 of what is refuted, 1 of what does not reach its contract, 2 of the rest."""
    return 0 if any(proof.refutes for proof in group) else 1 if any(not proof.ruling.ok for proof in group) else 2


def pair_block(pair: str, proofs: Sequence[Finding]) -> Fold:
    """Return the proofs of a pair with their arguments, those of one kind together, for a terminal."""
    blocks: list[Block] = []
    for group in proof_groups(proofs):
        first = group[0]
        head = Line(f"  {first.place.variant}, {leaf_words(first)}: {title(first)}", _badge(first).tone)
        blocks += [Lines(lines=[head]), ValueList(rows=[*paragraphs(group)], indent=4, least=9)]
    return Fold(title=pair, blocks=blocks)


def _leaf_lines(pairs: Mapping[str, Sequence[Finding]]) -> list[str | Line]:
    """Return a line for each leaf of a side."""
    lines: list[str | Line] = []
    for pair, proofs in pairs.items():
        lines += ["", Line(pair, "strong")]
        for group in proof_groups(proofs):
            first, short = group[0], sum(not proof.ruling.ok for proof in group)
            below = f"; {short} of {len(group)} below the contract" if short else ""
            text = f"  {first.place.variant}, {leaf_words(first)}: {few_words(first)}: {where(group)}{below}"
            lines.append(Line(text, "" if _gravity(group) else "bad"))
    return [*lines, ""]


def _pair_lines(pairs: Mapping[str, Sequence[Finding]]) -> list[str | Line]:
    """Return a line for each pair."""
    lines: list[str | Line] = [""]
    for pair, proofs in pairs.items():
        short = sum(not proof.ruling.ok for proof in proofs)
        words = ", ".join(f"{word} {count}" for word, count in Counter(map(_counted_words, proofs)).items())
        below = f"; {short} below the contract" if short else ""
        text = f"{pair}: {plural(len(proofs), 'leaf')}: {words}{below}"
        lines.append(Line(text, "" if _gravity(proofs) else "bad"))
    return [*lines, ""]


def _cells(group: Sequence[Finding]) -> list[Cell]:
    first = group[0]
    required = Counter(proof.ruling.required for proof in group)
    errors = [proof.proof.log2_error for proof in group if proof.proof.log2_error is not None]
    reached = sum(proof.ruling.ok for proof in group)
    return [
        first.place.pair,
        first.place.variant,
        leaf_words(first),
        replace(_badge(first), text=few_words(first)),
        where(group),
        " ".join(f"{rung} {count}" for rung, count in required.items()),
        "yes" if reached == len(group) else f"{reached} of {len(group)}",
        f"2^{max(errors):.0f}" if errors else "",
    ]


def _argument(group: Sequence[Finding], *, opened: bool) -> Fold:
    """Return the argument of the proofs of one kind, everything that it assumes, and each proof."""
    first, short = group[0], [proof for proof in group if not proof.ruling.ok]
    replay = (next(iter(short), None) or first).replay
    # Assumptions are a table of their own, each with how it could be false.
    facts = [(name, text) for name, text in paragraphs(group) if name not in ("where", "assumes", "replay")]
    assumed = {(each.word, each.text): each.false_where for proof in group for each in proof.proof.assumptions}
    shown = [*short, *(proof for proof in group if proof.ruling.ok)][:LEAVES]
    more = f"; {len(group) - LEAVES} more in the JSON document" if len(group) > LEAVES else ""
    blocks: list[Block] = [
        ValueList(rows=facts),
        *_matrix(next(iter(short), first)),
        *([CommandLine(text=replay)] if replay else []),
        Table(
            heads=("kind", "assumed", "false where"),
            rows=[(*named, false_where) for named, false_where in assumed.items()],
            caption="Assumptions of the proof",
        ),
        Table(
            heads=("case", "dtype", "mesh", "mode", "required", "by proof", "elements", "error probability", "remark"),
            rows=[_leaf_cells(proof) for proof in shown],
            caption=f"Every leaf{more}",
            bad=range(min(len(short), LEAVES)),
            right=("elements",),
            wide=("remark",),
        ),
    ]
    name = f"{first.place.pair}/{first.place.variant}, {leaf_words(first)}: {title(first)}"
    return Fold(title=name, blocks=blocks, open=opened, media=("html",))


def _matrix(proof: Finding) -> Iterable[Block]:
    if (reads := proof.proof.reads) is not None:
        yield Hypertext(draw=lambda: matrix_markup(reads, f"what each output reads, {proof.place.direction}"))


def _leaf_cells(proof: Finding) -> list[Cell]:
    place, error = proof.place, proof.proof.log2_error
    reached = Badge(text="reached", sign="✓", tone="good")
    return [
        *(place.case, place.dtype, place.mesh, place.mode, proof.ruling.required),
        reached if proof.ruling.ok else Badge(text="not reached", sign="✗", tone="bad"),
        str(proof.comparison.elements),
        "" if error is None else f"2^{error:.0f}",
        proof.proof.refutation or proof.ruling.reason or proof.named.why or "",
    ]
