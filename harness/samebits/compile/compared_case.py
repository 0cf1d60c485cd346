"""The sides of one compiled case beside each other: figures, claims, and where their programs first differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from samebits.compile.comparison import compare_sides, missing_error, option_effect
from samebits.compile.compiler import CompiledProgram
from samebits.compile.region import OptimizedModule, first_difference
from samebits.errors import CouldNotRun, SamebitsError
from samebits.schema.case import Refusal
from samebits.schema.program_facts import CompiledSide, OptionEffect, ProgramIdentity, ProgramRegion, SideBySide
from samebits.schema.real_size import RealSize


@dataclass(kw_only=True, slots=True)
class CompiledCase:
    """The programs and comparisons of one case on one target in one direction, or the errors."""

    programs: list[CompiledSide] = field(default_factory=list)
    comparisons: list[SideBySide] = field(default_factory=list)
    effects: list[OptionEffect] = field(default_factory=list)
    errors: list[SamebitsError] = field(default_factory=list)


def expected_refusal(real: RealSize, which: ProgramIdentity) -> Refusal | None:
    """Return the expected compiler error of a side with options; a program without options must compile."""
    return real.case.refusal(which.side) if which.options else None


def compare_case(
    case: CompiledCase, real: RealSize, reference_name: str, modules: Mapping[tuple[str, bool], CompiledProgram]
) -> None:
    """Add comparisons between sides, with options if given, and the effects of the options.

    Args:
        case: with its programs.
        real: the production shape, with its claims and expected errors.
        reference_name: of the pair.
        modules: the compiled programs by their sides, and whether they have options.
    """
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
    first, second = (OptimizedModule(program.module, program.taken) for program in (reference, variant))
    try:
        return first_difference(first, second)
    except CouldNotRun:  # the comparison stands without it: digests and counts need no text
        return None
