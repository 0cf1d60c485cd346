"""The sides of one compiled case beside each other: figures, claims, and where their programs first differ.

If both sides compile to the same program, the verdict is `proved`: on that target, they give equal bits for every input
of these shapes.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from samebits.compile.compiler import CompiledProgram
from samebits.errors import CouldNotRun, SamebitsError
from samebits.hlo.canonical import entry_arguments, instruction_digests, is_inline
from samebits.hlo.counts import difference
from samebits.hlo.module import HloComputation, HloModule, Instruction, config
from samebits.hlo.printed import PrintedModule
from samebits.schema.case import Refusal
from samebits.schema.compile_statement import NUMBERS, Claim
from samebits.schema.program_facts import (
    ClaimResult,
    CompiledSide,
    OptionEffect,
    ProgramIdentity,
    ProgramRegion,
    RegionLevel,
    RegionLine,
    SideBySide,
    ratio,
)
from samebits.schema.real_size import RealSize
from samebits.user_errors import one_line

_REFUSED = "refused: {}"
"""The text of an expected compiler error among the claims."""

MOST = 6
"""How many changed operations a reason lists."""


def compare_sides(
    reference: CompiledSide,
    variant: CompiledSide,
    all_sides: Mapping[str, CompiledSide],
    claims: Sequence[Claim],
    *,
    other_outputs: str | None = None,
) -> SideBySide:
    """Compare a variant with its reference: whether the programs are the same, ratios of figures, and claims.

    Args:
        all_sides: every side of that case and direction, for claims that name another side.
        other_outputs: what the variant returns otherwise, in words, such as another tree; None for the same types.
    """
    same, ordered = variant.unordered == reference.unordered, variant.program == reference.program
    # Options can affect machine code below the HLO: with xla_cpu_enable_fast_math XLA:CPU divides differently.
    alike = variant.options == reference.options
    operations = difference(reference.operations, variant.operations)
    figures = {side: _figures(program) for side, program in all_sides.items()}
    judged = [
        _judged(claim, figures, variant.side, reference.side)
        for claim in claims
        # A claim that names a side which was not asked for has nothing to be held against.
        if claim.shows.side in (None, "reference", *all_sides)
        # What is said of every variant is not said of the reference; of it only what names it.
        and (variant.side != reference.side or claim.variant == reference.side)
        and claim.speaks_of(
            variant=variant.side, direction=variant.direction, target=variant.target, version=variant.compiler
        )
    ]
    return SideBySide(
        pair=variant.pair,
        variant=variant.side,
        reference=reference.side,
        case=variant.case,
        dtype=variant.dtype,
        mesh=variant.mesh,
        direction=variant.direction,
        target=variant.target,
        same_program=same,
        same_order=ordered,
        verdict="proved" if ordered and alike and other_outputs is None and variant.side != reference.side else None,
        reason="the reference itself"
        if variant.side == reference.side
        else f"the same program, but {other_outputs}"
        if ordered and other_outputs is not None
        else _reason(same, ordered, alike, operations),
        temp_ratio=ratio(variant.temp_bytes, reference.temp_bytes),
        peak_ratio=ratio(variant.peak_bytes, reference.peak_bytes),
        bytes_ratio=ratio(variant.bytes_accessed, reference.bytes_accessed),
        wire_ratio=ratio(variant.wire_bytes, reference.wire_bytes),
        operations=operations,
        expectations=tuple(judged),
    )


def expected_error(which: ProgramIdentity, reference: str, refusal: Refusal, words: str) -> SideBySide:
    """Return the comparison of a side whose options the compiler rejected, as the declaration expects."""
    matches = re.search(refusal.match, words) is not None
    judged = ClaimResult(
        shows=_REFUSED.format(refusal.match), source="declared", finding=None, holds=matches, ok=matches, got=words
    )
    return SideBySide(
        pair=which.pair,
        variant=which.side,
        reference=reference,
        case=which.case,
        dtype=which.dtype,
        mesh=which.mesh,
        direction=which.direction,
        target=which.target,
        same_program=False,
        same_order=False,
        verdict="refused" if matches else None,
        reason=f"refused by the compiler: {words}",
        temp_ratio=None,
        peak_ratio=None,
        bytes_ratio=None,
        wire_ratio=None,
        operations={},
        expectations=(judged,),
    )


def missing_error(refusal: Refusal) -> ClaimResult:
    """Return the failed claim of an expected compiler error, for a compiler that accepted the options."""
    shows = _REFUSED.format(refusal.match)
    return ClaimResult(shows=shows, source="declared", finding=None, holds=False, ok=False, got="it compiled")


def option_effect(without: CompiledSide, with_options: CompiledSide) -> OptionEffect:
    """Return the effect of compiler options on a program: the figures that changed."""
    first, second = _figures(without), _figures(with_options)
    changed = [name for name in first if first[name] != second[name] and name != "program"]
    return OptionEffect(
        pair=with_options.pair,
        side=with_options.side,
        case=with_options.case,
        direction=with_options.direction,
        target=with_options.target,
        options=with_options.options,
        changed=without.program != with_options.program,
        before={name: first[name] for name in changed},
        after={name: second[name] for name in changed},
        operations=difference(without.operations, with_options.operations),
    )


def _figures(program: CompiledSide) -> dict[str, Any]:
    return {name: getattr(program, name) for name in (*NUMBERS, "collectives", "program")}


def _reason(same: bool, ordered: bool, alike: bool, operations: Mapping[str, Sequence[int]]) -> str:
    if ordered:
        return "same program" if alike else "same program with other options, which may move bits in machine code"
    if same:
        return "the same program but for the order of operands of commutative operations, which can move the last bit"
    listed = ", ".join(f"{name} {counts[0]} -> {counts[1]}" for name, counts in list(operations.items())[:MOST])
    more = len(operations) - MOST
    if not listed:
        return "another program: the same operations, differently connected, shaped or configured"
    return f"another program: {listed}" + (f", {more} more" if more > 0 else "")


def _judged(claim: Claim, figures: Mapping[str, Mapping[str, Any]], variant: str, reference: str) -> ClaimResult:
    holds, got = claim.shows.judge(figures, variant, reference)
    ok = holds is True if claim.finding is None else holds is False
    return ClaimResult(shows=str(claim.shows), source=claim.source, finding=claim.finding, holds=holds, ok=ok, got=got)


# Finds where two compiled programs first differ: instructions of both optimised modules, side by side.
ENTRY = "entry computation"

BEFORE, AFTER = 4, 2
"""Equal instructions that are shown before the first difference, and after the last one that is shown."""

IN_REGION = 16
"""Instructions of each side in a region, the equal ones before it included."""

WIDEST = 240
"""Characters of an instruction; of a longer one the middle is left out, mostly shapes, and the attributes stay."""


def first_difference(reference: CompiledProgram, variant: CompiledProgram) -> ProgramRegion | None:
    """Return the first differing region of two optimised modules; None where every instruction has its equal.

    Raises:
        CouldNotRun: a module cannot be read.
    """
    return _first_region(MatchedComputations(_entry(reference), _entry(variant)), ENTRY, ())


def _entry(program: CompiledProgram) -> SideComputation:
    module = HloModule(program.module)
    side = ModuleSide(module, PrintedModule(_printed(program.module)))
    return SideComputation(side, module.entry, entry_arguments(module, program.taken), program.taken)


def _printed(serialised: bytes) -> str:
    """Return a module as XLA prints it."""
    try:
        text: str = _module_class().from_serialized_hlo_module_proto(serialised).to_string()
    except Exception as error:
        raise CouldNotRun(f"jaxlib cannot print the compiled program: {one_line(error)}") from error
    return text


@functools.cache
def _module_class() -> Any:
    """Return XLA's class of modules: jax has no public name for it, only instances."""
    import jax

    executable: Any = jax.jit(lambda x: x).lower(jax.ShapeDtypeStruct((), "float32")).compile().runtime_executable()
    return type(executable.hlo_modules()[0])


