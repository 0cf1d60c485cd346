"""Shows proofs in a terminal and a pull request: what was proved, how, under which assumptions, and what was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.console import Console

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.interpret.field.residues import PRIMES
from samebits.report.causes.groups import without_numbers
from samebits.report.document import SCHEMA
from samebits.report.failing import Failing, next_lines, opening, shortened
from samebits.report.markdown_fit import Rows, escaped, fitted, table_rows
from samebits.report.screen import Form, Styled, cut, in_turn, show_fitted
from samebits.report.tables import line
from samebits.report.words import assumed_sentence, listed, plural, short_meshes, state_of, verdict_counts
from samebits.schema.assumption import Assumption, words_of
from samebits.schema.contract import leaf_words as words_of_leaf
from samebits.schema.finding import Finding, exit_code
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

_STYLES = {
    "proved": "bold green",
    "refused": "bold green",
    "rounding": "bold yellow",
    "different": "bold red",
    "error": "bold red",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProofDocument:
    """Everything that a run of `samebits prove` found, as it is written to JSON.

    Args:
        results: one per leaf of each point.
        problems: pairs that could not be looked at.
        notes: pairs left out by the filters.
    """

    schema: Literal["samebits/2"] = SCHEMA
    command: Literal["prove"] = "prove"
    environment: Environment
    results: tuple[Finding, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    written: Written | None = None


def show_pair(to: Console, pair: str, arguments: Sequence[Finding]) -> None:
    """The proofs of a pair, those of one kind together."""
    if not arguments:
        return
    line(to)
    line(to, pair, "bold")
    for group in proof_groups(arguments):
        first = group[0]
        what = leaf_words(first)
        line(to, f"  {first.place.variant}, {what}: {title(first)}", _STYLES.get(first.ruling.verdict, ""))
        for name, text in paragraphs(group):
            line(to, f"    {name:<10} {text}")


def title(proof: Finding) -> str:
    """What a proof comes to, and of which inputs where it is not of every one."""
    known = FOR_ALL if proof.proof.sizes == "all" else TITLES
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
    """The proofs of one kind together: the same side, leaf, verdict, method, domain and sizes that are kept."""
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
    """The leaf of a proof: `out`, or `gradient of x`."""
    return words_of_leaf(proof.place.direction, proof.place.leaf)


def paragraphs(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    """The argument of the proofs of one kind: names of paragraphs with their text.

    Args:
        group: at least one proof, as `proof_groups` gives them.
    """
    first = group[0]
    yield "where", where(group)
    if first.proof.family is not None:
        yield from _sizes(group)
    one_program = first.proof.family is not None and first.proof.family.one_program
    if first.proof.method == "all sizes" and first.ruling.verdict == "proved" and one_program:
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
    """The families of shapes, each once."""
    for text in dict.fromkeys(
        proof.proof.family.text for proof in group if proof.proof.family is not None and proof.proof.family.shapes
    ):
        yield "sizes", text


def _contract(group: Sequence[Finding]) -> Iterable[tuple[str, str]]:
    """What is required, and whether the proof reaches it; a known difference is under its exemption."""
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
    """The cases, dtypes, meshes and modes of proofs."""
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
    """Each assumption with how it could be false; of one kind the first, as they name lines and numbers of a case."""
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


def all_reached(document: ProofDocument) -> bool:
    """Whether every leaf reaches its contract by proof."""
    return all(proof.ruling.ok for proof in document.results) and not (document.problems or document.interrupted)


def closing(document: ProofDocument) -> str:
    """One sentence for all pairs."""
    counts = Counter(proof.ruling.verdict for proof in document.results)
    words = verdict_counts(counts).replace("rounding", "same formulas").replace("error", "not proved")
    total = len(document.results)
    state = "every leaf reaches its contract by proof"
    if not all_reached(document):
        reached = sum(proof.ruling.ok for proof in document.results)
        state = f"{reached} of {total} leaves reach their contract by proof"
    count = plural(total, "leaf")
    return f"{count}: {words or 'nothing'}; {document.seconds:.1f} s; {state}"


def failing_proofs(document: ProofDocument) -> list[Failing]:
    """The groups, refuted proofs before others and large groups before small ones."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for proof in document.results:
        if not proof.ruling.ok:
            groups.setdefault(_key(proof), []).append(proof)
    ordered = sorted(_joined(groups).values(), key=lambda group: (not group[0].refutes, -len(group)))
    return [_failing(group, document.results) for group in ordered]


