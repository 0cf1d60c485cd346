"""The memory of Pallas kernels: what is wrong whatever the values are, by name and line.

Blocks that begin outside of their array, places of an output that no step writes, reads of what was never written,
steps of a parallel dimension that write one place, and writes into an argument. Index maps are evaluated over the whole
grid at once, the body step by step (`kernel_steps`). What only some values would do wrong is not said.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array, Step, frame_of, short
from samebits.interpret.kernel_steps import (
    Box,
    KernelSteps,
    Kind,
    Numeric,
    OutOfBudget,
    RefMemory,
    Role,
    inner_jaxprs,
    memory_of,
    names_of,
    shown,
)
from samebits.user_errors import one_line

STEPS = 1 << 18
"""Of how many steps of a grid the blocks are looked at."""

FOLLOWED = 1 << 13
"""Of how many steps the body is evaluated."""

PAIRS = 2048
"""Of how many places each two are compared, which need not be blocks."""

CELLS = 1 << 24
"""Blocks of the largest array whose blocks are counted."""


@dataclass(frozen=True, slots=True)
class MemoryFault:
    """What a kernel does wrong with its memory, whatever the values are.

    Args:
        kind: what is wrong.
        ref: the parameter of the kernel.
        text: what is wrong, in words.
        steps: of the grid, that show it.
        place: `file:line`, or an empty text.
    """

    kind: Kind
    ref: str
    text: str
    steps: tuple[tuple[int, ...], ...]
    place: str

    def __str__(self) -> str:
        return f"{self.text} ({self.place})" if self.place else self.text


@dataclass(frozen=True, slots=True)
class KernelMemory:
    """What was seen of the memory of kernels.

    Args:
        faults: what is wrong.
        unseen: what was not looked at, in words.
        unknown: what was not because of operands that are not known.
    """

    faults: tuple[MemoryFault, ...] = ()
    unseen: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __add__(self, other: KernelMemory) -> KernelMemory:
        return KernelMemory(
            tuple(dict.fromkeys(self.faults + other.faults)),
            tuple(dict.fromkeys(self.unseen + other.unseen)),
            tuple(dict.fromkeys(self.unknown + other.unknown)),
        )


def kernel_memory(eqn: Any, operands: Sequence[Array | None] = ()) -> KernelMemory:
    """Return what a `pallas_call` does wrong with its memory.

    Args:
        eqn: the equation, whose outputs that nothing reads are dropped, as `live` writes them.
        operands: its operands where they are known, of which prefetched scalars and sizes of the grid count.
    """
    mapping = eqn.params["grid_mapping"]
    count = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    known = [*operands[:count], *[None] * (count - len(operands))]
    numbers = [None if value is None else np.asarray(value) for value in known]
    # Kernels widen what they prefetch in 8 bits.
    wide = (n.astype(np.int64) if n is not None and n.dtype.kind in "iu" else n for n in numbers)
    return _remembered(eqn, tuple(None if n is None else (n.dtype.str, n.shape, n.tobytes()) for n in wide))


def program_memory(program: Any) -> KernelMemory:
    """Return what the kernels of a closed jaxpr do wrong, those of its inner programs included; of its live code."""
    program = live(program)
    constants = zip(program.jaxpr.constvars, program.consts, strict=True)
    known = {var: np.asarray(value) for var, value in constants if getattr(var.aval, "dtype", None) == np.int32}
    return sum(_kernels(program.jaxpr, known), KernelMemory())


def _kernels(jaxpr: Any, known: Mapping[Any, Array]) -> Iterator[KernelMemory]:
    """Yield what is seen of each kernel; constants that are passed on are known."""
    for eqn in jaxpr.eqns:
        operands = [None if hasattr(var, "val") else known.get(var) for var in eqn.invars]
        if eqn.primitive.name == "pallas_call":
            yield kernel_memory(eqn, operands)
            continue
        for inner in inner_jaxprs(eqn):
            passed = zip(inner.invars, operands, strict=True) if len(inner.invars) == len(operands) else ()
            is_loop = eqn.primitive.name in ("scan", "while")
            yield from _kernels(inner, {var: value for var, value in passed if value is not None and not is_loop})


@functools.lru_cache(maxsize=256)
def _remembered(eqn: Any, operands: tuple[Any, ...]) -> KernelMemory:
    values = [None if key is None else np.frombuffer(key[2], key[0]).reshape(key[1]) for key in operands]
    try:
        return _Kernel(eqn, values).memory()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # jax has no public form of kernels
        return KernelMemory(unseen=(f"the memory of {Step.of(eqn)} is not followed: {one_line(error)}",))


@dataclass(slots=True)
class _Blocks:
    """The blocks of one array: where each step's begins, or None where that is not known.

    Args:
        memory: of the kernel's reference.
        origin: the block mapping.
        sizes, shape, padding, squeezed: of a block, of the array, around it, and which dimensions the reference lacks.
        starts: by step and dimension.
    """

    memory: RefMemory
    origin: Any
    sizes: Array
    shape: tuple[int, ...]
    padding: Array
    squeezed: Array
    starts: Array | None
    written: dict[Any, Array] = field(default_factory=dict)

    def part(self, step: int, box: Box) -> tuple[Array, Array]:
        """Return a part of the block of a step as one of the array."""
        assert self.starts is not None
        low, high = self.starts[step].copy(), self.starts[step] + self.sizes
        start = low[~self.squeezed]
        low[~self.squeezed], high[~self.squeezed] = start + box[0], start + box[1]
        return low, high


class _Kernel:
    """Looks at one kernel.

    Args:
        eqn: the `pallas_call`.
        operands: the sizes of its grid and the prefetched scalars, where they are known.
    """

    def __init__(self, eqn: Any, operands: Sequence[Array | None]) -> None:
        self._eqn, self._jaxpr, self._mapping = eqn, eqn.params["jaxpr"], eqn.params["grid_mapping"]
        self._faults: dict[object, MemoryFault] = {}
        self._unseen: list[str] = []
        self._unknown: list[str] = []
        bounds = iter(operands)
        grid = [dim if isinstance(dim, int) else next(bounds) for dim in self._mapping.grid]
        sizes = [None if size is None else int(size) for size in grid]
        scalars, vmapped = list(bounds), self._mapping.vmapped_dims
        self._logical = [dim for dim in range(len(sizes)) if dim not in vmapped]
        self._sized = None not in sizes
        self._grid = tuple(size or 0 for size in sizes) if self._sized else (1,) * len(sizes)
        if not self._sized:
            self._unknown.append("the size of the grid is not known")
        self._count: int = math.prod(self._grid)
        number = min(self._count, STEPS)
        self._coordinates = (
            np.stack(np.unravel_index(np.arange(number), self._grid), -1) if sizes else np.zeros((1, 0), int)
        )
        self._parallel, self._pipelined = _parallel(eqn.params["compiler_params"], len(sizes), vmapped)
        self._refs = self._memories(scalars)
        before, inputs = self._mapping.num_index_operands, self._mapping.num_inputs
        aliases = [(i - before, inputs + o) for i, o in eqn.params["input_output_aliases"]]
        refs = [memory for memory in self._refs if memory.role in ("argument", "output")]
        known = [sizes[dim] for dim in self._logical]
        self._evaluation = KernelSteps(known, [refs[first] for first, _ in aliases], self._report)
        self._is_followed = True
        self._blocks = [self._blocks_of(*each) for each in zip(refs, self._mapping.block_mappings, strict=True)]
        self._aliases = [(self._blocks[first], self._blocks[second]) for first, second in aliases]

    def memory(self) -> KernelMemory:
        """Return what was seen."""
        for blocks in self._blocks:
            self._outside(blocks)
        self._follow()
        used = [type(var).__name__ != "DropVar" for var in self._eqn.outvars]
        for blocks, is_used in zip(self._outputs(), used, strict=True):
            if is_used:  # published kernels take outputs that are dropped as scratch
                self._never_written(blocks)
                self._races(blocks)
        for read, written in self._aliases:
            self._alias(read, written)
        name = str(self._jaxpr.debug_info.func_src_info).partition(" at ")[0]
        said = (tuple(f"{name}: {text}" for text in texts) for texts in (self._unseen, self._unknown))
        return KernelMemory(tuple(self._faults.values()), *said)

    def _memories(self, scalars: Sequence[Array | None]) -> list[RefMemory]:
        mapping, variables = self._mapping, self._jaxpr.invars
        roles: list[Role] = ["scalars"] * mapping.num_index_operands
        roles += ["argument"] * mapping.num_inputs
        roles += ["output"] * mapping.num_outputs
        roles += ["scratch"] * (len(variables) - len(roles))
        names = names_of(self._jaxpr, [f"{role} {number}" for number, role in enumerate(roles)])
        parameters = zip(variables, names, roles, strict=True)
        memories = [memory_of(var.aval, name, role) for var, name, role in parameters]
        for memory, table in zip(memories, scalars, strict=False):
            memory.table, memory.role = table, "scalars"
        return memories

    def _blocks_of(self, memory: RefMemory, mapping: Any) -> _Blocks:
        """Evaluate an index map over the whole grid."""
        kinds = np.array([type(dim).__name__ for dim in mapping.block_shape], str)
        padding = np.array([getattr(dim, "padding", (0, 0)) for dim in mapping.block_shape], int).reshape(-1, 2)
        sizes = np.array([getattr(dim, "block_size", 1) for dim in mapping.block_shape], int)
        scalars = [memory for memory in self._refs if memory.role == "scalars"]
        columns = [column if self._sized else None for column in self._coordinates.T]
        starts = self._evaluation.evaluate(mapping.index_map_jaxpr, [*columns, *scalars])[: len(sizes)]
        known = all(isinstance(start, Numeric) for start in starts) and {*kinds} <= {"Squeezed", "Blocked", "Element"}
        if not known and self._sized:
            self._unknown.append(f"which blocks of '{memory.name}' are taken depends on what is not known")
        rows = None
        if known:
            rows = np.zeros((len(self._coordinates), len(sizes)), int)
            for dim, start in enumerate(starts):
                rows[:, dim] = start
            rows = rows * np.where(kinds == "Blocked", sizes, 1) - padding[:, 0]
        return _Blocks(memory, mapping, sizes, tuple(mapping.array_aval.shape), padding, kinds == "Squeezed", rows)

    def _is_second(self, blocks: _Blocks) -> bool:
        """Return whether an output begins as what an argument holds."""
        return any(blocks is second for _, second in self._aliases)

    def _outputs(self) -> list[_Blocks]:
        return [blocks for blocks in self._blocks if blocks.memory.role == "output"]

    def _outside(self, blocks: _Blocks) -> None:
        """Look for a block that begins outside of its array; one that ends there is padded."""
        if blocks.starts is None or not self._count:
            return
        ends = np.maximum(np.array(blocks.shape, int) + blocks.padding[:, 1], 1)
        wrong = ((blocks.starts < -blocks.padding[:, 0]) | (blocks.starts >= ends)).any(-1)
        if wrong.any():
            step = int(np.argmax(wrong))
            where = f"begins at {blocks.starts[step].tolist()}, outside of {list(blocks.shape)}"
            text = f"the block of '{blocks.memory.name}' at {{step}} {where}"
            self._report("outside", blocks.memory, blocks.origin.index_map_jaxpr.jaxpr, text, step)

    # The body, step by step.
    def _prepare(self) -> bool:
        """Set what outputs begin with; return whether the places that steps read and write are kept."""
        for blocks in self._blocks:
            memory, is_output = blocks.memory, blocks.memory.role == "output"
            if self._is_second(blocks) or (is_output and blocks.starts is None and self._count > 1):
                memory.written = memory.all_written()
            is_read = any(blocks is first for first, _ in self._aliases)
            if self._parallel and (is_read or (is_output and not self._is_flushed(blocks))):
                memory.boxes = []
        return any(blocks.memory.boxes is not None for blocks in self._blocks)

    def _follow(self) -> None:
        """Evaluate the steps in their order; one that begins as an earlier one leaves what that left."""
        is_tracked, axes = self._prepare(), _axes(self._jaxpr)
        begin = {ref: ref.written for ref in self._refs}
        own = [ref for ref in self._refs if ref.role == "scratch"]
        changing = [*own, *(blocks.memory for blocks in self._outputs())]
        scratch = dict[tuple[int, ...], dict[RefMemory, Array]]()
        left, ever = dict[tuple[Any, ...], list[Array]](), set[RefMemory]()
        for step, place in enumerate(self._coordinates[:FOLLOWED].tolist()):
            key = tuple(place[dim] for dim in self._parallel)
            before = scratch.setdefault(key, {})
            for ref in own if self._parallel else ():
                ref.by_others, ref.written = ref in ever and ref not in before, before.get(ref, begin[ref])
            for blocks in self._outputs():
                blocks.memory.written = blocks.written.get(_key(blocks, step), begin[blocks.memory])
            ids = [place[dim] if self._sized else None for dim in self._logical]
            state = (*(ids[axis] for axis in axes), *(ref.alike for ref in changing), *(ref.by_others for ref in own))
            if not is_tracked and state in left:
                for ref, written in zip(changing, left[state], strict=True):
                    ref.written = written
            else:
                self._evaluation.step, self._evaluation.ids = step, ids
                try:
                    self._evaluation.evaluate(self._jaxpr, self._refs)
                except OutOfBudget:
                    break
                if None not in (*state, *(ref.alike for ref in changing)):
                    left[state] = [ref.written for ref in changing]
            for blocks in self._outputs():
                blocks.written[_key(blocks, step)] = blocks.memory.written
            before |= {ref: ref.written for ref in own if ref.alike is not False}
            ever |= before.keys()
        else:
            step = min(len(self._coordinates), FOLLOWED)
        self._is_followed = step == self._count
        if not self._is_followed:
            self._unseen.append(f"only {step} of {self._count} steps were evaluated")

    def _never_written(self, blocks: _Blocks) -> None:
        """Look for a part of an output that no step writes."""
        memory, name = blocks.memory, blocks.memory.name
        if self._is_second(blocks) or self._count != len(self._coordinates):
            return
        if self._is_followed and not memory.is_stored and memory.role == "output" and 0 not in blocks.shape:
            text = f"nothing is ever stored to '{name}'"
            self._report("never written", memory, self._jaxpr, text, None)
            return
        if blocks.starts is None:
            return
        gap = _gap(blocks)
        if gap is not None:
            text = f"no step of the grid writes '{name}'{shown(gap)}, whose shape is {list(blocks.shape)}"
            self._report("never written", memory, blocks.origin.index_map_jaxpr.jaxpr, text, None)
            return
        for start, written in blocks.written.items() if self._is_followed else ():
            ends = np.minimum(blocks.sizes, np.array(blocks.shape, int) - start)[~blocks.squeezed]
            part = written[tuple(slice(0, end) for end in ends)]
            if part.size and not (part.flat[0] if not any(written.strides) else part.all()):
                lows = [int(axis.min()) for axis in np.nonzero(~part)]
                highs = [int(axis.max()) + 1 for axis in np.nonzero(~part)]
                text = f"no step writes {shown((tuple(lows), tuple(highs)))} of the block of '{name}' at {{step}}"
                step = int(np.argmax((blocks.starts == start).all(-1)))
                self._report("never written", memory, self._jaxpr, text, step)
                return

    # Steps that may run at the same time.
    def _is_flushed(self, blocks: _Blocks) -> bool:
        """Return whether each step writes back its whole block."""
        space = str(getattr(blocks.origin.transformed_block_aval, "memory_space", "")).lower()
        return self._pipelined and not space.endswith(("any", "hbm"))

    def _written_boxes(self, blocks: _Blocks) -> tuple[Array, Array, Array]:
        """Return the steps that surely write an output, and where their parts begin and end."""
        if self._is_flushed(blocks):
            assert blocks.starts is not None
            return np.arange(len(blocks.starts)), blocks.starts, blocks.starts + blocks.sizes
        return _boxes(blocks)

    def _races(self, blocks: _Blocks) -> None:
        """Look for two parallel steps that write one place of an output."""
        if not self._parallel or blocks.starts is None or not self._count:
            return
        pair = self._overlap(self._written_boxes(blocks), None, blocks.memory.name)
        if pair is not None:
            both = "{step} and {other}, which may run at the same time,"
            text = f"{both} write the same place of '{blocks.memory.name}'"
            self._report("race", blocks.memory, blocks.origin.index_map_jaxpr.jaxpr, text, *pair)

    def _alias(self, read: _Blocks, written: _Blocks) -> None:
        """Look for a step that reads what a parallel one writes, of an array that is both argument and output."""
        if not self._parallel or read.starts is None or written.starts is None or not self._count:
            return
        pair = self._overlap(_boxes(read), self._written_boxes(written), read.memory.name)
        if pair is not None:
            names = f"'{read.memory.name}', which is the memory of '{written.memory.name}'"
            text = f"{{step}} reads a place of {names}, that {{other}} writes, and both may run at the same time"
            self._report("race", read.memory, written.origin.index_map_jaxpr.jaxpr, text, *pair)

    def _overlap(
        self, first: tuple[Array, Array, Array], second: tuple[Array, Array, Array] | None, name: str
    ) -> tuple[int, int] | None:
        """Return two steps with other parallel coordinates and a common place."""
        first = self._unique(*first)
        if second is None:  # most blocks are the same or disjoint
            places, group = np.unique(_codes(np.concatenate(first[1:], -1)), return_inverse=True)
            where = self._coordinates[first[0]][:, self._parallel]
            if len(places) < len(group):
                order = np.argsort(group, kind="stable")
                same = (np.diff(group[order]) == 0) & (np.diff(where[order], axis=0) != 0).any(-1)
                if same.any():
                    at = int(np.argmax(same))
                    return int(first[0][order[at]]), int(first[0][order[at + 1]])
            second = first
        else:
            second = self._unique(*second)
        if len(first[0]) > PAIRS or len(second[0]) > PAIRS:
            self._unseen.append(f"of '{name}' only blocks that are the same were compared between parallel steps")
            first, second = ((each[0][:PAIRS], each[1][:PAIRS], each[2][:PAIRS]) for each in (first, second))
        (steps, lows, highs), (others, low, high) = first, second
        meets = np.ones((len(steps), len(others)), bool)
        for dim in range(lows.shape[1]):
            meets &= (lows[:, None, dim] < high[None, :, dim]) & (low[None, :, dim] < highs[:, None, dim])
        apart = np.zeros_like(meets)
        for dim in self._parallel:
            apart |= self._coordinates[steps][:, None, dim] != self._coordinates[others][None, :, dim]
        pairs = np.argwhere(meets & apart)
        return (int(steps[pairs[0][0]]), int(others[pairs[0][1]])) if len(pairs) else None

    def _unique(self, steps: Array, lows: Array, highs: Array) -> tuple[Array, Array, Array]:
        """Leave out steps with the same parallel coordinates and place as others."""
        rows = np.concatenate((self._coordinates[steps][:, self._parallel], lows, highs), -1)
        index = np.sort(np.unique(_codes(rows), return_index=True)[1])
        return steps[index], lows[index], highs[index]

    def _report(self, kind: Kind, memory: RefMemory, source: Any, text: str, *steps: int | None) -> None:
        """Note a fault, each kind of a reference once for an equation or a program."""
        numbers = [step for step in (steps or (self._evaluation.step,)) if step is not None]
        places = tuple(tuple(self._coordinates[step].tolist()) for step in numbers)
        words = text.format(step=_step(places[:1]), other=_step(places[1:]))
        key = kind, memory, id(source)
        if key not in self._faults:
            self._faults[key] = MemoryFault(kind, memory.name, words, places, self._place(source))

    def _place(self, source: Any) -> str:
        """Return the line of an equation, or of the function of a jaxpr."""
        if not hasattr(source, "eqns"):
            own, call = (_place_of(each) for each in (source, self._eqn))
            return (
                self._place(self._jaxpr) if own in ("", call) else own
            )  # in gradients jax keeps that of the call alone
        _, _, where = str(source.debug_info.func_src_info or "").rpartition(" at ")
        file, _, line = where.rpartition(":")
        return f"{short(file)}:{line}" if file else ""


def _step(places: Sequence[tuple[int, ...]]) -> str:
    return f"step {places[0]}" if places and places[0] else "the only step"


def _place_of(equation: Any) -> str:
    frame = frame_of(equation)
    return "" if frame is None else f"{short(frame.file_name)}:{frame.line_num}"


def _key(blocks: _Blocks, step: int) -> tuple[int, ...]:
    return () if blocks.starts is None else tuple(blocks.starts[step].tolist())


def _axes(jaxpr: Any) -> list[int]:
    """Return the dimensions of the grid whose numbers a body asks for."""
    axes = {eqn.params["axis"] for eqn in jaxpr.eqns if eqn.primitive.name == "program_id"}
    return sorted(axes.union(*(_axes(inner) for eqn in jaxpr.eqns for inner in inner_jaxprs(eqn))))


def _boxes(blocks: _Blocks) -> tuple[Array, Array, Array]:
    """Return the steps, and where the parts begin and end that are surely read or written."""
    events = [(step, *blocks.part(step, box)) for step, box in blocks.memory.boxes or ()]
    dims = len(blocks.shape)
    lows, highs = (np.array([event[n] for event in events], int).reshape(-1, dims) for n in (1, 2))
    return np.array([step for step, _, _ in events], int), lows, highs


def _codes(rows: Array) -> Array:
    """Return one integer for each row, equal for equal rows."""
    if not rows.size:
        return np.zeros(len(rows), int)
    low = rows.min(0)
    extents = rows.max(0) - low + 1
    if math.prod(extents.tolist()) >= 2**62:
        return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1]).reshape(-1)
    return np.asarray(np.ravel_multi_index(tuple((rows - low).T), tuple(extents.tolist())))


def _gap(blocks: _Blocks) -> Box | None:
    """Return a part of an array that is in no block."""
    assert blocks.starts is not None
    starts = np.unique(blocks.starts, axis=0) if len(blocks.starts) <= PAIRS else blocks.starts
    edges: list[Array] = []
    for dim, size in enumerate(blocks.shape):
        ends = np.concatenate((starts[:, dim], starts[:, dim] + blocks.sizes[dim], [0, size]))
        edges.append(np.unique(np.clip(ends, 0, size)))
    if math.prod(len(each) - 1 for each in edges) > CELLS:
        return None
    covered = np.zeros([len(each) for each in edges], np.int32)
    for corner in itertools.product((0, 1), repeat=len(edges)):  # of every block: sums of these are what blocks cover
        at = [starts[:, dim] + is_end * blocks.sizes[dim] for dim, is_end in enumerate(corner)]
        places = (np.searchsorted(each, each_at.clip(0, each[-1])) for each, each_at in zip(edges, at, strict=True))
        np.add.at(covered, tuple(places), (-1) ** sum(corner))
    for dim in range(len(edges)):
        np.cumsum(covered, dim, out=covered)
    is_covered = covered[(slice(-1),) * len(edges)] > 0
    if is_covered.all():
        return None
    cell = np.unravel_index(int(np.argmin(is_covered)), is_covered.shape)
    lows = tuple(int(each[n]) for each, n in zip(edges, cell, strict=True))
    return lows, tuple(int(each[n + 1]) for each, n in zip(edges, cell, strict=True))


def _parallel(params: Any, dims: int, vmapped: Sequence[int]) -> tuple[list[int], bool]:
    """Return the dimensions of a grid whose steps may run at the same time, and whether blocks are written back whole.

    Those of Triton all do, and of Mosaic GPU where nothing is said; on a TPU those that are said to: where nothing is,
    jax takes each dimension as `arbitrary`, in order.
    """
    if isinstance(params, Mapping):
        kind, params = next(iter(params.items()), ("", None))
    else:
        kind = type(params).__module__
    is_gpu = "gpu" in str(kind)
    if "triton" in str(kind) or (is_gpu and getattr(params, "dimension_semantics", None) is None):
        return list(range(dims)), False
    said = getattr(params, "dimension_semantics", None) or ()
    names = [str(getattr(each, "name", each)).lower() for each in said]
    for dim in sorted(vmapped) if len(names) < dims else ():
        names.insert(dim, "")
    return [dim for dim, name in enumerate(names) if "parallel" in name], not is_gpu
