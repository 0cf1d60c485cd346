"""A compiled module as a JAX function: what each partition computes, with `vmap` axes in place of the devices.

    run = PartitionProgram(HloModule(serialised), [4])
    outputs = run.on_all(*parameters)      # each with a leading axis of partitions

The result is a jaxpr of known primitives, so that every abstract domain applies to what the compiler made as it does
to what was written. Opcodes mean what XLA's operation semantics say; those of data and arithmetic are in
`hlo.operations`, collectives in `hlo.collectives`. One without a meaning is an error that names it.

Memory that nothing wrote, such as the padding that a cast exposes, holds `filler`, or what `fillers` says of its
instruction: an output that depends on it changes with it (`unwritten` names the instructions).

Source: XLA, "Operation semantics"; `xla/service/hlo.proto`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.hlo import collectives, operations, sorting
from samebits.hlo.module import HloComputation, HloModule, Instruction, unread_fields
from samebits.hlo.partition_axes import PartitionAxes
from samebits.hlo.steps import HloStep, Untranslated
from samebits.hlo.types import dtype_of, leaves

FILLERS = (113.0, -57.0)
"""Two contents of memory that nothing wrote, true and false: no neutral elements, and on both sides of most numbers."""

_WIDE = frozenset((5, 9, 12, 18))
"""Element types of 64 bits, or two of them."""

_SAME = ("copy", "opt-barrier", "domain", "add-dependency", "optimization-barrier")
"""Operations that return their first operand."""

_WITHOUT_MEANING = frozenset({11, 47, 51, 54, 55, 56, 57, 60, 65, 67, 69, 71, 74, 76, 77, 78, 80, 91, 98, 101})
"""Numbers of fields that change no value: kinds of fusion, precision, stability, hints, schedules, aliases."""

_IDENTITY_CALLS = (
    "AssumeGatherIndicesInBound",
    "GatherScatterIndicesBitpacked",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "Sharding",
    "annotate_device_placement",
)
"""Custom calls that return their operand: they say something of it, or where it lies."""

_UNWRITTEN_CALLS = ("AllocateBuffer", "CreateBuffer")
"""Custom calls that return memory which nothing wrote."""

_TOKEN_CALLS = ("PrepareAsyncCallStart", "PrepareAsyncCallDone")
"""Custom calls that compute nothing: they order what runs beside each other."""


@dataclass(frozen=True, slots=True)
class StartedOperation:
    """The result of an asynchronous operation that was started, until its end takes it."""

    result: Any


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """An asynchronous call that was started without operands, which its update takes."""

    computation: int


class PartitionProgram:
    """What one partition of a compiled module computes, as a function of its parameters.

    Args:
        mesh: the sizes of the axes of the mesh, or the number of partitions alone.
        filler: what memory holds that nothing wrote.
        fillers: the same by the name of the instruction that returns it.
        tables: numbers by partition that say along which axes its arguments differ.
        in_passes: products of float32 are taken in passes of bfloat16, as a TPU takes them.

    Raises:
        Untranslated: on the call, where an instruction has no meaning here.
    """

    def __init__(
        self,
        module: HloModule,
        mesh: Sequence[int],
        filler: float = FILLERS[0],
        fillers: Mapping[str, Any] = MappingProxyType({}),
        *,
        tables: Iterable[Any] = (),
        in_passes: bool = False,
    ) -> None:
        count = math.prod(mesh)
        connections = [collectives.tables(inst, count) for _, inst in module.instructions()]
        self.module = module
        self.axes = PartitionAxes.dividing(mesh, itertools.chain(tables, *connections))
        self.filler, self.fillers = filler, fillers
        self.in_passes = in_passes
        self.unwritten: set[str] = set()

    def __call__(self, *parameters: Any) -> tuple[Any, ...]:
        """Return the outputs of a partition, a flat tuple."""
        with jax.enable_x64(True) if self._wide() else contextlib.nullcontext():
            result = self.computation(self.module.entry, parameters)
        return tuple(result) if isinstance(result, tuple) else (result,)

    def on_all(self, *parameters: Any) -> Any:
        """Return the outputs of all partitions, a leading axis, for parameters with that axis."""
        sizes = self.axes.sizes
        split = [jnp.reshape(array, (*sizes, *array.shape[1:])) for array in parameters]
        return self.axes.mapped(self, [range(len(sizes))] * len(split))(*split)

    def _wide(self) -> bool:
        """Tell whether an instruction has elements of 64 bits, which jax has only where they are enabled."""
        return any(_WIDE & {kind.element_type for kind in leaves(inst.shape)} for _, inst in self.module.instructions())

    def computation(self, number: int, args: Sequence[Any], root: int | None = None) -> Any:
        """Return what a computation returns for its parameters, or what one of its instructions does."""
        computation = self.module.computations[number]
        root = computation.root if root is None else root
        known: dict[int, Any] = {}
        for inst in _needed(computation, root):
            values = [known[operand] for operand in inst.operand_ids]
            shapes = [operand.shape for operand in computation.operands(inst)]
            if inst.opcode == "parameter":
                known[inst.id] = args[inst.parameter_number]
                continue
            with jax.named_scope(self.module.origin(inst).scope()):
                known[inst.id] = self._as_declared(inst, self._one(HloStep(inst, values, shapes, self)))
        return known[root]

    def _one(self, step: HloStep) -> Any:
        rule = _RULES.get(step.inst.opcode)
        if rule is None:
            raise step.refuse(f"opcode '{step.inst.opcode}' has no meaning here")
        unread = sorted(unread_fields(step.inst) - _WITHOUT_MEANING)
        if unread:
            raise step.refuse(f"this XLA says something of it in field {unread[0]}, which has no meaning here")
        try:
            return rule(step)
        except (TypeError, ValueError, LookupError, NotImplementedError) as error:
            # What jax refuses, such as shapes that do not fit in a module that no compiler would write.
            raise step.refuse(f"'{step.inst.opcode}' cannot be done: {error}".splitlines()[0]) from error

    def _as_declared(self, inst: Instruction, value: Any) -> Any:
        """Round a float to the dtype of its instruction: TPU programs reduce, select and copy into narrower ones."""
        if not hasattr(value, "dtype") or inst.shape.tuple_shapes:
            return value
        dtype = self.dtype(inst, inst.shape)
        if value.dtype == dtype:
            return value
        if not (jnp.issubdtype(value.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.floating)):
            raise Untranslated(inst, f"it returns {value.dtype}, and {dtype} is declared")
        return lax.convert_element_type(value, dtype)

    def dtype(self, inst: Instruction, shape: Any) -> Any:
        """Return the dtype of a shape."""
        dtype = dtype_of(shape)
        if dtype is None:
            raise Untranslated(inst, f"element type {shape.element_type} has no dtype in JAX")
        return dtype

    def empty(self, inst: Instruction, shape: Any) -> Any:
        """Return memory that nothing wrote."""
        self.unwritten.add(inst.name)
        if shape.tuple_shapes:
            return tuple(self.empty(inst, part) for part in shape.tuple_shapes)
        dtype = self.dtype(inst, shape)
        return jnp.full(tuple(shape.dimensions), self.filler_of(inst, dtype), dtype)

    def filler_of(self, inst: Instruction, dtype: Any) -> Any:
        """Return a number of the memory that an instruction returns and nothing wrote."""
        filler = self.fillers.get(inst.name, np.float64(self.filler))
        return filler > 0 if dtype == np.bool_ else filler.astype(dtype)


def _needed(computation: HloComputation, root: int) -> list[Instruction]:
    """Return the instructions that a root is computed from, in order; those that are dead have no effect on it."""
    wanted, waiting = {root}, [root]
    while waiting:
        for operand in computation.instructions[waiting.pop()].operand_ids:
            if operand not in wanted:
                wanted.add(operand)
                waiting.append(operand)
    # A module lists operands before what takes them.
    return [inst for inst in computation.instructions.values() if inst.id in wanted]


def _first(step: HloStep) -> Any:
    return step.values[0]


def _element(step: HloStep) -> Any:
    value = step.values[0]
    if isinstance(value, StartedOperation):
        # A start returns its operand and its result; further parts are contexts, which nothing computes with.
        value = (None, value.result)
    return value[step.inst.tuple_index]


def _call(step: HloStep) -> Any:
    return step.called()(*step.values)


def _async_start(step: HloStep) -> Any:
    number = step.inst.called_computation_ids[0]
    wanted = sum(inst.opcode == "parameter" for inst in step.program.module.computations[number].instructions.values())
    if wanted != len(step.values):
        return SuspendedCall(number)
    return StartedOperation(step.program.computation(number, step.values))


def _async_update(step: HloStep) -> Any:
    started, *operands = step.values
    if isinstance(started, SuspendedCall):
        return StartedOperation(step.program.computation(started.computation, operands))
    return started


def _done(step: HloStep) -> Any:
    value = step.values[0]
    if isinstance(value, SuspendedCall):
        return step.program.computation(value.computation, step.values[1:])
    return value.result if isinstance(value, StartedOperation) else value


def _while(step: HloStep) -> Any:
    """Run a loop, whose body comes before its condition among what it calls."""
    start = jax.tree.map(jnp.asarray, step.values[0])
    return lax.while_loop(step.called(1), step.called(0), start)


def _conditional(step: HloStep) -> Any:
    """Take a branch by a predicate, whose first branch is for true, or by an index, whose last is for all others."""
    index, *operands = step.values
    branches = [step.called(number) for number in range(len(operands))]
    if step.shapes[0].element_type == 1:
        return lax.cond(index, lambda a, b: branches[0](a), lambda a, b: branches[1](b), *operands)
    last = len(branches) - 1
    index = jnp.where((index < 0) | (index > last), last, index)
    return lax.switch(
        index, [lambda *all_, n=n, branch=branch: branch(all_[n]) for n, branch in enumerate(branches)], *operands
    )


def _custom_call(step: HloStep) -> Any:
    target = step.inst.custom_call_target
    if target in _UNWRITTEN_CALLS:
        return step.program.empty(step.inst, step.inst.shape)
    if target in _IDENTITY_CALLS:
        return step.values[0]
    if target == "ConcatBitcast":
        return operations.cast(step)
    if target in _TOKEN_CALLS:
        return ()
    if target == "TopK":
        return sorting.top_k(step)
    raise step.refuse(f"custom call '{target}' has no meaning here")


def _started(rule: Callable[[HloStep], Any]) -> Callable[[HloStep], StartedOperation]:
    return lambda step: StartedOperation(rule(step))


_RULES: Mapping[str, Callable[[HloStep], Any]] = {
    **operations.RULES,
    **collectives.RULES,
    **{f"{opcode}-start": _started(rule) for opcode, rule in collectives.RULES.items()},
    **{f"{opcode}-done": _done for opcode in collectives.RULES},
    **dict.fromkeys(_SAME, _first),
    "after-all": lambda step: (),
    "tuple": lambda step: tuple(step.values),
    "get-tuple-element": _element,
    "fusion": _call,
    "call": _call,
    "async-start": _async_start,
    "async-update": _async_update,
    "async-done": _done,
    "copy-start": _started(_first),
    "copy-done": _done,
    "while": _while,
    "conditional": _conditional,
    "custom-call": _custom_call,
}