def _first_region(computations: MatchedComputations, name: str, outer: tuple[RegionLevel, ...]) -> ProgramRegion | None:
    """Return the innermost region that holds the first difference of two computations."""
    levels = (*outer, level(computations, name))
    reference, variant = computations.only
    if not reference and not variant:
        return None
    if reference and variant:
        for inner, inner_name in _called(computations, reference[0], variant[0]):
            innermost = _first_region(inner, inner_name, levels)
            if innermost is not None:
                return innermost
    return region(computations, levels)


def _called(
    computations: MatchedComputations, first: Instruction, second: Instruction
) -> Iterator[tuple[MatchedComputations, str]]:
    """Yield the computations that two instructions call, side by side, where the two differ in nothing before them."""
    a, b = computations.sides
    operands = [[side.digests[number] for number in inst.operand_ids] for side, inst in ((a, first), (b, second))]
    inline = is_inline(a.side.module, first) and is_inline(b.side.module, second)
    # What a fusion calls takes its operands in any order.
    alike = sorted(operands[0]) == sorted(operands[1]) if inline else operands[0] == operands[1]
    if first.opcode != second.opcode or not alike:
        return
    for number, beside in zip(first.called_computation_ids, second.called_computation_ids, strict=False):
        arguments = [dict(enumerate(values)) if inline else None for values in operands]
        inner = MatchedComputations(
            SideComputation(a.side, number, arguments[0]), SideComputation(b.side, beside, arguments[1])
        )
        yield inner, f"{_role(first, a.side.module, number)}{computations.name(first)}"


