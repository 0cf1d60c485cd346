"""What the steps of a kernel do to its references: what they read, write, and read before anything is written there.

The body is evaluated step by step, in the order of the grid, with the numbers that are known whatever the arrays hold:
program ids, literals, prefetched scalars. Of a condition that is unknown both branches are evaluated: what they write
may be written, and what they read need not be read. So what is wrong here is wrong for all values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from samebits.interpret.equation import Array, scan_sizes

Role = Literal["scalars", "argument", "output", "scratch", "other"]
Kind = Literal["outside", "never written", "unwritten read", "race", "writes into an argument"]
Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a part of an array begins and ends."""

EVALUATIONS = 200_000
"""Of how many equations the steps of one kernel may be evaluated."""

ITERATIONS = 64
"""So many iterations of a loop are evaluated by their number; all others at once, by an unknown number."""

TRACKED = 1 << 24
"""Elements of the largest block of which parts are told apart."""


class OutOfBudget(Exception):
    """The equations of more steps are not evaluated."""


@dataclass(eq=False, slots=True)
class RefMemory:
    """What a reference of a kernel refers to.

    Args:
        name: of the kernel's parameter.
        role: what it is to the kernel; what is `other` holds no numbers, as a semaphore.
        shape: of the block.
        table: prefetched scalars that are known.
        written: of each element, whether something may have been written to it.
        is_stored: whether anything may ever be.
        by_others: whether what was written before may be written by steps that run in parallel, and by these alone.
        boxes: by step, what it surely reads of an argument and writes of an output; None where nobody asks.
    """

    name: str
    role: Role
    shape: tuple[int, ...]
    table: Array | None = None
    written: Array = field(init=False)
    is_stored: bool = False
    by_others: bool = False
    boxes: list[tuple[int, Box]] | None = None

    def __post_init__(self) -> None:
        self.written = self.all_written(self.role in ("argument", "scalars", "other"))

    def all_written(self, is_written: bool = True) -> Array:
        """Return one answer for all elements, which takes no memory."""
        return np.broadcast_to(np.asarray(is_written), self.shape)

    @property
    def alike(self) -> bool | None:
        """The one answer for all elements; None where elements are told apart."""
        return bool(self.written.flat[0]) if self.written.size and not any(self.written.strides) else None

    def write(self, box: Box | None) -> None:
        """Note that something may be written, to unknown elements where there is no box."""
        self.is_stored = True
        if self.alike:
            return
        if box is None or box == ((0,) * len(self.shape), self.shape) or self.written.size > TRACKED:
            self.written = self.all_written()
            return
        if not self.written.flags.writeable:
            self.written = np.array(self.written)
        self.written[slices(box)] = True


def slices(box: Box) -> tuple[slice, ...]:
    """Return a box as an index."""
    return tuple(slice(*ends) for ends in zip(*box, strict=True))


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """A value that was read where nothing was written.

    Args:
        memory: where.
        equation: that reads.
        is_whole: whether nothing of what was read was written before, rather than a part.
    """

    memory: RefMemory
    equation: Any
    is_whole: bool


Numeric = (int, np.integer, np.bool_, np.ndarray)
Value = Any
"""A known number (of an array: of all its elements; of index maps: one for each step), a `RefMemory`, an
`UnwrittenRead`, or None of what is unknown."""


def _quotient(first: Any, second: Any) -> Any:
    return None if np.any(second == 0) else (first - np.fmod(first, second)) // second


def _remainder(first: Any, second: Any) -> Any:
    return None if np.any(second == 0) else np.fmod(first, second)


_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "max": np.maximum, "min": np.minimum, "div": _quotient, "rem": _remainder, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift, "clamp": lambda low, value, high: np.clip(value, low, high),
}  # fmt: skip
_SAME = frozenset(
    ("convert_element_type", "broadcast_in_dim", "broadcast_to", "reshape", "squeeze", "copy", "multiple_of", "copy_p")
)
"""Primitives that leave the number of all elements what it is."""

_PARTS = frozenset(("slice", "dynamic_slice", "gather", "split", "dynamic_index_in_dim"))
"""Primitives that take some elements, perhaps those that were written."""

_ABSORBING = {"and": False, "or": True}
"""By primitive, the predicate that decides alone."""


