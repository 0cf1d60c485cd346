"""The smallest program that a compiler makes wrong, as a script that needs nothing but jax.

In: a program as it was written, for a target whose compiled program is wrong. Lines, the mesh and sizes are made fewer
and smaller as long as the compiled program, run on the CPU, stays wrong, and right with what heals it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from samebits.bisect.program_text import NAME, ArrayType, TextFunction, TextLine, program_text, renamed
from samebits.bisect.search.shrink import divisors, smaller_sizes, smallest
from samebits.compile.compiler import compile_lowered, lower_traced
from samebits.compile.devices import compiler_version, devices
from samebits.compile.executed import RunnableProgram, TargetPrograms, argument_name, programs_of
from samebits.errors import SamebitsError
from samebits.host.accelerator import WITHOUT_TPU
from samebits.programs.inputs import records
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from samebits.schema.target import Target

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
        types: of its values.
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