def _role(instruction: Instruction, module: HloModule, number: int) -> str:
    """Return what a called computation is to the instruction that calls it."""
    if instruction.opcode != "while":
        return ""
    called = module.computations[number]
    shape = called.instructions[called.root].shape
    return "condition of " if shape.element_type == 1 and not shape.dimensions else "body of "


class ModuleSide:
    """One of the two modules."""

    def __init__(self, module: HloModule, printed: PrintedModule) -> None:
        self.module, self.printed = module, printed
        self._contents: dict[str, str] = {}
        self._numbers = {computation.name: number for number, computation in module.computations.items()}

    def contents(self, name: str) -> str:
        """Return a called computation by a digest of what it computes; another name as it is."""
        if name not in self._numbers:
            return name
        if name not in self._contents:
            number = self._numbers[name]
            digests = instruction_digests(self.module, number)
            root = self.module.computations[number].root
            self._contents[name] = f"<{digests[root].hex()[:6]}>"
        return self._contents[name]


class SideComputation:
    """One computation of one module, its instructions in the order of dependence.

    Args:
        arguments: digests that its parameters stand for; None where they stand for themselves.
        taken: of the entry computation, which arguments of the function the parameters are; else None.
    """

    def __init__(
        self,
        side: ModuleSide,
        number: int,
        arguments: Mapping[int, bytes] | None = None,
        taken: tuple[int, ...] | None = None,
    ) -> None:
        self.side, self.taken = side, taken
        self.computation = side.module.computations[number]
        self.digests = instruction_digests(side.module, number, arguments)
        self.order = _by_dependence(self.computation)

    def key(self, instruction: Instruction) -> tuple[bytes, bool]:
        """Return a key that instructions share where they compute the same; the result is apart from other values."""
        return self.digests[instruction.id], instruction.id == self.computation.root


def _by_dependence(computation: HloComputation) -> list[Instruction]:
    """Order parameters, then operands before what uses them, beginning with what the result needs first.

    The schedule has no part in it: it is another one wherever anything differs.
    """
    parameters = [inst for inst in computation.instructions.values() if inst.opcode == "parameter"]
    ordered = {inst.id: inst for inst in sorted(parameters, key=lambda inst: int(inst.parameter_number))}
    unused = [number for number in computation.instructions if number != computation.root]
    waiting = [*reversed(unused), computation.root]
    while waiting:
        instruction = computation.instructions[waiting[-1]]
        missing = [number for number in instruction.operand_ids if number not in ordered]
        if missing:
            waiting += reversed(missing)
        else:
            ordered.setdefault(waiting.pop(), instruction)
    return list(ordered.values())