def _key(proof: Finding) -> tuple[str, ...]:
    if not proof.refutes:
        return ("not proved", proof.place.pair, proof.ruling.verdict, without_numbers(proof.ruling.reason or ""))
    if proof.named.lines:  # sides, and pairs, may call one function: the line alone is the cause
        return ("refuted", str(proof.named.lines[0].variant or proof.named.lines[0].reference))
    return ("refuted", proof.place.pair, proof.place.variant, without_numbers(proof.ruling.reason or ""))


def _joined(groups: dict[tuple[str, ...], list[Finding]]) -> dict[tuple[str, ...], list[Finding]]:
    """The same groups, where refuted proofs without a named line join the only line that is named of their side."""
    named: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for key, group in groups.items():
        for proof in group:
            if proof.refutes and proof.named.lines:
                named.setdefault((proof.place.pair, proof.place.variant), set()).add(key)
    joined: dict[tuple[str, ...], list[Finding]] = {key: [] for key in groups}
    for key, group in groups.items():
        for proof in group:
            of_side = (
                named.get((proof.place.pair, proof.place.variant), set())
                if proof.refutes and not proof.named.lines
                else set()
            )
            joined[next(iter(of_side)) if len(of_side) == 1 else key].append(proof)
    return {key: group for key, group in joined.items() if group}


def _failing(group: Sequence[Finding], every: Iterable[Finding]) -> Failing:
    first = group[0]
    sides = dict.fromkeys((proof.place.pair, proof.place.variant) for proof in group)
    beside = sum((proof.place.pair, proof.place.variant) in sides for proof in every)
    pairs = list(dict.fromkeys(pair for pair, _ in sides))
    whose = f"{pairs[0]} ({', '.join(side for _, side in sides)})" if len(pairs) == 1 else listed(pairs, "pair")
    if len(sides) == 1:
        whose = f"{first.place.pair}/{first.place.variant}"
    words = "refuted" if first.refutes else "not proved" if first.ruling.verdict == "error" else "below the contract"
    place = f"{leaf_words(first)}, {first.place.where()}"
    return Failing(
        title=f"{whose}: {len(group)} of {plural(beside, 'leaf')} {words}",
        likely=_likely(first),
        where=_where(group),
        example=f"{place}: {first.proof.refutation}" if first.proof.refutation else place,
        next_command=_next(first),
    )


def _likely(proof: Finding) -> str:
    if proof.refutes:
        if proof.named.lines:
            return f"another computation: {proof.named.lines[0]}"
        return proof.ruling.reason or "another computation, and no line is named"
    if proof.ruling.reason is None and proof.ruling.verdict == "rounding":
        return "the formulas are equal, which does not make the bits equal; a check runs both sides"
    return proof.ruling.reason or "proof alone does not decide; a check runs both sides"


def _where(group: Sequence[Finding]) -> str:
    cases, dtypes, named = (
        list(dict.fromkeys(values))
        for values in (
            (proof.place.case for proof in group),
            (proof.place.dtype for proof in group),
            (leaf_words(proof) for proof in group),
        )
    )
    meshes = short_meshes(dict.fromkeys(proof.place.mesh for proof in group))
    return "; ".join((listed(named, "leaf"), listed(cases, "case"), *dtypes, meshes))


def _next(proof: Finding) -> str | None:
    """The refuted proof again; of what is not proved, the check that runs both sides."""
    if proof.refutes or "--no-assumptions" in proof.replay:
        return proof.replay or None
    return run_of(proof.replay) or None


def run_of(replay: str) -> str:
    """The command that runs what a command proves: both sides of a pair, or of two functions.

    Args:
        replay: of a proof.
    """
    if " --arg " in replay:
        return replay.replace("samebits prove ", "samebits compare ", 1).removesuffix(" --all-sizes")
    return replay.replace("samebits prove ", "samebits check ", 1)


WORDS = {
    "proved": "proved",
    "rounding": "same formulas",
    "different": "REFUTED",
    "refused": "rejected as expected",
    "error": "NOT PROVED",
}
"""What a proof comes to, in few words."""


def few_words(proof: Finding) -> str:
    """What a proof comes to, in few words: whether for all sizes, and the kinds of what it assumes."""
    kept = proof.proof.family.kept_text if proof.proof.family is not None else ""
    taken = words_of(proof.proof.assumptions) if proof.ruling.verdict in ("proved", "rounding") else ""
    return _in_words(proof, f" with {kept}" if kept else "") + (f", assuming {taken}" if taken else "")


def _counted_words(proof: Finding) -> str:
    """The same without the sizes that are kept, which may be others in each case."""
    kept = proof.proof.family is not None and proof.proof.family.kept
    return _in_words(proof, " (some as declared)" if kept else "")


def _in_words(proof: Finding, kept: str) -> str:
    words = WORDS.get(proof.ruling.verdict, proof.ruling.verdict)
    return f"{words} for all sizes{kept}" if proof.proof.sizes == "all" else words


