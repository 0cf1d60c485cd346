"""Why a compiled program differs from what was written: the line of the source, or the instruction and the pass.

Where the program that was compiled is another formula than the reference before any compiler has seen it, the source is
at fault: both are interpreted, all devices of the mesh at once, and aligned. Else the compiler is: the modules before
and after the pass that makes it wrong are aligned by the names of their instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from samebits.compile.executed import ProgramForms, TargetPrograms, argument_name, programs_of
from samebits.compile.passes import FaultyPass, faulty_pass
from samebits.errors import CouldNotRun, NotCovered, SamebitsError
from samebits.hlo.module import HloModule
from samebits.interpret.alignment.align import RecordLimits, align
from samebits.interpret.alignment.instructions import InstructionAlignment
from samebits.interpret.inner_equations import equations
from samebits.interpret.problem import Input, Question
from samebits.programs.inputs import records
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference, NamedLines
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair

Array = Any

EVALUATED = (
    "compiled programs are evaluated on this CPU, products in full precision: formulas and movement are the target's, "
    "bits of float arithmetic are not"
)
"""The note with every verdict on a compiled program."""

IN_PASSES = EVALUATED.replace("in full precision", "of float32 in passes of bfloat16")
"""The same where products are taken so."""

SEARCHED = 2
"""For how many outputs of a pair the cause is searched that makes them differ."""

LIMITS = RecordLimits(seconds=15.0, elements=12_000_000)
"""For each of two programs that are aligned: up to half a gigabyte."""

WRITTEN = "as written for the mesh it is another formula than the reference, before it is compiled"


@dataclass(frozen=True, slots=True)
class Cause:
    """What makes an output of a compiled program differ.

    Args:
        lines: of the source, or instructions, likeliest first; empty where what was found before stands.
        reasons: in words.
    """

    lines: tuple[LineDifference, ...] = ()
    reasons: tuple[str, ...] = ()


def explained(pair: Pair, findings: Sequence[Finding]) -> tuple[list[Finding], list[str]]:
    """Return findings on a compiled pair with the places that make them differ, and notes on how and why."""
    notes, results, searched = [IN_PASSES if programs_of(pair).in_passes else EVALUATED], [], 0
    for finding in findings:
        if finding.ruling.verdict == "different" and searched < SEARCHED:
            searched += 1
            where = f"{finding.place.case}, {finding.place.leaf}"
            try:
                cause = cause_of(pair, finding)
            except SamebitsError as error:  # the verdict stands without it
                cause = Cause(reasons=(f"the pass that makes it wrong was not found: {error}",))
            notes += [f"{where}: {why}" for why in cause.reasons]
            if cause.lines:
                finding = replace(finding, named=NamedLines(cause.lines))
        results.append(finding)
    return results, notes


def cause_of(pair: Pair, finding: Finding) -> Cause:
    """Find what makes an output of a compiled program differ.

    Raises:
        CouldNotRun: the program cannot be run.
    """
    case, mesh = pair.case(finding.place.case), MeshSpec.parse(finding.place.mesh)
    record = next(iter(records(pair, case, finding.place.dtype, mesh).values()))
    programs, leaf = programs_of(pair), finding.place.leaf
    forms = programs.both(case.id)
    flat, number = _at(forms, leaf, record)
    by_hand = programs.against is not None or any(
        equation.primitive.name == "shard_map" for equation in equations(forms.sharded)
    )
    # What the partitioner shards is the same formula on every mesh.
    lines = _lines_of_source(forms, number, flat) if by_hand else None
    if lines is not None:
        return Cause(lines, (WRITTEN,))
    if programs.in_passes:
        return Cause()  # no pass of the compiler is to blame for the rounding of products
    faulty = pass_of(programs, case.id, leaf, record)
    return Cause() if faulty is None else Cause(_instructions(forms, faulty, number, flat), (str(faulty),))


def pass_of(programs: TargetPrograms, program: str, leaf: str, record: Mapping[str, Array]) -> FaultyPass | None:
    """Find the pass after which an output is wrong at given inputs; None where no pass is known.

    Raises:
        CouldNotRun: the program cannot be run.
    """
    forms = programs.both(program)
    flat, number = _at(forms, leaf, record)
    faulty = _faulty(forms, programs.options, number, flat)
    if faulty is not None:
        programs.faulty_passes[program, leaf] = faulty
    return faulty


def _at(forms: ProgramForms, leaf: str, record: Mapping[str, Array]) -> tuple[list[Array], int]:
    """Return the flat arguments, and which output a leaf is."""
    flat = [jnp.asarray(record[argument_name(name)]) for name in forms.names]
    return flat, forms.leaves.index(leaf) if leaf in forms.leaves else 0


def _lines_of_source(forms: ProgramForms, number: int, flat: Sequence[Array]) -> tuple[LineDifference, ...] | None:
    """Return the lines that make an output another formula as it is written; None where they agree."""
    try:
        aligned = align(_question(forms, forms.written, forms.sharded, flat), limits=LIMITS)
        return aligned.lines(number) if aligned.differs(number) else None
    except NotCovered:
        return None


def _faulty(forms: ProgramForms, options: Mapping[str, str], number: int, flat: Sequence[Array]) -> FaultyPass | None:
    """Find the pass after which an output is wrong; None where it does not differ, or no module is written."""
    right = _wide(jax.jit(jaxpr_as_fun(forms.written))(*flat)[number])

    replicas = (forms.compiled.outputs[number].replicas, *right.shape)

    def distance(module: HloModule) -> Array:
        output = _wide(jax.jit(_run(forms, module, number))(*flat)[0])
        if output.shape != replicas:
            raise CouldNotRun(f"the module returns {output.shape}, not {replicas}: it is not partitioned")
        return np.where(np.isnan(output) & np.isnan(right), 0, np.nan_to_num(np.abs(output - right), nan=np.inf))

    apart = distance(forms.compiled.module)
    farthest = np.unravel_index(np.argmax(apart), apart.shape)
    if not apart[farthest]:
        return None
    # Half of the distance is far more than rounding where the verdict is a difference.
    return faulty_pass(
        forms.lowered,
        options,
        lambda module: bool(distance(module)[farthest] > apart[farthest] / 2),
        forms.compiled.module,
    )


def _instructions(
    forms: ProgramForms, faulty: FaultyPass, number: int, flat: Sequence[Array]
) -> tuple[LineDifference, ...]:
    """Return the instructions of the wrong module that make an output differ from that of the right one."""
    if faulty.modules is None:
        return ()
    try:
        right, wrong = (jax.make_jaxpr(_run(forms, module, number))(*flat) for module in faulty.modules)
        return InstructionAlignment(align(_question(forms, right, wrong, flat), limits=LIMITS)).lines(0)
    except NotCovered:
        return ()


def _run(forms: ProgramForms, module: HloModule, number: int) -> Any:
    """Return one output of a module as a function of the flat arguments."""
    program = replace(forms.compiled, module=module)
    return lambda *flat: [program(*flat)[number]]


def _question(forms: ProgramForms, first: Any, second: Any, flat: Iterable[Array]) -> Question:
    inputs = [Input(name, np.asarray(array)) for name, array in zip(forms.names, flat, strict=True)]
    return Question(first, second, inputs, [f"output {number}" for number in range(len(first.out_avals))])


def _wide(array: Array) -> Array:
    array = np.asarray(array)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