class MatchedComputations:
    """Two computations with their equal instructions matched, and names that both sides share."""

    def __init__(self, reference: SideComputation, variant: SideComputation) -> None:
        self.sides = reference, variant
        places: dict[tuple[bytes, bool], deque[Instruction]] = defaultdict(deque)
        for instruction in reference.order:
            places[reference.key(instruction)].append(instruction)
        self.partners: dict[int, int] = {}
        """The id of a variant's instruction, and that of its equal."""
        for instruction in variant.order:
            if same := places[variant.key(instruction)]:
                self.partners[instruction.id] = same.popleft().id
        self.matched = frozenset(self.partners.values())
        self.only = (
            [instruction for instruction in reference.order if instruction.id not in self.matched],
            [instruction for instruction in variant.order if instruction.id not in self.partners],
        )
        self._names = self._shared_names()

    def _shared_names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Name instructions by opcode and number: equal ones share a name, others have one that nothing else has."""
        numbers: Counter[str] = Counter()
        by_id: tuple[dict[int, str], dict[int, str]] = {}, {}
        for side, ids in zip(self.sides, by_id, strict=True):
            for instruction in side.order:
                partner = self.partners.get(instruction.id) if side is self.sides[1] else None
                if partner is not None:
                    ids[instruction.id] = by_id[0][partner]
                elif instruction.opcode == "parameter":
                    ids[instruction.id] = _parameter_name(side, instruction)
                else:
                    numbers[instruction.opcode] += 1
                    ids[instruction.id] = f"{instruction.opcode}.{numbers[instruction.opcode]}"
        first, second = (
            {instruction.name: ids[instruction.id] for instruction in side.order}
            for side, ids in zip(self.sides, by_id, strict=True)
        )
        return first, second

    def name(self, instruction: Instruction) -> str:
        """Return the name of an instruction of the reference."""
        return self._names[0][instruction.name]

    def text(self, place: int, instruction: Instruction) -> str:
        """Return the line of an instruction of one side, cut where it is long."""
        side, names = self.sides[place].side, self._names[place]
        line = side.printed.text(instruction.name, lambda name: names.get(name) or side.contents(name))
        root = "ROOT " if instruction.id == self.sides[place].computation.root else ""
        whole = f"{root}{names[instruction.name]} = {line}"
        if len(whole) <= WIDEST:
            return whole
        return f"{whole[: WIDEST // 2]} [{len(whole) - WIDEST} characters] {whole[-WIDEST // 2 :]}"

    def source(self, place: int, instruction: Instruction) -> str | None:
        """Return where an instruction of one side comes from."""
        words = self.sides[place].side.printed.source(instruction.name)
        return None if words is None else words[:WIDEST]


def _parameter_name(side: SideComputation, instruction: Instruction) -> str:
    number = instruction.parameter_number
    if side.taken is None:
        return f"param.{number}"
    return f"argument.{side.taken[number] if number < len(side.taken) else number}"


def level(computations: MatchedComputations, name: str) -> RegionLevel:
    """Return the counts of two computations that are beside each other."""
    return RegionLevel(
        name=name,
        reference_instructions=len(computations.sides[0].order),
        variant_instructions=len(computations.sides[1].order),
        reference_only=len(computations.only[0]),
        variant_only=len(computations.only[1]),
    )


def region(computations: MatchedComputations, levels: tuple[RegionLevel, ...]) -> ProgramRegion:
    """Return the rows around the first difference of two computations, of which at least one instruction differs."""
    lines = _trimmed(list(_rows(computations)))
    shown = sum((line.kind in ("changed", "reference")) + (line.kind in ("changed", "variant")) for line in lines)
    return ProgramRegion(levels=levels, lines=tuple(lines), more=sum(map(len, computations.only)) - shown)


def _window(computations: MatchedComputations, place: int) -> list[Instruction]:
    """Return the instructions of one side around its first difference, else around that of the other side."""
    order, only = computations.sides[place].order, computations.only[place]
    ids = [instruction.id for instruction in order]
    if only:
        first = ids.index(only[0].id)
    else:
        # As far as what stands before the other side's first difference has its equals here.
        other = computations.sides[1 - place].order
        before = {instruction.id for instruction in other[: other.index(computations.only[1 - place][0])]}
        pairs = computations.partners.items()
        equal = {(b if place == 0 else v) for v, b in pairs if (v if place == 0 else b) in before}
        first = max((number for number, here in enumerate(ids) if here in equal), default=-1) + 1
    begin = max(first - BEFORE, 0)
    return order[begin : begin + IN_REGION]


def _rows(computations: MatchedComputations) -> Iterator[RegionLine]:
    """Yield the rows of both windows; where they differ, instructions of one opcode are put side by side."""
    first, second = _window(computations, 0), _window(computations, 1)
    a, b = (
        [side.key(instruction) for instruction in part]
        for side, part in zip(computations.sides, (first, second), strict=True)
    )
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (_row(computations, *pair) for pair in zip(first[a0:a1], second[b0:b1], strict=True))
        else:
            yield from _differing(computations, first[a0:a1], second[b0:b1])


def _differing(
    computations: MatchedComputations, first: Sequence[Instruction], second: Sequence[Instruction]
) -> Iterator[RegionLine]:
    matched = computations.matched
    words = [(instruction.opcode, instruction.id in matched) for instruction in first]
    others = [(instruction.opcode, instruction.id in computations.partners) for instruction in second]
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        pairs = zip(first[a0:a1], second[b0:b1], strict=False) if tag == "equal" else ()
        for a, b in pairs:
            if a.id in matched and computations.partners.get(b.id) != a.id:
                yield from (_row(computations, a, None), _row(computations, None, b))
            else:
                yield _row(computations, a, b)
        if tag != "equal":
            yield from (_row(computations, a, None) for a in first[a0:a1])
            yield from (_row(computations, None, b) for b in second[b0:b1])


def _row(computations: MatchedComputations, first: Instruction | None, second: Instruction | None) -> RegionLine:
    """Return one row: an instruction of each side, or of one."""
    partners, note = computations.partners, None
    texts = [None if inst is None else computations.text(place, inst) for place, inst in enumerate((first, second))]
    sources = [None if inst is None else computations.source(place, inst) for place, inst in enumerate((first, second))]
    if first is not None and second is not None:
        same = partners.get(second.id) == first.id
        kind = "same" if same else "changed"
        if same:
            texts[1] = texts[0]
        elif _definition(texts[0]) == _definition(texts[1]):
            note = _hidden(first, second)
    elif second is None:
        kind = "moved" if first is not None and first.id in computations.matched else "reference"
    else:
        kind = "moved" if second.id in partners else "variant"
    return RegionLine(
        kind=kind,  # type: ignore[arg-type]
        reference=texts[0],
        variant=texts[1],
        reference_source=sources[0],
        variant_source=sources[1],
        note=note,
    )


def _definition(text: str | None) -> str:
    """Return what a row says of an instruction besides its name."""
    return (text or "").partition(" = ")[2]


def _hidden(first: Instruction, second: Instruction) -> str:
    """Return what differs of two instructions whose shown texts are the same."""
    a, b = config(first), config(second)
    names = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    if names:
        return f"backend_config differs in {', '.join(names)[:WIDEST]}"
    if first.backend_config != second.backend_config:
        return "backend_config differs"
    return "differs in what the text does not show: attributes, the contents of constants, or what is cut off"


def _trimmed(lines: list[RegionLine]) -> list[RegionLine]:
    """Cut what follows the last difference, but for a few lines."""
    last = max((number for number, line in enumerate(lines) if line.kind not in ("same", "moved")), default=-1)
    return lines[: last + 1 + AFTER]


@dataclass(kw_only=True, slots=True)
class CompiledCase:
    """The programs and comparisons of one case on one target in one direction, or the errors.

    Args:
        warnings: which known faults of the compiler may concern a program.
    """

    programs: list[CompiledSide] = field(default_factory=list)
    comparisons: list[SideBySide] = field(default_factory=list)
    effects: list[OptionEffect] = field(default_factory=list)
    errors: list[SamebitsError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def expected_refusal(real: RealSize, which: ProgramIdentity) -> Refusal | None:
    """Return the expected compiler error of a side with options; a program without options must compile."""
    return real.case.refusal(which.side) if which.options else None


def compare_case(
    case: CompiledCase, real: RealSize, reference_name: str, modules: Mapping[tuple[str, bool], CompiledProgram]
) -> None:
    """Add comparisons between sides, with options if given, and the effects of the options."""
    plain = {program.side: program for program in case.programs if not program.options}
    with_options = {program.side: program for program in case.programs if program.options}
    refused = {comparison.variant for comparison in case.comparisons}
    compared_programs = {side: program for side, program in {**plain, **with_options}.items() if side not in refused}
    reference = compared_programs.get(reference_name)
    if reference is not None:
        for program in compared_programs.values():
            both = [modules[each.side, bool(each.options)] for each in (reference, program)]
            other = both[0].outputs.difference(both[1].outputs)
            compared = compare_sides(reference, program, compared_programs, real.claims, other_outputs=other)
            refusal = expected_refusal(real, program)
            if refusal is not None:
                compared = replace(compared, expectations=(missing_error(refusal), *compared.expectations))
            if program is not reference:
                case.comparisons.append(replace(compared, region=_region(*both)))
            elif compared.expectations:
                case.comparisons.append(compared)
    case.effects += [option_effect(plain[side], program) for side, program in with_options.items() if side in plain]


def _region(reference: CompiledProgram, variant: CompiledProgram) -> ProgramRegion | None:
    """Return where two programs first differ; None for the same program, or where jaxlib cannot print one of them."""
    if reference.facts.program == variant.facts.program:
        return None
    try:
        return first_difference(reference, variant)
    except CouldNotRun:  # the comparison stands without it: digests and counts need no text
        return None
