"""Edited modules aligned with what they were by the names of their instructions: which one is named first."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule, parse_module
from samebits.interpret.alignment.align import ExecutedNumbers, align
from samebits.interpret.alignment.instructions import InstructionAlignment
from samebits.interpret.problem import Input, Question
from samebits.schema.line_difference import LineDifference
from tests.compile.edited_modules import right
from tests.hlo.execution import Compiled, compiled
from tests.hlo.test_planted_modules import FAULTS, X, on_partitions


def lines(program: Compiled, edited: bytes) -> tuple[LineDifference, ...]:
    """Align a module with an edited one; the first is right."""
    partitions = len(program.outputs[0])
    first, second = (
        jax.make_jaxpr(PartitionProgram(HloModule(module), [partitions]).on_all)(*program.arguments)
        for module in (program.serialised, edited)
    )
    inputs = [Input(f"argument {number}", value) for number, value in enumerate(program.arguments)]
    question = Question(first, second, inputs, [f"out{n}" for n in range(len(first.out_avals))])
    return InstructionAlignment(align(question, rounded=True)).lines(0)


def right_names(before: Any, after: Any) -> set[str]:
    known = {inst.id: inst.SerializeToString() for each in before.computations for inst in each.instructions}
    insts = [inst for each in after.computations for inst in each.instructions]
    changed = [inst for inst in insts if known.get(inst.id) != inst.SerializeToString()]
    # One whose operands are all that changed was not edited: another was put before it.
    return set().union(*(right(after, inst) for inst in changed))


def test_edited_instructions_are_named_first() -> None:
    wrong = {}
    for name, fault in FAULTS.items():
        program = on_partitions(fault.function) if fault.partitions else compiled(fault.function, X)
        module = parse_module(program.serialised)
        fault.edit(module)
        found = lines(program, module.SerializeToString())
        code = (found[0].variant_code or found[0].reference_code) if found else ""
        if code.partition(" ")[0].removeprefix("%") not in right_names(parse_module(program.serialised), module):
            wrong[name] = code
    assert len(wrong) * 5 <= len(FAULTS), wrong


def test_what_no_domain_has_rules_for_is_executed() -> None:
    """The bits of a float are none of a field, nor of a real number: both programs run in their own dtypes."""

    def bits(x: Any) -> Any:
        return jnp.where((jax.lax.bitcast_convert_type(x, np.int32) & 1) == 1, x * 3, jnp.tanh(x))

    program = compiled(bits, X.astype(np.float32) / 7)
    module = parse_module(program.serialised)
    (inst,) = (inst for each in module.computations for inst in each.instructions if inst.opcode == "tanh")
    inst.opcode = "sine"
    first = lines(program, module.SerializeToString())[0]
    assert first.variant_code.startswith(f"%{inst.name} = sine"), first
    assert lines(program, program.serialised)[0].change == "other"  # nothing differs, and the output is named
    assert "bitcast_convert_type" in ExecutedNumbers.covers
