"""Finds where two compiled programs first differ: instructions of both optimised modules, side by side.

Instructions are matched by what they compute (`hlo.canonical`), not by name or place. What differs first, operands
before what uses them, takes only values that both programs compute alike. Where that is a loop or a fusion on both
sides, the search goes on inside.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samebits.compile.region_lines import MatchedComputations, ModuleSide, SideComputation, level, region
from samebits.errors import CouldNotRun
from samebits.hlo.canonical import entry_arguments, is_inline
from samebits.hlo.module import HloModule, Instruction
from samebits.hlo.printed import PrintedModule
from samebits.schema.program_region import ProgramRegion, RegionLevel
from samebits.user_errors import one_line

ENTRY = "entry computation"


@dataclass(frozen=True, slots=True)
class OptimizedModule:
    """A compiled program as its compiler wrote it.

    Args:
        module: serialised.
        taken: which arguments of the function its parameters are.
    """

    module: bytes
    taken: tuple[int, ...]


def first_difference(reference: OptimizedModule, variant: OptimizedModule) -> ProgramRegion | None:
    """The first differing region of two optimised modules; None where every instruction has its equal.

    Args:
        reference, variant: compiled for the same target.

    Raises:
        CouldNotRun: a module cannot be read.
    """
    return _first_region(MatchedComputations(_entry(reference), _entry(variant)), ENTRY, ())


def _entry(program: OptimizedModule) -> SideComputation:
    module = HloModule(program.module)
    side = ModuleSide(module, PrintedModule(_printed(program.module)))
    return SideComputation(side, module.entry, entry_arguments(module, program.taken), program.taken)


def _printed(serialised: bytes) -> str:
    """A module as XLA prints it.

    Raises:
        CouldNotRun: this XLA does not read the module, as of a compiler that is newer than jaxlib.
    """
    try:
        text: str = _module_class().from_serialized_hlo_module_proto(serialised).to_string()
    except Exception as error:
        raise CouldNotRun(f"jaxlib cannot print the compiled program: {one_line(error)}") from error
    return text


@functools.cache
def _module_class() -> Any:
    """XLA's class of modules: jax has no public name for it, only instances."""
    import jax

    executable: Any = jax.jit(lambda x: x).lower(jax.ShapeDtypeStruct((), "float32")).compile().runtime_executable()
    return type(executable.hlo_modules()[0])


def _first_region(computations: MatchedComputations, name: str, outer: tuple[RegionLevel, ...]) -> ProgramRegion | None:
    """The innermost region that holds the first difference of two computations."""
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
    """The computations that two instructions call, side by side, where the two differ in nothing before them."""
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
    """What a called computation is to the instruction that calls it."""
    if instruction.opcode != "while":
        return ""
    called = module.computations[number]
    shape = called.instructions[called.root].shape
    return "condition of " if shape.element_type == 1 and not shape.dimensions else "body of "