class KernelSteps:
    """Evaluates index maps and bodies of one kernel.

    Args:
        sizes: of the grid, as the body counts its dimensions; None where they are not known.
        aliased: the arguments that are also outputs.
        report: gets what is wrong: the kind, the memory, the equation, and text with `{step}`.
    """

    def __init__(
        self,
        sizes: Sequence[int | None],
        aliased: Sequence[RefMemory],
        report: Callable[[Kind, RefMemory, Any, str], None],
    ) -> None:
        self._aliased = aliased
        self._report = report
        self.step = 0
        """The number of the step that is evaluated."""
        self.ids: Sequence[Value] = ()
        """The numbers of that step, as the body counts the dimensions of the grid."""
        self._left = EVALUATIONS
        self._literals: dict[int, Value] = {}
        # Primitives with a rule of their own; all others are arithmetic, calls, or unknown.
        self._rules: dict[str, Callable[[Any, Sequence[Value], bool], Sequence[Value]]] = {
            **dict.fromkeys(("addupdate", "get", "masked_load", "masked_swap", "swap"), self._access),
            "cond": self._cond,
            "num_programs": lambda eqn, values, surely: [sizes[eqn.params["axis"]]],
            "program_id": lambda eqn, values, surely: [self.ids[eqn.params["axis"]]],
            "run_scoped": self._run_scoped,
            "scan": self._scan,
            "select_n": self._select_n,
            "while": self._while,
        }

    def evaluate(self, jaxpr: Any, values: Sequence[Value], surely: bool = True) -> list[Value]:
        """Return the outputs of an open or closed jaxpr.

        Args:
            jaxpr: the program.
            values: its inputs.
            surely: whether it is executed whatever the values are.

        Raises:
            OutOfBudget: it takes too long.
        """
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        known: dict[Any, Value] = dict(zip(jaxpr.invars, values, strict=True))

        def read(var: Any) -> Value:
            return self._literal(var) if hasattr(var, "val") else known.get(var)

        for eqn in jaxpr.eqns:
            self._left -= 1
            if self._left < 0:
                raise OutOfBudget
            outputs = self._rules.get(eqn.primitive.name, self._other)(eqn, [*map(read, eqn.invars)], surely)
            known.update(zip(eqn.outvars, outputs, strict=True))
        return [*map(read, jaxpr.outvars)]

    def _literal(self, var: Any) -> Value:
        """Return a constant where it is an integer or a predicate."""
        if id(var) not in self._literals:
            number = np.asarray(var.val)
            self._literals[id(var)] = number.item() if number.dtype.kind in "iub" and not number.ndim else None
        return self._literals[id(var)]

    def _other(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        """Evaluate arithmetic and calls; of all else a reference may be written, and the result is unknown."""
        name, nothing = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in _ABSORBING and eqn.outvars[0].aval.dtype == bool and any(_is(v, _ABSORBING[name]) for v in values):
            return [_ABSORBING[name]]
        if (name in _INTEGERS or name in _SAME) and values and all(isinstance(value, Numeric) for value in values[:3]):
            return [_result(eqn, values[0] if name in _SAME else _INTEGERS[name](*values))]
        unwritten = next((value for value in values if isinstance(value, UnwrittenRead)), None)
        inner = next(inner_jaxprs(eqn), None)
        if inner is not None and len(inner.invars) == len(values) and len(inner.outvars) == len(eqn.outvars):
            return self.evaluate(inner, values, surely)
        for value in values:
            if isinstance(value, RefMemory):
                value.write(None)
        if unwritten is None or (name in _PARTS and not unwritten.is_whole):
            return nothing
        return [unwritten] * len(eqn.outvars)

    def _select_n(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        which, *cases = values
        if isinstance(which, np.ndarray) and which.ndim:
            known = all(isinstance(case, Numeric) for case in cases)
            return [np.choose(which.astype(int), cases) if known else None]
        if isinstance(which, Numeric):
            return [cases[int(which)]]
        if isinstance(which, UnwrittenRead):
            return [which]
        return [cases[0] if all(isinstance(case, UnwrittenRead) for case in cases) else None]

    # References.
    def _access(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        """Evaluate what reads a reference, writes it, or both, perhaps under a mask."""
        name, mask = eqn.primitive.name, None
        if name.startswith("masked"):
            leaves = [_UNKNOWN if value is None else value for value in values]
            memory, transforms, value, mask = eqn.params["args_tree"].unflatten(leaves)
            mask = value if name == "masked_load" else mask
        else:
            memory, value, *indices = values if name != "get" else (values[0], None, *values[1:])
            transforms = eqn.params["tree"].unflatten(indices)
        if name == "get" and memory.role == "scalars":
            return [_scalar(memory, transforms)]
        surely = surely and (mask is None or _is(mask, True))
        box = self._box(eqn, memory, transforms, surely)
        is_dropped = "swap" in name and type(eqn.outvars[0]).__name__ == "DropVar"
        before = None if is_dropped else self._read(eqn, memory, box, surely)
        if name not in ("get", "masked_load"):
            self._write(eqn, memory, before if name == "addupdate" and before else value, box, surely)
        return [before] * len(eqn.outvars)

    def _read(self, eqn: Any, memory: RefMemory, box: Box | None, surely: bool) -> Value:
        """Return what is known of what is read."""
        if not surely or memory.alike:
            if surely and memory.role == "argument" and memory.boxes is not None and box is not None:
                memory.boxes.append((self.step, box))
            return None
        part = memory.written if box is None else memory.written[slices(box)]
        is_whole = memory.alike is False or not part.any()
        is_part = part.size and (is_whole or (box is not None and not part.all()))
        return UnwrittenRead(memory, eqn, is_whole) if is_part else None

    def _write(self, eqn: Any, memory: RefMemory, value: Value, box: Box | None, surely: bool) -> None:
        if surely:
            self._use(value)
        if memory.role == "scalars":  # published kernels keep state in them
            memory.table = None
        if memory.role == "argument" and memory not in self._aliased:
            text = f"the kernel writes into its argument '{memory.name}'"
            self._report("writes into an argument", memory, eqn, text)
        if memory.role == "output" and memory.boxes is not None and box is not None and surely:
            memory.boxes.append((self.step, box))
        memory.write(box)

    def _use(self, value: Value) -> None:
        """Report a value that was never written, where it decides or is stored."""
        if isinstance(value, UnwrittenRead):
            kind: Kind = "race" if value.memory.by_others and value.is_whole else "unwritten read"
            why = f"before {'anything' if value.is_whole else 'all of it'} is written there"
            if kind == "race":
                why = "where only steps that may run at the same time wrote to it"
            text = f"'{value.memory.name}' is read at {{step}}, {why}"
            self._report(kind, value.memory, value.equation, text)

    def _box(self, eqn: Any, memory: RefMemory, transforms: Any, surely: bool) -> Box | None:
        """Return which part of a block is meant, where that is known and it is there."""
        box = box_of(memory.shape, transforms)
        if box is None or all(low >= 0 and high <= size for low, high, size in zip(*box, memory.shape, strict=True)):
            return box
        if surely and memory.role != "other":
            text = f"at {{step}}, '{memory.name}'{shown(box)} lies outside of its block of {list(memory.shape)}"
            self._report("outside", memory, eqn, text)
        return None

    # Control flow.
    def _cond(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        which, *operands = values
        branches = eqn.params["branches"]
        if surely:
            self._use(which)
        if isinstance(which, Numeric) and not np.ndim(which):
            return self.evaluate(branches[min(max(int(which), 0), len(branches) - 1)], operands, surely)
        each = [self.evaluate(branch, operands, False) for branch in branches]
        if isinstance(which, np.ndarray) and all(isinstance(value, Numeric) for outputs in each for value in outputs):
            which = np.clip(which.astype(int), 0, len(branches) - 1)
            return [np.choose(which, outputs) for outputs in zip(*each, strict=True)]
        return [None] * len(eqn.outvars)

    def _scan(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        constants, carries = scan_sizes(eqn.params)
        consts, carry = values[:constants], list(values[constants : constants + carries])
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        elements = [None] * (len(values) - constants - carries)
        for _ in range(min(length, ITERATIONS)):
            carry = self.evaluate(body, [*consts, *carry, *elements], surely)[:carries]
        if length > ITERATIONS:
            self.evaluate(body, [*consts, *[None] * carries, *elements], surely)
            carry = [None] * carries
        return [*carry, *[None] * (len(eqn.outvars) - carries)]

    def _while(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        params = eqn.params
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        tests, consts, carry = values[:first], values[first:second], list(values[second:])
        for _ in range(ITERATIONS):
            (goes_on,) = self.evaluate(params["cond_jaxpr"], [*tests, *carry], surely)
            if surely:
                self._use(goes_on)
            if not isinstance(goes_on, Numeric):
                break
            if not goes_on:
                return carry
            carry = self.evaluate(params["body_jaxpr"], [*consts, *carry], surely)
        unknown = [None] * len(carry)
        self.evaluate(params["body_jaxpr"], [*consts, *unknown], False)
        return unknown

    def _run_scoped(self, eqn: Any, values: Sequence[Value], surely: bool) -> Sequence[Value]:
        jaxpr = eqn.params["jaxpr"]
        names = names_of(jaxpr, [f"scratch {number}" for number in range(len(jaxpr.invars))])
        inner = [memory_of(var.aval, name, "scratch") for var, name in zip(jaxpr.invars, names, strict=True)]
        whole = jaxpr.replace(constvars=(), invars=[*jaxpr.constvars, *jaxpr.invars])
        return self.evaluate(whole, [*values, *inner], surely)


_UNKNOWN = object()
"""Stands in trees for a leaf that is unknown, where None is that of nothing at all."""


def memory_of(aval: Any, name: str, role: Role) -> RefMemory:
    """Return the memory of a reference, to which nothing is written yet."""
    numbers = isinstance(getattr(aval, "dtype", None), np.dtype)
    return RefMemory(name, role if numbers else "other", tuple(aval.shape))


def names_of(jaxpr: Any, others: Sequence[str]) -> list[str]:
    """Return the names of a program's parameters, or other ones where jax did not keep them."""
    names = getattr(jaxpr.debug_info, "arg_names", None) or ()
    return [str(name) for name in names] if len(names) == len(others) else list(others)


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """Yield the open jaxprs in the parameters of an equation."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner


def box_of(shape: Sequence[int], transforms: Any) -> Box | None:
    """Return the part of a block that indices mean, one after the other; None where that is not known."""
    lows, highs, dims = [0] * len(shape), list(shape), list(range(len(shape)))
    for transform in transforms:
        indices = getattr(transform, "indices", None)
        if indices is None or len(indices) != len(dims):
            return None
        kept = []
        for dim, index in zip(dims, indices, strict=True):
            is_slice = hasattr(index, "stride")
            start, size = (index.start, index.size) if is_slice else (index, 1)
            known = all(isinstance(number, Numeric) and not np.ndim(number) for number in (start, size))
            if not known or (is_slice and index.stride != 1):
                return None
            lows[dim] += int(start)
            highs[dim] = lows[dim] + int(size)
            kept += [dim] if is_slice else []
        dims = kept
    return tuple(lows), tuple(highs)


def shown(box: Box) -> str:
    """Return a box as it is written in Python."""
    return f"[{', '.join(f'{low}:{high}' for low, high in zip(*box, strict=True))}]"


def _scalar(memory: RefMemory, transforms: Any) -> Value:
    """Return a prefetched scalar, or one for each step."""
    indices = transforms[0].indices if len(transforms) == 1 else ()
    known = all(isinstance(index, Numeric) for index in indices)
    if memory.table is None or not known or len(indices) != memory.table.ndim:
        return None
    places = [np.clip(index, 0, size - 1) for index, size in zip(indices, memory.table.shape, strict=True)]
    return memory.table[tuple(places)]


def _is(value: Value, predicate: bool) -> bool:
    return isinstance(value, Numeric) and np.ndim(value) == 0 and bool(value) is predicate


def _result(eqn: Any, number: Any) -> Value:
    """Return a number in the dtype of a result; floats are unknown."""
    dtype = eqn.outvars[0].aval.dtype
    if number is None or not isinstance(dtype, np.dtype) or dtype.kind not in "iub":
        return None
    return np.not_equal(number, 0) if dtype.kind == "b" else np.multiply(number, 1)
