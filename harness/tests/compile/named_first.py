"""How often what is named first is right: lines of planted sharding faults, and instructions that were edited."""

import functools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

import samebits
from samebits.compile.compiler import compile_lowered, lower_traced
from samebits.compile.devices import target_mesh
from samebits.compile.executed import RunnableProgram
from samebits.errors import SamebitsError
from samebits.functions.result import Comparing
from samebits.hlo.module import HloModule
from samebits.interpret.alignment.align import align
from samebits.interpret.alignment.instructions import InstructionAlignment
from samebits.interpret.problem import Input, Question
from samebits.schema.meshes import MeshSpec
from samebits.schema.target import Target
from tests.compile import planted_shardings
from tests.compile.edited_modules import EditedModule, edited
from tests.compile.planted_shardings import FAULT, MESH, PLANTED

OF_A_KIND = 2
"""Edits of one kind in one module."""

SEEN = 1e-3
"""Of the largest number of an output, how far an edit must move it to count."""


LINES = Path(planted_shardings.__file__).read_text().splitlines()


@functools.cache
def run(name: str, fault: bool, target: str = "tpu7x:2x2x1") -> Comparing:
    part = PLANTED[name]
    values: Any = {"values": part.values} if part.values else {}
    return samebits.run_compiled(
        functools.partial(part.sharded, fault=fault),
        *part.shapes,
        target=target,
        reference=part.plain,
        mesh=MESH,
        specs=part.specs,
        gradients=False,
        **values,
    )


def is_right(compared: Comparing) -> bool:
    """Whether the line that is named first ends with the mark of a fault."""
    first = compared.leaves[0].named.lines[0]
    number = str(first.variant).rpartition(":")[2]
    return number.isdigit() and LINES[int(number) - 1].endswith(FAULT)


@dataclass(frozen=True, slots=True)
class NamedEdit:
    """An edit that changes an output, the instruction that is named first, and whether it is a right one."""

    part: str
    edit: EditedModule
    named: str
    right: bool


@functools.cache
def program(name: str, target: str) -> tuple[RunnableProgram, bytes, list[Any]]:
    """Compile a part of a decoder without a fault; with its module and arguments."""
    part, chosen = PLANTED[name], Target(name=target)
    mesh = target_mesh(chosen, MeshSpec.parse("data2_tensor4"), "auto")
    types = [
        jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=NamedSharding(mesh, spec))
        for kind, spec in zip(part.shapes, part.specs, strict=True)
    ]
    with jax.set_mesh(mesh):
        traced = jax.jit(functools.partial(part.sharded, fault=False)).trace(*types)
    lowered = lower_traced(traced, mesh=mesh, target=chosen, label=name)
    compiled: Any = compile_lowered(lowered, {})
    serialised = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    draw = np.random.default_rng(0)
    arguments = [
        draw.integers(0, 32, kind.shape).astype(kind.dtype)
        if kind.dtype == np.int32
        else draw.standard_normal(kind.shape).astype(kind.dtype)
        for kind in part.shapes
    ]
    return RunnableProgram.of(compiled, traced, lowered.taken, mesh), serialised, arguments


def outputs(run: RunnableProgram, arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
    (output,) = run(*map(jnp.asarray, arguments))
    return np.nan_to_num(np.asarray(output, np.float64), nan=1e9)


def edits_of(target: str) -> list[NamedEdit]:
    """Edit the modules of all parts."""
    return [edit for name in PLANTED for edit in named_right(name, target, most=6)]


def named_right(name: str, target: str, most: int) -> Iterator[NamedEdit]:
    """Edit a module in some places, drawn once for all, and name the instruction for each that changes an output."""
    run, serialised, arguments = program(name, target)
    right = outputs(run, arguments)
    edits, kinds = [*edited(serialised)], Counter[str]()
    random.Random(0).shuffle(edits)
    for edit in edits:
        if kinds.total() == most or kinds[edit.kind] == OF_A_KIND:
            continue
        wrong = replace(run, module=HloModule(edit.serialised))
        try:
            apart = np.max(np.abs(outputs(wrong, arguments) - right))
        except SamebitsError:
            continue
        if apart > SEEN * np.max(np.abs(right)):
            kinds[edit.kind] += 1
            found = first_named(run, wrong, arguments)
            yield NamedEdit(name, edit, found, found in edit.right)


def first_named(right: RunnableProgram, wrong: RunnableProgram, arguments: Sequence[Any]) -> str:
    first, second = (jax.make_jaxpr(lambda *flat, run=run: run(*flat))(*arguments) for run in (right, wrong))
    inputs = [Input(f"argument {number}", value) for number, value in enumerate(arguments)]
    aligned = align(Question(first, second, inputs, ["out"]), rounded=True)
    lines = InstructionAlignment(aligned).lines(0)
    code = (lines[0].variant_code or lines[0].reference_code) if lines else ""
    return code.partition(" ")[0].removeprefix("%")


def shares(edits: Sequence[NamedEdit]) -> str:
    """A table: by kind of edit, how many were named right, of how many; and those that were not."""
    rows = []
    for kind in dict.fromkeys(edit.edit.kind for edit in edits):
        own = [edit for edit in edits if edit.edit.kind == kind]
        rows.append(f"{kind}: {sum(edit.right for edit in own)} of {len(own)}")
        rows += [f"  {e.part}: {e.edit.instruction}, named {e.named or 'none'}" for e in own if not e.right]
    return "\n".join(rows)
