"""The smallest program that a compiler makes wrong, as a script that needs nothing but jax.

In: a program as it was written, for a target whose compiled program is wrong. Lines, the mesh and sizes are made fewer
and smaller as long as the compiled program, run on the CPU, stays wrong, and right with what heals it.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from samebits.bisect.search.shrink import divisors, smaller_sizes, smallest
from samebits.compile.compiler import compile_lowered, lower_traced
from samebits.compile.devices import compiler_version, devices
from samebits.compile.executed import RunnableProgram, TargetPrograms, argument_name, programs_of
from samebits.errors import NotCovered, SamebitsError
from samebits.host.accelerator import WITHOUT_TPU
from samebits.interpret.dead_code import only
from samebits.interpret.interpreter import CALLS
from samebits.programs.inputs import records
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from samebits.schema.target import Target

# A traced program as the text of a function that needs nothing but jax, one line for an equation.
TEXTS = {
    "and": "lax.bitwise_and({all})",
    "argmax": "lax.argmax({0}, {axes}[0], {index_dtype})",
    "argmin": "lax.argmin({0}, {axes}[0], {index_dtype})",
    "broadcast_in_dim": "lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions})",
    "concatenate": "lax.concatenate([{all}], {dimension})",
    "convert_element_type": "lax.convert_element_type({0}, {new_dtype})",
    "copy": "{0}",
    "cumsum": "lax.cumsum({0}, {axis}, {reverse})",
    "dot_general": "lax.dot_general({0}, {1}, {dimension_numbers}, preferred_element_type={preferred_element_type})",
    "dynamic_slice": "lax.dynamic_slice({0}, [{rest}], {slice_sizes})",
    "dynamic_update_slice": "lax.dynamic_update_slice({0}, {1}, [{rest}])",
    "gather": "lax.gather({0}, {1}, {dimension_numbers}, {slice_sizes}, mode={mode})",
    "integer_pow": "lax.integer_pow({0}, {y})",
    "iota": "lax.broadcasted_iota({dtype}, {shape}, {dimension})",
    "not": "lax.bitwise_not({all})",
    "optimization_barrier": "lax.optimization_barrier([{all}])",
    "or": "lax.bitwise_or({all})",
    "pad": "lax.pad({0}, {1}, {padding_config})",
    "reduce_max": "lax.reduce_max({0}, {axes})",
    "reduce_min": "lax.reduce_min({0}, {axes})",
    "reduce_sum": "lax.reduce_sum({0}, {axes})",
    "reshape": "lax.reshape({0}, {new_sizes})",
    "reshard": "jax.sharding.reshard({0}, {spec})",
    "rev": "lax.rev({0}, {dimensions})",
    "scatter": "lax.scatter({0}, {1}, {2}, {dimension_numbers}, mode={mode})",
    "scatter-add": "lax.scatter_add({0}, {1}, {2}, {dimension_numbers}, mode={mode})",
    "sharding_constraint": "lax.with_sharding_constraint({0}, {spec})",
    "slice": "lax.slice({0}, {start_indices}, {limit_indices}, {strides})",
    "sort": "lax.sort([{all}], {dimension}, {is_stable}, {num_keys})",
    "square": "lax.square({0})",
    "squeeze": "lax.squeeze({0}, {dimensions})",
    "top_k": "lax.top_k({0}, {k})",
    "transpose": "lax.transpose({0}, {permutation})",
}
"""How an equation is written, by its primitive; others have the name of a function of `jax.lax`, and no parameters."""

MOVES = frozenset(
    ("reshape", "broadcast_in_dim", "transpose", "sharding_constraint", "slice", "rev", "squeeze", "copy")
)
"""What returns elements of its one operand: the integers are in the same range."""


ArrayType = tuple[tuple[int, ...], str]
"""A shape, and the name of a dtype."""

NAME = re.compile(r"\bv\d+\b")
"""A value in a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLine:
    """A statement: values that are the results of a call.

    Args:
        text: of the call.
        functions: that it takes, defined before it.
        moves: whether it returns elements of its operand.
        spec: how the result lies on the mesh, as text; empty where the line does not say it.
    """

    targets: tuple[str, ...]
    text: str
    functions: tuple[TextFunction, ...] = ()
    moves: bool = False
    spec: str = ""

    def shown(self) -> Iterator[str]:
        """Yield its text."""
        for function in self.functions:
            yield from function.shown()
        yield f"{', '.join(self.targets)} = {self.text}"

    def reads(self) -> set[str]:
        """Return the values that it needs."""
        return set(NAME.findall(self.text)).union(*(function.reads() for function in self.functions))

    def renamed(self, names: Mapping[str, str]) -> TextLine:
        """Return the line with other values."""
        functions = tuple(function.renamed(names) for function in self.functions)
        return replace(self, text=renamed(self.text, names), functions=functions)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFunction:
    """A function: its parameters, its lines, and the expression that it returns."""

    name: str
    parameters: tuple[str, ...]
    lines: tuple[TextLine, ...]
    returns: str

    def shown(self) -> Iterator[str]:
        """Yield its text."""
        yield f"def {self.name}({', '.join(self.parameters)}):"
        yield from (f"    {text}" for line in self.lines for text in line.shown())
        yield f"    return {self.returns}"

    def reads(self) -> set[str]:
        """Return the values that it needs of those around it."""
        read = set(NAME.findall(self.returns)).union(*(line.reads() for line in self.lines))
        return read - set(self.parameters) - {name for line in self.lines for name in line.targets}

    def renamed(self, names: Mapping[str, str]) -> TextFunction:
        """Return the function with other values."""
        lines = tuple(line.renamed(names) for line in self.lines)
        return replace(self, lines=lines, returns=renamed(self.returns, names))

    def alive(self) -> TextFunction:
        """Return the function without lines and parameters that nothing needs; loops keep their parameters."""
        needed, lines = set(NAME.findall(self.returns)), list[TextLine]()
        for line in reversed(self.lines):
            if needed.intersection(line.targets):
                lines.append(replace(line, functions=tuple(function.alive() for function in line.functions)))
                needed |= line.reads()
        return replace(self, lines=tuple(reversed(lines)))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other values."""
    return NAME.sub(lambda match: names.get(match[0], match[0]), text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramText:
    """A function `f` of flat arguments, and the types of its values."""

    function: TextFunction
    types: Mapping[str, ArrayType]


def program_text(program: Any, output: int) -> ProgramText:
    """Write a closed jaxpr as a function of flat arguments that returns one of its outputs.

    Raises:
        NotCovered: an equation has no text.
    """
    writer = _Writer()
    return ProgramText(function=writer.function("f", only(program, (output,))), types=writer.types)


class _Writer:
    """Writes the equations of a program, each value with a name of its own."""

    def __init__(self) -> None:
        self.types: dict[str, ArrayType] = {}
        self.numbers, self.functions = itertools.count(), itertools.count(1)

    def function(self, name: str, program: Any) -> TextFunction:
        """Write a closed jaxpr as a function; it returns one value, or a tuple of them."""
        known = dict[Any, str]()
        parameters = tuple(self.value(var, known) for var in program.jaxpr.invars)
        lines = tuple(self.lines(program, known))
        return TextFunction(name=name, parameters=parameters, lines=lines, returns=self.results(program, known))

    def value(self, var: Any, known: dict[Any, str]) -> str:
        """Name a new value."""
        name = f"v{next(self.numbers)}"
        self.types[name] = (tuple(var.aval.shape), str(var.aval.dtype))
        known[var] = name
        return name

    def read(self, var: Any, known: Mapping[Any, str]) -> str:
        """Return the text of an operand."""
        return _constant(var.val, var.aval) if hasattr(var, "val") else known[var]

    def results(self, program: Any, known: Mapping[Any, str], part: slice = slice(None)) -> str:
        """Return the text of what a program returns, or a part of that."""
        return _tuple([self.read(var, known) for var in program.jaxpr.outvars[part]])

    def lines(self, program: Any, known: dict[Any, str]) -> Iterator[TextLine]:
        """Yield the lines of a program; calls are inlined."""
        for var, value in zip(program.jaxpr.constvars, program.consts, strict=True):
            known[var] = _constant(value, var.aval)
        for eqn in program.jaxpr.eqns:
            name, operands = eqn.primitive.name, [self.read(var, known) for var in eqn.invars]
            if name in CALLS:
                inner = _closed(eqn.params[CALLS[name]])
                inside = dict(zip(inner.jaxpr.invars, operands, strict=True))
                yield from self.lines(inner, inside)
                for var, result in zip(eqn.outvars, inner.jaxpr.outvars, strict=True):
                    known[var] = self.read(result, inside)
                continue
            if name in _CONTROL:
                text, functions = _CONTROL[name](self, eqn.params, operands)
            else:
                text, functions = _text(name, eqn.params, operands), ()
            if len(eqn.outvars) == 1 and (name in _CONTROL or name in ("sort", "optimization_barrier")):
                text += "[0]"  # of a list
            spec = eqn.params.get("sharding") if name == "sharding_constraint" else None
            targets = tuple(self.value(var, known) for var in eqn.outvars)
            shown = f"P{tuple(spec.spec)!r}" if spec is not None else ""
            yield TextLine(targets=targets, text=text, functions=functions, moves=name in MOVES, spec=shown)

    def inner(self, program: Any, consts: Sequence[str], *groups: int, returns: Sequence[slice]) -> TextFunction:
        """Write the program of a loop, whose parameters come in groups, each a value or a tuple of values."""
        known = dict[Any, str](zip(program.jaxpr.invars, consts, strict=False))
        parameters, unpack, start = [], [], len(consts)
        for size in groups:
            names = tuple(self.value(var, known) for var in program.jaxpr.invars[start : start + size])
            start += size
            parameters.append(names[0] if size == 1 else f"v{next(self.numbers)}")
            unpack += [TextLine(targets=names, text=parameters[-1])] if size > 1 else []
        lines = (*unpack, *self.lines(program, known))
        results = ", ".join(self.results(program, known, part) for part in returns)
        name = f"f{next(self.functions)}"
        return TextFunction(name=name, parameters=tuple(parameters), lines=lines, returns=results)


Written = tuple[str, tuple[TextFunction, ...]]


def _scan(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    consts, carried = params["num_consts"], params["num_carry"]
    split = consts + carried
    body = writer.inner(
        params["jaxpr"],
        operands[:consts],
        carried,
        len(operands) - split,
        returns=(slice(carried), slice(carried, None)),
    )
    more = ", reverse=True" if params["reverse"] else ""
    initial, scanned = _tuple(operands[consts:split]), _tuple(operands[split:])
    call = f"lax.scan({body.name}, {initial}, {scanned}, {params['length']}{more})"
    return f"jax.tree.leaves({call})", (body,)


def _while(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = len(operands) - second
    condition = writer.inner(params["cond_jaxpr"], operands[:first], carried, returns=(slice(None),))
    body = writer.inner(params["body_jaxpr"], operands[first:second], carried, returns=(slice(None),))
    initial = _tuple(operands[second:])
    return f"jax.tree.leaves(lax.while_loop({condition.name}, {body.name}, {initial}))", (condition, body)


def _branches(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    functions = tuple(writer.function(f"f{next(writer.functions)}", branch) for branch in params["branches"])
    names = ", ".join(function.name for function in functions)
    return f"jax.tree.leaves(lax.switch({operands[0]}, [{names}], {', '.join(operands[1:])}))", functions


_CONTROL: Mapping[str, Callable[[_Writer, Mapping[str, Any], Sequence[str]], Written]] = {
    "scan": _scan,
    "while": _while,
    "cond": _branches,
}


def _text(name: str, params: Mapping[str, Any], operands: Sequence[str]) -> str:
    if name not in TEXTS and (not hasattr(lax, name) or any(value for value in params.values())):
        raise NotCovered(f"the equation '{name}' has no text")
    known = {key: _parameter(value) for key, value in params.items() if f"{{{key}}}" in TEXTS.get(name, "")}
    shardings = [value for key, value in params.items() if key in ("sharding", "dst_sharding") and value is not None]
    known["spec"] = f"P{tuple(shardings[0].spec)!r}" if shardings else ""
    text = TEXTS.get(name, f"lax.{name}({{all}})")
    return text.format(*operands, all=", ".join(operands), rest=", ".join(operands[_FIRST.get(name, 1) :]), **known)


_FIRST = {"dynamic_update_slice": 2}


def _parameter(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"lax.{value}"
    if isinstance(value, np.dtype):
        return repr(value.name)
    if hasattr(value, "_fields") or dataclasses.is_dataclass(value):
        fields = value._fields if hasattr(value, "_fields") else [field.name for field in dataclasses.fields(value)]
        said = [f"{field}={getattr(value, field)!r}" for field in fields if getattr(value, field) != ()]
        return f"lax.{type(value).__name__}({', '.join(said)})"
    return repr(value)


def _constant(value: Any, aval: Any) -> str:
    array = np.asarray(value)
    if array.size != 1 or aval.shape:
        raise NotCovered(f"a constant of shape {array.shape} has no text")
    number = array.item()
    shown = repr(number) if not isinstance(number, float) or math.isfinite(number) else f"float({str(number)!r})"
    return f"jnp.{aval.dtype.name.replace('bool', 'bool_')}({shown})"


def _tuple(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})" if names else "None"


def _closed(program: Any) -> Any:
    from jax.extend.core import ClosedJaxpr

    return program if hasattr(program, "consts") else ClosedJaxpr(program, ())


SECONDS = 30.0
"""How long a search for a smaller program computes at most, on all processors; the last trial may end later."""

LARGEST = 4
"""The largest size that stays as it is: a smaller number in a text may be that of a dimension."""

SMALL = (-4, 5)
"""The values of floats: integers from the first to before the second."""

WRONG = 0.05
"""Which part of the largest value is more than rounding: inputs are small integers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallProgram:
    """A program as text, with what it gets and where it is compiled for.

    Args:
        specs: by argument, how it lies on the mesh, as text.
        ranges: by value, of integers: the lowest, and one more than the highest.
        options: of the compiler, under which it is wrong.
        healing: more options, with which it is right; empty where none are known.
    """

    function: TextFunction
    types: Mapping[str, ArrayType]
    specs: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int]]
    target: str
    mesh: MeshSpec
    mode: Mode
    options: Mapping[str, str] = field(default_factory=dict)
    healing: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Return the text of its function."""
        return "\n".join(self.function.shown())

    def arguments(self) -> list[Any]:
        """Return its arguments: small integers, whose sums are exact."""
        taken = [(name, *self.types[name]) for name in self.function.parameters]
        return [
            np.random.default_rng(0).integers(*self.ranges.get(name, SMALL), shape).astype(dtype)
            for name, shape, dtype in taken
        ]

    def with_lines(self, lines: Sequence[TextLine], returns: str, arguments: Sequence[str] = ()) -> SmallProgram:
        """Return it with other lines, and values that become arguments; without what nothing needs."""
        function = replace(self.function, lines=tuple(lines), returns=returns).alive()
        needed = set(NAME.findall(function.returns)).union(*(line.reads() for line in function.lines))
        parameters = tuple(name for name in (*function.parameters, *arguments) if name in needed)
        return replace(self, function=replace(function, parameters=parameters))


def is_wrong(program: SmallProgram, options: Mapping[str, str]) -> bool:
    """Tell whether the compiled program, run on the CPU, differs from what is written by more than rounding.

    Raises:
        Exception: it cannot be traced, compiled or run.
    """
    built = program.mesh.build(program.mode, devices(Target(name=program.target)))
    space: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "P": P}
    exec(program.source, space)
    function, values = space["f"], program.arguments()
    with jax.set_mesh(replace(program.mesh, axes=tuple((axis, 1) for axis, _ in program.mesh.axes)).build("auto")):
        right = np.asarray(jax.jit(function)(*values), np.float64)
    with jax.set_mesh(built):
        types = [
            jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=NamedSharding(built, eval(spec, space)))
            for value, spec in zip(values, map(program.specs.__getitem__, program.function.parameters), strict=True)
        ]
        traced = jax.jit(function).trace(*types)
    lowered = lower_traced(traced, mesh=built, target=program.target, label="the program")
    compiled = RunnableProgram.of(compile_lowered(lowered, options), traced, lowered.taken, built)
    output = np.asarray(jax.jit(lambda *args: compiled(*args)[0])(*values), np.float64)
    far = ~(np.abs(output - right) <= WRONG * np.nanmax(np.abs(right), initial=0.0))
    return bool((far & ~(np.isnan(output) & np.isnan(right))).any())


def smallest_program(program: SmallProgram, seconds: float = SECONDS) -> SmallProgram | None:
    """Make a program smaller while it stays wrong; None where it is not wrong with small integers."""
    seen: dict[tuple[str, ...], bool] = {}
    end = time.process_time() + seconds

    def fails(candidate: SmallProgram) -> bool:
        if time.process_time() > end:
            return False
        key = (candidate.source, candidate.target, candidate.mesh.id, str(candidate.specs), str(candidate.ranges))
        if key not in seen:
            try:
                seen[key] = is_wrong(candidate, candidate.options) and not (
                    candidate.healing and is_wrong(candidate, {**candidate.options, **candidate.healing})
                )
            except (SamebitsError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
                seen[key] = False  # what is cut off is needed
        return seen[key]

    program = program.with_lines(program.function.lines, program.function.returns)
    end += 3600.0  # of the whole program, whether it is wrong at all
    if not fails(program):
        return None
    end = time.process_time() + seconds
    return smallest(program, smaller_programs, fails)


def smaller_programs(program: SmallProgram) -> Iterator[SmallProgram]:
    """Yield smaller programs: first those that begin later or end earlier, last those without a single line."""
    lines = program.function.lines
    steps = [1 << step for step in range(len(lines).bit_length())]
    yield from _with_given(program, [(0, len(lines) - step) for step in steps])
    for step in reversed(steps):
        for end in dict.fromkeys((step, len(lines) - step)):
            if 0 < end < len(lines):
                yield program.with_lines(lines[:end], lines[end - 1].targets[0])
    yield from _at_smaller_sizes(program)
    yield from _on_fewer_devices(program)
    for size in reversed(steps):
        yield from _with_given(program, [(start, start + size) for start in range(0, len(lines), size)])
    for function in _without_a_line(program.function, program.types):
        yield program.with_lines(function.lines, function.returns)


def _with_given(program: SmallProgram, ranges: Sequence[tuple[int, int]]) -> Iterator[SmallProgram]:
    """Yield programs that get the results of some lines as arguments."""
    lines = program.function.lines
    for start, end in ranges:
        cut, rest = lines[start:end], (*lines[:start], *lines[end:])
        changed = _with_arguments(program, cut, set().union(*(line.reads() for line in rest)))
        if cut and rest and changed is not None:
            names = [name for line in cut for name in line.targets]
            yield changed.with_lines(rest, program.function.returns, names)


def _with_arguments(program: SmallProgram, cut: Sequence[TextLine], needed: set[str]) -> SmallProgram | None:
    """Return a program that knows how the results of some lines lie, and their ranges; None where they have none."""
    specs, ranges = dict(program.specs), dict(program.ranges)
    for line in cut:
        operand = next(iter(NAME.findall(line.text)), "")
        for name in line.targets:
            specs[name] = line.spec or "P()"
            if line.moves and operand in ranges:
                ranges[name] = ranges[operand]
            if name in needed and name not in ranges and "float" not in program.types[name][1]:
                return None
    return replace(program, specs=specs, ranges=ranges)


def _without_a_line(function: TextFunction, types: Mapping[str, ArrayType]) -> Iterator[TextFunction]:
    """Yield functions in which a line, of an inner function too, gives one of its operands."""
    for number, line in enumerate(function.lines):
        before, after = function.lines[:number], function.lines[number + 1 :]
        if len(line.targets) == 1:
            (target,) = line.targets
            for operand in dict.fromkeys(NAME.findall(line.text)):
                if target in types and types.get(operand) == types[target]:
                    names = {target: operand}
                    rest = (*before, *(later.renamed(names) for later in after))
                    yield replace(function, lines=rest, returns=renamed(function.returns, names))
        for place, inner in enumerate(line.functions):
            for smaller in _without_a_line(inner, types):
                inside = (*line.functions[:place], smaller, *line.functions[place + 1 :])
                yield replace(function, lines=(*before, replace(line, functions=inside), *after))


def _on_fewer_devices(program: SmallProgram) -> Iterator[SmallProgram]:
    """Yield programs in which an axis of the mesh is smaller, on a smaller slice before a part of this one."""
    generation, _, chips = program.target.partition(":")
    sizes = [int(size) for size in chips.split("x") if size]
    for number, (axis, length) in enumerate(program.mesh.axes):
        for shorter in divisors(length)[:-1]:
            axes = (*program.mesh.axes[:number], (axis, shorter), *program.mesh.axes[number + 1 :])
            for place, size in enumerate(sizes):
                if size * shorter % length == 0:
                    slices = "x".join(map(str, [*sizes[:place], size * shorter // length, *sizes[place + 1 :]]))
                    yield replace(program, target=f"{generation}:{slices}", mesh=MeshSpec(axes=axes))
            yield replace(program, mesh=MeshSpec(axes=axes))


def _at_smaller_sizes(program: SmallProgram) -> Iterator[SmallProgram]:
    """Yield programs in which sizes are smaller, wherever they stand."""
    sizes = {str(size): size for shape, _ in program.types.values() for size in shape if size > LARGEST}
    for smaller in smaller_sizes(sizes):
        by = {int(name): size for name, size in smaller.items() if size != int(name)}
        changed = {
            name: (tuple(by.get(size, size) for size in shape), kind) for name, (shape, kind) in program.types.items()
        }
        ranges = {name: (low, by.get(high, high)) for name, (low, high) in program.ranges.items()}
        yield replace(program, function=_resized(program.function, by), types=changed, ranges=ranges)


def _resized(function: TextFunction, by: Mapping[int, int]) -> TextFunction:
    def text(words: str) -> str:
        return re.sub(r"(?<![\w.])\d+(?![\w.])", lambda match: str(by.get(int(match[0]), match[0])), words)

    lines = tuple(
        replace(line, text=text(line.text), functions=tuple(_resized(inner, by) for inner in line.functions))
        for line in function.lines
    )
    return replace(function, lines=lines)


_ON_TPU = ' if jax.default_backend() == "tpu" else'
_COLLECTIVES = r" (all-[\w-]+|reduce-scatter|collective-[\w-]+)\("


def script(program: SmallProgram) -> str:
    """Write a program as a script: on devices of its target it prints the error, else what communicates."""
    target, mesh = Target(name=program.target), program.mesh
    compiler = f"{'libtpu' if target.platform == 'tpu' else 'jaxlib'} {compiler_version(target)}"
    cure = ", ".join(f"{name}={value}" for name, value in program.healing.items())
    every = [dict(program.options), *([{**program.options, **program.healing}] if program.healing else [])]
    sizes, kinds = [size for _, size in mesh.axes], [f"AxisType.{program.mode.capitalize()}" for _ in mesh.axes]
    taken = [(*program.ranges.get(name, SMALL), *program.types[name]) for name in program.function.parameters]
    specs = ", ".join(program.specs[name] for name in program.function.parameters)
    head = f"# Wrong, compiled for {program.target} by {compiler}{f'; right with {cure}' if cure else ''}."
    error = "np.abs(np.asarray(program(*args), float) - right).max()"
    set_up, here = f'jax.config.update("jax_num_cpu_devices", {mesh.devices})', "jax.devices()"
    if target.platform == "tpu":
        head += " Without a TPU, JAX_PLATFORMS=cpu: which computation communicates."
        set_up = f'if os.environ.get("JAX_PLATFORMS") == "cpu": os.environ.update({WITHOUT_TPU})'
        here += f'{_ON_TPU} topologies.get_topology_desc("{program.target}", "tpu").devices'
        error += (
            f'{_ON_TPU} [(part.split(" (")[0], name) for part in program.as_text().split("\\n\\n") '
            f'for name in re.findall(r"{_COLLECTIVES}", part)]'
        )
    lines = (
        head,
        f"import {'os, re, ' if target.platform == 'tpu' else ''}jax, jax.numpy as jnp, numpy as np",
        "from jax import lax",
        *(["from jax.experimental import topologies"] if target.platform == "tpu" else []),
        "from jax.sharding import AxisType, PartitionSpec as P",
        set_up,
        *program.function.shown(),
        "args = [np.random.default_rng(0).integers(low, high, shape).astype(kind) for low, high, shape, kind in",
        f"        {taken}]",
        "def compiled(devices, sizes, options):",
        f"    with jax.set_mesh(jax.make_mesh(sizes, {mesh.names}, ({', '.join(kinds)},), devices=devices)):",
        f"        return jax.jit(f, in_shardings=[{specs}]).lower(*args).compile(options)",
        f'right = np.asarray(compiled(jax.devices("cpu")[:1], {[1] * len(sizes)}, {{}})(*args), float)',
        f"devices = {here}",
        f"for options in {every}:",
        f"    program = compiled(devices[:{mesh.devices}], {sizes}, options)",
        f"    print(options, {error})",
    )
    return "\n".join(lines) + "\n"


def written_program(
    programs: TargetPrograms, name: str, output: int, arrays: Mapping[str, Any], healing: Mapping[str, str]
) -> SmallProgram:
    """Return the text of a program of a pair, with one of its outputs.

    Args:
        arrays: what shows it wrong; integers are drawn from the range of these.

    Raises:
        NotCovered: it has no text.
    """
    both, place = programs.both(name), programs.places[name]
    text = program_text(both.sharded, output)
    taken = dict(zip(text.function.parameters, zip(both.names, both.specs, strict=True), strict=True))
    values = {value: np.asarray(arrays[argument_name(argument)]) for value, (argument, _) in taken.items()}
    whole = {value: array for value, array in values.items() if array.dtype.kind in "iu" and array.size}
    return SmallProgram(
        function=text.function,
        types=text.types,
        specs={value: f"P{tuple(spec)!r}" for value, (_, spec) in taken.items()},
        ranges={value: (int(array.min()), int(array.max()) + 1) for value, array in whole.items()},
        target=programs.target.name,
        mesh=MeshSpec.parse(place.mesh),
        mode=place.mode,
        options=programs.options,
        healing=healing,
    )


def script_note(pair: Pair, findings: Iterable[Finding], path: Path) -> str | None:
    """Write the script of the first output of a compiled pair that differs; returns what was written, in words."""
    finding = next((finding for finding in findings if finding.ruling.verdict == "different"), None)
    if finding is None:
        return None
    name, leaf, programs = finding.place.case, finding.place.leaf, programs_of(pair)
    where = f"{name}, {leaf}"
    try:
        record = next(iter(records(pair, pair.case(name), finding.place.dtype, MeshSpec.parse("none")).values()))
        healing = programs.healing(name, leaf)
        smaller = smallest_program(
            written_program(programs, name, programs.both(name).leaves.index(leaf), record, healing)
        )
    except SamebitsError as error:
        return f"{where}: no script: {error}"
    if smaller is None:
        return f"{where}: no script: with small integers it is not wrong"
    text = script(smaller)
    path.write_text(text, encoding="utf-8")
    lines = text.count("\n")
    return (
        f"{where}: {path} shows it in {lines} lines with nothing but jax, on {smaller.target}, mesh {smaller.mesh.id}"
    )