NOTES = 3

HINT = "--verbose prints every proof with its method, its assumptions and its probability of an error"


def show_proofs(to: Console, document: ProofDocument, *, verbose: bool = False) -> None:
    """The end of the report.

    Args:
        to: where it is printed.
        document: of the proofs.
        verbose: whether every proof has been shown already; else it is now, as far as it fits on one screen.
    """
    failing = failing_proofs(document)
    end = [*_end(document), *next_lines(failing)]
    if verbose:
        for text, style in [("", ""), *end]:
            line(to, text, style)
        return
    few = shortened(failing)
    forms: list[Form] = [_every(document)]
    forms += [in_turn(_groups(document), few[0])]
    forms += [in_turn(_pairs(document), form) for form in few]
    forms += few
    show_fitted(to, forms, end, HINT)


def _every(document: ProofDocument) -> Form:
    def form(to: Console) -> None:
        for pair, proofs in _by_pair(document).items():
            show_pair(to, pair, proofs)
        line(to)

    return form


def _groups(document: ProofDocument) -> Form:
    """A line for each leaf of a side."""

    def form(to: Console) -> None:
        for pair, proofs in _by_pair(document).items():
            line(to)
            line(to, pair, "bold")
            for group in proof_groups(proofs):
                first, short = group[0], sum(not proof.ruling.ok for proof in group)
                words = f"{few_words(first)}: {where(group)}"
                below = f"; {short} of {len(group)} below the contract" if short else ""
                text = f"  {first.place.variant}, {leaf_words(first)}: {words}{below}"
                line(to, cut(text, to.width), "bold red" if any(proof.refutes for proof in group) else "")
        line(to)

    return form


def _pairs(document: ProofDocument) -> Form:
    """A line for each pair."""

    def form(to: Console) -> None:
        line(to)
        for pair, proofs in _by_pair(document).items():
            counts = Counter(map(_counted_words, proofs))
            short = sum(not proof.ruling.ok for proof in proofs)
            words = ", ".join(f"{word} {count}" for word, count in counts.items())
            below = f"; {short} below the contract" if short else ""
            text = f"{pair}: {plural(len(proofs), 'leaf')}: {words}{below}"
            line(to, cut(text, to.width), "bold red" if any(proof.refutes for proof in proofs) else "")
        line(to)

    return form


def _by_pair(document: ProofDocument) -> dict[str, Sequence[Finding]]:
    pairs: dict[str, list[Finding]] = {}
    for proof in document.results:
        pairs.setdefault(proof.place.pair, []).append(proof)
    return {**pairs}


def _end(document: ProofDocument) -> list[Styled]:
    """Notes, and one sentence for all pairs."""
    lines = [(note, "") for note in document.notes[:NOTES]]
    if len(document.notes) > NOTES:
        lines.append((f"and {plural(len(document.notes) - NOTES, 'more note')}; --json FILE has all", ""))
    lines += [(text, "") for text in [assumed_sentence(document.results)] if text is not None]
    lines.append((closing(document), "bold green" if all_reached(document) else "bold yellow"))
    return lines


HEADS = ("pair", "variant", "leaf", "by proof", "where", "required", "reached", "error probability")


def proved_markdown(document: ProofDocument) -> str:
    """The document as Markdown of at most 60 lines: what came out, the worst failures, a row per leaf of a side."""
    code = exit_code(document.results, document.problems, interrupted=document.interrupted)
    parts = opening(f"prove: {state_of(code)}", closing(document), failing_proofs(document), document.problems)
    groups = proof_groups(document.results)
    bad = [number for number, group in enumerate(groups) if any(not proof.ruling.ok for proof in group)]
    if groups:
        parts.append(replace(table_rows("Proofs", HEADS, [_row(group) for group in groups], bad), opened=False))
    if document.notes:
        parts.append(Rows(title="Notes", rows=[f"- {escaped(note)}" for note in document.notes]))
    parts.append(escaped("; ".join(document.environment.lines())))
    return fitted(parts)


def _row(group: Sequence[Finding]) -> tuple[str, ...]:
    first = group[0]
    required = Counter(proof.ruling.required for proof in group)
    errors = [proof.proof.log2_error for proof in group if proof.proof.log2_error is not None]
    reached = sum(proof.ruling.ok for proof in group)
    return (
        first.place.pair,
        first.place.variant,
        leaf_words(first),
        few_words(first),
        where(group),
        " ".join(f"{rung} {count}" for rung, count in required.items()),
        "yes" if reached == len(group) else f"{reached} of {len(group)}",
        f"2^{max(errors):.0f}" if errors else "",
    )
