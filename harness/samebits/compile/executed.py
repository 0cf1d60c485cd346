"""A compiled program run on the CPU, all partitions at once, beside the program as it was written.

The module that the target's compiler made becomes a JAX function (`samebits.hlo.as_jax`); arguments are cut into shards
as its input shardings say, and outputs joined. Where an output is replicated, every replica is returned, so that
partitions that disagree are seen. What was written, traced for one device, is the reference of a pair whose variant is
that function: everything that compares, proves and reports pairs works for them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from samebits.compile.compiler import Lowered, compile_lowered, lower_traced
from samebits.compile.devices import devices, target_mesh
from samebits.compile.passes import FaultyPass, without_pass
from samebits.compile.request import variant_of
from samebits.errors import CouldNotRun, RequestError
from samebits.hlo.as_jax import FILLERS, PartitionProgram
from samebits.hlo.module import HloModule
from samebits.hlo.partition_axes import PartitionAxes
from samebits.programs.inputs import differentiable, records
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides, site_alone
from samebits.schema.case import Arg, Case
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.meshes import NO_MESH, MeshSpec, Mode
from samebits.schema.pair import CompiledPair, Pair
from samebits.schema.target import Target

Array = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """How one array lies on the partitions.

    Args:
        parts: into how many parts each dimension is cut.
        shard: of each partition, the number of its part, in row-major order.
    """

    parts: tuple[int, ...]
    shard: tuple[int, ...]

    @classmethod
    def of(cls, sharding: Any, shape: Sequence[int], devices: Sequence[Any]) -> Shards:
        """Return those of a JAX sharding, for devices in the order of the partitions.

        Raises:
            CouldNotRun: a dimension is not cut into equal parts.
        """
        pieces = sharding.devices_indices_map(tuple(shape))
        starts = [[part.start or 0 for part in pieces[device]] for device in devices]
        local = sharding.shard_shape(tuple(shape))
        if any(size and size % cut for size, cut in zip(shape, local, strict=True)):
            raise CouldNotRun(f"an array of shape {tuple(shape)} is cut into shards of {local}, which are not equal")
        parts = tuple(size // cut if cut else 1 for size, cut in zip(shape, local, strict=True))
        places = [[at // cut if cut else 0 for at, cut in zip(start, local, strict=True)] for start in starts]
        return cls(
            parts=parts, shard=tuple(int(np.ravel_multi_index(place, parts)) if place else 0 for place in places)
        )

    @property
    def count(self) -> int:
        """Return how many different shards there are."""
        return math.prod(self.parts)

    @property
    def replicas(self) -> int:
        """Return on how many partitions each shard lies."""
        return len(self.shard) // self.count

    def cut(self, array: Array, axes: PartitionAxes) -> Array:
        """Return the shards by the axes of the grid of partitions along which they differ."""
        split = [part for size, parts in zip(array.shape, self.parts, strict=True) for part in (parts, size // parts)]
        rank = array.ndim
        order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
        shards = array.reshape(split).transpose(order).reshape(self.count, *split[1::2])
        _, numbers = axes.reduced(np.array(self.shard))
        if numbers.reshape(-1).tolist() != [*range(self.count)]:
            shards = jnp.take(shards, numbers.reshape(-1), axis=0)
        return shards.reshape(*numbers.shape, *split[1::2])

    def joined(self, by_partition: Array) -> Array:
        """Return the whole array once for each replica, which come first."""
        holders: list[list[int]] = [[] for _ in range(self.count)]
        for partition, shard in enumerate(self.shard):
            holders[shard].append(partition)
        order = np.array(holders).T.reshape(-1)
        if order.tolist() != [*range(len(order))]:
            by_partition = jnp.take(by_partition, order, axis=0)
        local, rank = by_partition.shape[1:], len(self.parts)
        split = by_partition.reshape(self.replicas, *self.parts, *local)
        axes = [axis for dim in range(rank) for axis in (1 + dim, 1 + rank + dim)]
        whole = [part * size for part, size in zip(self.parts, local, strict=True)]
        return split.transpose(0, *axes).reshape(self.replicas, *whole)


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True, eq=False)
class RunnableProgram:
    """A compiled program, and how its arguments and outputs lie on its partitions.

    Args:
        module: what the compiler made.
        mesh: the sizes of the axes of the mesh that it runs on.
        taken: which flat arguments its parameters are.
        inputs: of those arguments.
        outputs: of the flat outputs.
        in_passes: products of float32 are taken in passes of bfloat16, as a TPU takes them.
        unwritten: once it was traced, the instructions that return memory which nothing wrote.
    """

    module: HloModule
    mesh: tuple[int, ...]
    taken: tuple[int, ...]
    inputs: tuple[Shards, ...]
    outputs: tuple[Shards, ...]
    in_passes: bool = False
    unwritten: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls, compiled: Any, traced: Any, taken: tuple[int, ...], mesh: Any, *, in_passes: bool = False
    ) -> RunnableProgram:
        """Return a program that jax compiled ahead of time.

        Args:
            compiled, traced: as jax has them.
            taken: which flat arguments jit did not drop.
            mesh: whose devices, in its order, are the partitions.
            in_passes: as of the program.
        """
        module = HloModule(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
        # jit may keep arguments that no equation uses.
        count = module.parameter_count
        taken = taken if count == len(taken) else tuple(range(count))
        stated = jax.tree.leaves(compiled.input_shardings)
        if len(stated) not in (count, len(traced.jaxpr.in_avals)) or count > len(traced.jaxpr.in_avals):
            raise CouldNotRun(f"the compiled program has {count} parameters, and jax states {len(stated)} shardings")
        shardings = stated if len(stated) == count else [stated[number] for number in taken]
        types = [traced.jaxpr.in_avals[number] for number in taken]
        results, devices = jax.tree.leaves(compiled.output_shardings), list(mesh.devices.flat)
        return cls(
            module=module,
            mesh=mesh.devices.shape,
            taken=taken,
            inputs=tuple(Shards.of(s, t.shape, devices) for s, t in zip(shardings, types, strict=True)),
            outputs=tuple(Shards.of(s, t.shape, devices) for s, t in zip(results, traced.jaxpr.out_avals, strict=True)),
            in_passes=in_passes,
        )

    def __call__(self, *flat: Array, fillers: Mapping[str, Any] = MappingProxyType({})) -> list[Array]:
        """Return the outputs for flat arguments of the whole function, replicas first.

        Args:
            flat: the arguments.
            fillers: by the name of an instruction, what memory holds that it returns and nothing wrote.
        """
        self._require_shards([flat[number].shape for number in self.taken])
        shards = [np.array(each.shard) for each in self.inputs]
        run = PartitionProgram(self.module, self.mesh, tables=shards, fillers=fillers, in_passes=self.in_passes)
        args = [each.cut(flat[number], run.axes) for number, each in zip(self.taken, self.inputs, strict=True)]
        by_partition = run.axes.mapped(run, [run.axes.varying(numbers) for numbers in shards])(*args)
        self.unwritten.update(run.unwritten)
        return [shards.joined(part) for shards, part in zip(self.outputs, by_partition, strict=True)]

    def _require_shards(self, whole: Sequence[tuple[int, ...]]) -> None:
        """Reject a module that is not partitioned yet, such as one of an early pass."""
        entry = self.module.computations[self.module.entry].instructions.values()
        shapes = {i.parameter_number: tuple(i.shape.dimensions) for i in entry if i.opcode == "parameter"}
        for number, (sizes, shards) in enumerate(zip(whole, self.inputs, strict=True)):
            local = tuple(size // parts for size, parts in zip(sizes, shards.parts, strict=True))
            if shapes.get(number) != local:
                raise CouldNotRun(f"parameter {number} of the module is {shapes.get(number)}; its shards are {local}")


PROGRAM = "program"
"""The static argument of a compiled pair that says which program a case is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramPlace:
    """One program of a pair: a side at a case, on a mesh of the target, in one direction."""

    side: str
    case: Case
    dtype: str
    mesh: str
    mode: Mode
    direction: Direction

    @property
    def id(self) -> str:
        """Return its name as a case."""
        return "_".join((self.side, self.case.id, self.dtype, self.mesh, self.mode, self.direction))


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramForms:
    """What was written, and what the compiler made of it.

    Args:
        names: of the flat arguments.
        specs: of these on the mesh.
        written, sharded: the closed jaxpr on one device, and on the mesh.
        tree: of the outputs.
        lowered: what the compiler gets.
    """

    names: tuple[str, ...]
    specs: tuple[Any, ...]
    written: Any
    sharded: Any
    tree: Any
    lowered: Lowered
    compiled: RunnableProgram

    @property
    def leaves(self) -> list[str]:
        """Name the flat outputs."""
        paths = jax.tree_util.tree_leaves_with_path(jax.tree.unflatten(self.tree, range(self.tree.num_leaves)))
        return [f"out{jax.tree_util.keystr(path)}" for path, _ in paths]


class TargetPrograms:
    """The programs of a pair for a target, each made once, before jax traces what runs them.

    Args:
        in_passes: as of the programs.
        against: the side that says, on one device, what every program computes; None where each says it itself.
    """

    def __init__(
        self,
        pair: Pair,
        target: Target,
        options: Mapping[str, str],
        *,
        in_passes: bool = False,
        against: str | None = None,
    ) -> None:
        self.pair = pair
        self.target = target
        self.against = against
        self.options = dict(options)
        self.places: dict[str, ProgramPlace] = {}
        self.made: dict[str, ProgramForms] = {}
        self.faulty_passes: dict[tuple[str, str], FaultyPass] = {}
        self.in_passes = in_passes
        self.runnable: CompiledPair | None = None
        self.written_alone: set[str] = set()
        self.sides = TracedSides(pair, Programs(threads=1))
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="programs")
        kind = type(jax.default_matmul_precision)
        # What the caller's contexts set, such as `jax.enable_x64`, another thread does not see.
        self.contexts = [(state, state.value) for state in vars(jax).values() if isinstance(state, kind)]

    def both(self, name: str) -> ProgramForms:
        """Return the two forms of a program.

        Raises:
            CouldNotRun: it cannot be traced or compiled.
        """
        if name not in self.made:
            # Asked for while jax traces what runs them: another thread traces apart from it.
            self.made[name] = self._apart(self._make, self.places[name])
        return self.made[name]

    def _apart(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function in the other thread, under the contexts of the caller."""

        def call() -> Any:
            with contextlib.ExitStack() as stack:
                for state, value in self.contexts:
                    if state.value != value:
                        stack.enter_context(state(value))
                return function(argument)

        return self.thread.submit(call).result()

    def site(self, place: ProgramPlace, built: Any) -> Site:
        """Return where a program is traced."""
        mesh = MeshSpec.parse(place.mesh)
        return Site(case=place.case, dtype=place.dtype, mesh=mesh, mode=place.mode, built=built, pinned=False)

    def alone(self, place: ProgramPlace) -> Site:
        """Return the site of one device at which it is traced as it was written, without types of a mesh."""
        site = replace(self.site(place, None), mode="auto")
        return site_alone(self.sides, self.written_side(place), site)

    def written_side(self, place: ProgramPlace) -> str:
        """Return the side that says what a program computes."""
        return self.against or place.side

    def _make(self, place: ProgramPlace) -> ProgramForms:
        built = target_mesh(self.target, MeshSpec.parse(place.mesh), place.mode)
        trace = self.sides.forward if place.direction == "forward" else self.sides.gradient
        written = trace(self.written_side(place), self.alone(place))
        sharded = trace(place.side, self.site(place, built))
        for program in (written, sharded):
            if program.error is not None:
                program.result()
        lowered = lower_traced(sharded.traced, mesh=built, target=self.target, label=sharded.label)
        executable = compile_lowered(lowered, self.options)
        compiled = RunnableProgram.of(executable, sharded.traced, lowered.taken, built, in_passes=self.in_passes)
        names = self._names(place)
        return ProgramForms(
            names=names,
            specs=_specs(executable, lowered.taken, len(names)),
            sharded=sharded.traced.jaxpr,
            written=written.traced.jaxpr,
            tree=jax.tree.structure(written.traced.out_info),
            lowered=lowered,
            compiled=compiled,
        )

    def _names(self, place: ProgramPlace) -> tuple[str, ...]:
        """Name the flat arguments of a program, in jax's order."""
        types = self.sides.types(self.alone(place))
        if place.direction == "forward":
            return tuple(sorted(types))
        chosen = sorted(differentiable(self.sides.args(self.alone(place)), place.dtype))
        rest = sorted(set(types) - set(chosen))
        return (*chosen, *rest, *map(_cotangent, self.cotangents(place)))

    def cotangents(self, place: ProgramPlace) -> dict[str, Any]:
        """Return the types of the cotangents by the output that they are of."""
        return self.sides.cotangent_types(self.written_side(place), self.alone(place))

    def args(self, case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
        """Declare the arguments of a case: those of the pair, and cotangents in the backward direction."""
        del mesh
        place = self.places[case.statics[PROGRAM]]
        declared = self.sides.args(self.site(place, None))
        args = {argument_name(name): replace(arg, spec=()) for name, arg in declared.items()}
        if place.direction == "gradient":
            for name, kind in self.cotangents(place).items():
                args[argument_name(_cotangent(name))] = Arg(shape=tuple(kind.shape), dtype=str(kind.dtype))
        if len(args) < len(self._names(place)):
            raise RequestError(f"'{place.id}': two of {', '.join(self._names(place))} differ in punctuation alone")
        return args

    def written(self, program: str, **arrays: Any) -> Any:
        """Run what was written, once for each replica of the compiled program."""
        both = self.both(program)
        outputs = jaxpr_as_fun(both.written)(*(arrays[argument_name(name)] for name in both.names))
        replicas = [shards.replicas for shards in both.compiled.outputs]
        spread = [
            output if count == 1 else jnp.broadcast_to(output, (count, *output.shape))
            for output, count in zip(outputs, replicas, strict=True)
        ]
        return jax.tree.unflatten(both.tree, spread)

    def compiled(self, program: str, **arrays: Any) -> Any:
        """Run what the compiler made.

        Raises:
            CouldNotRun: at the inputs of the case, an output depends on memory that nothing wrote.
        """
        both = self.both(program)
        outputs = both.compiled(*(arrays[argument_name(name)] for name in both.names))
        if both.compiled.unwritten and program not in self.written_alone:
            self._apart(self._require_written, program)
            self.written_alone.add(program)
        return jax.tree.unflatten(both.tree, [output[0] if output.shape[0] == 1 else output for output in outputs])

    def _require_written(self, program: str) -> None:
        """Reject a program at whose outputs other contents of memory that nothing wrote are seen."""
        both, names = self.both(program), sorted(self.both(program).compiled.unwritten)
        assert self.runnable is not None
        mesh, dtype = MeshSpec.parse(NO_MESH), self.places[program].dtype
        record = next(iter(records(self.runnable, self.runnable.case(program), dtype, mesh).values()))
        flat = [record[argument_name(name)] for name in both.names]
        run = jax.jit(lambda fillers, *args: both.compiled(*args, fillers=fillers))

        def outputs(changed: Sequence[str]) -> list[bytes]:
            fillers = {name: np.float64(FILLERS[name in changed]) for name in names}
            with jax.enable_x64(any(array.dtype.itemsize == 8 for array in flat)):
                return [np.asarray(output).tobytes() for output in run(fillers, *flat)]

        usual, other = outputs(()), outputs(names)
        if other != usual:
            leaves = [name for name, first, second in zip(both.leaves, usual, other, strict=True) if first != second]
            read = [name for name in names if outputs((name,)) != usual] or names
            raise CouldNotRun(
                f"{', '.join(leaves)} depends on memory that nothing wrote, of instruction "
                f"{', '.join(f'%{name}' for name in read)}"
            )

    def healing(self, program: str, leaf: str) -> dict[str, str]:
        """Return the compiler options with which an output is right, of the pass that was found; empty without."""
        faulty = self.faulty_passes.get((program, leaf))
        return {} if faulty is None or not faulty.heals else without_pass(self.options, faulty.name)


def programs_of(pair: Pair) -> TargetPrograms:
    """Return the programs of a compiled pair."""
    programs: TargetPrograms = pair.reference.__self__  # type: ignore[union-attr]
    return programs


def _specs(compiled: Any, taken: Sequence[int], count: int) -> tuple[Any, ...]:
    """Return how the flat arguments of a compiled program lie on the mesh; those that it does not take are whole."""
    stated = jax.tree.leaves(compiled.input_shardings)
    numbers = taken if len(stated) == len(taken) else range(len(stated))
    known = {number: getattr(sharding, "spec", ()) for number, sharding in zip(numbers, stated, strict=True)}
    return tuple(known.get(number, ()) for number in range(count))


def _cotangent(output: str) -> str:
    return f"cotangent_{output}"


def argument_name(name: str) -> str:
    """Return a leaf's path as a name that an argument can have."""
    return re.sub(r"\W+", "_", name).strip("_")


def compiled_pair(
    pair: Pair,
    target: str,
    options: Mapping[str, str] | None = None,
    sides: Sequence[str] = (),
    *,
    in_passes: bool = False,
    against: str | None = None,
) -> CompiledPair:
    """Return a pair whose reference is what was written, and whose variant what the target's compiler made of it.

    Its cases are the programs: each side of the pair at each case, on each mesh of the target's size, in each
    direction. Replicas of an output come first in its shape.

    Args:
        target: a slice such as `v5p:2x2x1`.
        options: of the compiler.
        sides: of the pair whose programs are run; all by default.
        in_passes: products of float32 are taken in passes of bfloat16, as a TPU takes them.
        against: the side with which they are compared, on one device; each with itself by default.

    Raises:
        RequestError: there is no such target, or no mesh of the pair has as many devices.
    """
    chosen = Target(name=target)
    count = len(devices(chosen))
    programs = TargetPrograms(pair, chosen, options or {}, in_passes=in_passes, against=against)
    meshes = [mesh for mesh in (*pair.meshes, *pair.wide_meshes) if MeshSpec.parse(mesh).devices == count]
    programs.places.update({place.id: place for place in _places(pair, meshes, sides)})
    cases = [_case(place) for place in programs.places.values()]
    if not cases:
        raise RequestError(
            f"pair '{pair.name}' has no mesh of the {count} devices of target '{target}'; its meshes are "
            f"{', '.join((*pair.meshes, *pair.wide_meshes))}"
        )

    programs.runnable = CompiledPair(
        name=pair.name,
        layouts={place.id: place.mesh for place in programs.places.values()},
        reference=programs.written,
        variants={variant_of(target): programs.compiled},
        args=programs.args,
        cases=tuple(cases),
        dtypes=pair.dtypes,
        gradients=False,
        origin=pair.origin,
    )
    return programs.runnable


def _places(pair: Pair, meshes: Sequence[str], sides: Sequence[str]) -> Iterator[ProgramPlace]:
    directions: tuple[Direction, ...] = DIRECTIONS if pair.gradients else DIRECTIONS[:1]
    for case in pair.cases:
        if case.refuses or case.transform is not None:
            continue
        here = (pair.reference_name, *(case.variants or pair.variant_names))
        for mesh, dtype, mode, side, direction in itertools.product(
            [mesh for mesh in meshes if case.meshes is None or mesh in case.meshes],
            case.dtypes or pair.dtypes,
            case.modes or pair.modes,
            [side for side in here if not sides or side in sides],
            directions,
        ):
            if direction == "forward" or differentiable(pair.arguments(case, MeshSpec.parse(mesh)), dtype):
                yield ProgramPlace(side=side, case=case, dtype=dtype, mesh=mesh, mode=mode, direction=direction)


def _case(place: ProgramPlace) -> Case:
    plain = {name: value for name, value in place.case.statics.items() if type(value) is int}
    statics = {**plain, PROGRAM: place.id}
    return Case(id=place.id, sizes=place.case.sizes, statics=statics, dtypes=(place.dtype,))
