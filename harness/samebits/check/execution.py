"""Runs compiled programs on the inputs of a case, the first one repeatedly; outputs are shared by variants."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from samebits.check.outcome import LeafOutcome, ProgramOutputs
from samebits.errors import CouldNotRun, MeshNotUsed
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.host.isolation import undone
from samebits.host.memory import GIB, gibibytes, total_memory
from samebits.host.time_limit import require_time
from samebits.numerics.bits import Comparison, same_bits
from samebits.programs.asked import Asked
from samebits.programs.captured_values import equations
from samebits.programs.host_trees import HostTree, named_leaves, to_host
from samebits.programs.inputs import (
    COTANGENTS,
    Array,
    Record,
    cotangent,
    differentiable,
    of_draw,
    record_drawn,
    records,
    scaled,
)
from samebits.programs.placement import as_taken, check_mesh_used, describe, diverging_replicas, idle_axes, place, put
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site, TracedSides, widen_array
from samebits.rooms import door
from samebits.schema.case import Arg
from samebits.schema.contract import Direction
from samebits.schema.domain import RequiredFact
from samebits.schema.meshes import MeshSpec
from samebits.schema.point import Point
from samebits.user_errors import one_line


# What labels prove of a whole point, at all of its inputs.
@dataclass(frozen=True, slots=True)
class MovementProof:
    """What labels prove of a point.

    Args:
        holds: every leaf has the same elements in the same places, at every input.
        promises: by leaf, the facts required of the inputs.
        routing: the arguments for whose values alone the proof holds.
        assumed: the kinds of what it assumes beyond shapes and its domain, in words.
        only_moved: neither side does more to an element than to move it and to add an exact zero.
        denied: the leaves that have another element in some place.
    """

    holds: bool = False
    promises: Mapping[str, tuple[RequiredFact, ...]] = field(default_factory=dict)
    routing: tuple[str, ...] = ()
    assumed: str = ""
    only_moved: bool = False
    denied: tuple[str, ...] = ()


Inputs = dict[str, tuple[Record, dict[str, Array]]]
"""By label: a record, and for a gradient the cotangents by output leaf."""

CotangentTypes = tuple[tuple[str, tuple[int, ...], Any], ...]
"""By output leaf, the shape and dtype of its cotangent."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a program gave.

    Args:
        outputs: on the devices.
        tree: on the host, whole.
        replicas: copies of a piece that differ between devices; None where that was not looked for.
    """

    outputs: Any
    tree: HostTree
    replicas: list[Comparison] | None = None


def run_program(program: Program, call: tuple[Any, ...]) -> Any:
    """Run a compiled program to its end.

    Raises:
        CouldNotRun: it does not compile.
    """
    import jax

    compiled = program.result()
    with program.setup.active():
        return jax.block_until_ready(compiled(*jax.tree.map(as_taken, call)))


@dataclass(slots=True)
class PendingPoint:
    """A point whose programs are being compiled: `alone` (the reference), `reference` and `variant` on the mesh.

    Without `reference` there is none on the mesh; `remarks` say so, and what else is unlike other points. `movement` is
    what labels prove, once that was asked; `proved` are the outcomes of a point that is not executed. `asked` is what
    its judgement asks of user code.
    """

    point: Point
    alone: Site
    on_mesh: Site
    programs: dict[str, Program] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    movement: MovementProof | None = None
    proved: Sequence[LeafOutcome] | None = None
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of a site, and a digest of everything in them."""

    records: dict[str, Record]
    digest: str


@dataclass(slots=True)
class _Ran:
    """What a program gave on the inputs of a record, by label, and what was seen where it ran twice."""

    trees: dict[str, HostTree] = field(default_factory=dict)
    replicas: dict[str, list[Comparison]] = field(default_factory=dict)
    twice: dict[str, ProgramOutputs] = field(default_factory=dict)

    def keep(self, label: str, fetched: Fetched, site: Site, direction: Direction) -> None:
        """Retain what one input gave; copies may be the same of ordinary numbers, and others of special ones."""
        replicas = fetched.replicas
        if replicas is None:
            replicas = diverging_replicas(named_leaves(fetched.outputs, direction)) if site.on_mesh else []
        self.replicas[label] = replicas
        self.trees[label] = fetched.tree


def declared_arrays(job: PendingPoint) -> dict[str, str]:
    """Return by leaf the dtype and shape of the reference's output, such as `bfloat16[8,16]`."""
    info = named_leaves(job.programs["alone"].traced.out_info, job.point.direction)
    return {path: f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]" for path, leaf in info.items()}


INPUTS_CACHED = 32
"""For how many sides and sites the inputs are held: the points of a pair come setting by setting."""

SPLITTING = ("shard_map", "sharding_constraint", "reshard")
"""Primitives that split arrays within a program whatever its arguments are."""

ELSEWHERE_CACHED = 64
"""How many outputs on other records are held: a reference is run with each of its variants."""

PLACED_CACHED = 8
"""How many records are held on the devices."""


def cross_check_input(inputs: Iterable[str], direction: Direction) -> str:
    """Return the input at which a point runs that labels prove: the last, special one where there is one.

    Of each record the first cotangent is the random one.
    """
    return list(inputs)[-len(COTANGENTS) if direction == "gradient" else -1]


def one_cotangent_each(inputs: Iterable[str], direction: Direction) -> list[str]:
    """Return the inputs at which one program runs that both sides are: every record, of cotangents the random one."""
    return list(inputs)[:: len(COTANGENTS) if direction == "gradient" else 1]


_NOTHING = ProgramOutputs(trees={}, repeats=True, layout={}, replicas=[])
_Key = tuple[Program, str, str, str, int]
"""A program, case and dtype, the digest of the records, and the number of the draw."""


def _require_memory_for_outputs(program: Program, inputs: int) -> None:
    """Raise where the outputs of one side at so many inputs do not fit into memory: both sides may be one program.

    Raises:
        CouldNotRun: they do not fit.
    """
    sizes = [aval.size * aval.dtype.itemsize for aval in program.traced.jaxpr.out_avals]
    needed = inputs * sum(sizes)
    if needed > GIB and needed > (total := total_memory()):
        raise CouldNotRun(
            f"the outputs of one side at {inputs} inputs take {gibibytes(needed)}, and there are {gibibytes(total)}; "
            "compare smaller arrays, fewer outputs, or one direction"
        )


class Execution:
    """Executes the programs of one pair.

    Args:
        repeats: how often each program runs on its first input.
        idle_axes: whether a mesh may have axes that split nothing, where another one does.
    """

    def __init__(self, sides: TracedSides, repeats: int = 2, idle_axes: bool = False) -> None:
        self.sides = sides
        self.repeats = repeats
        self.idle_axes = idle_axes
        self.pair = sides.pair
        self._records: dict[tuple[str, str, str, int], _Records] = {}
        self._ran: dict[_Key, _Ran] = {}
        self._further: dict[_Key, _Ran] = {}
        self._inputs: OrderedDict[Hashable, Inputs] = OrderedDict()
        self._elsewhere: OrderedDict[Hashable, HostTree] = OrderedDict()
        self._placed: OrderedDict[Hashable, dict[str, Any]] = OrderedDict()

    def inputs(self, site: Site, side: str, direction: Direction) -> Inputs:
        """Return every input of a program by label: the records, for a gradient times the cotangents."""
        self._drawn(site)  # what is asked of user code is recorded each time
        types: CotangentTypes = ()
        if direction == "gradient":
            # Cotangents are drawn in the narrow dtype and widened, so that float64 sees the very same numbers.
            wide = self.sides.cotangent_types(side, site)
            narrow = wide if not site.x64 else self.sides.cotangent_types(side, replace(site, x64=False))
            types = tuple((path, kind.shape, narrow[path].dtype) for path, kind in wide.items())
        key = site.key, site.draw, types, direction, self.sides.programs.configuration
        if key not in self._inputs:
            while len(self._inputs) >= INPUTS_CACHED:
                self._inputs.popitem(last=False)
            self._inputs[key] = self._combined(site, types, direction)
        return self._inputs[key]

    def _combined(self, site: Site, types: CotangentTypes, direction: Direction) -> Inputs:
        drawn = self._drawn(site).records
        if direction == "forward":
            return {name: (record, {}) for name, record in drawn.items()}
        names = (self.pair.name, site.case.id, site.dtype)
        pulled: dict[str, dict[str, Array]] = {}
        for kind in COTANGENTS:
            if kind == "scaled":  # drawing the random one again takes longer than everything else here
                pulled[kind] = {path: scaled(array) for path, array in pulled["random"].items()}
                continue
            pulled[kind] = {
                path: cotangent(kind, shape, dtype, *names, path, *of_draw(site.draw)) for path, shape, dtype in types
            }
        return {
            f"{name}, {kind} cotangent": (record, cotangents)
            for name, record in drawn.items()
            for kind, cotangents in pulled.items()
        }

    def _drawn(self, site: Site) -> _Records:
        """Return the records of a site; arguments may depend on the mesh, and so may what is drawn for them."""
        key = (site.case.id, site.dtype, site.mesh.id, site.draw)
        if key not in self._records:
            if len(self._records) > 64:
                self._records.clear()
            drawn = records(self.pair, site.case, site.dtype, site.mesh, site.draw)
            words = [(label, *record) for label, record in drawn.items()]
            digest = digest_of([array for record in drawn.values() for array in record.values()], *words)
            self._records[key] = _Records(drawn, digest)
        else:
            record_drawn(site.case, site.dtype, site.mesh, site.draw, self._records[key].records)
        return self._records[key]

    def ends(self, job: PendingPoint) -> tuple[tuple[str, Site], tuple[str, Site]]:
        """Return the two sides that a point compares, each with where it runs."""
        return (self.pair.reference_name, job.alone), (job.point.variant, job.on_mesh)

    def program(self, side: str, site: Site, direction: Direction) -> Program:
        """Return the traced program of a side."""
        return self.sides.forward(side, site) if direction == "forward" else self.sides.gradient(side, site)

    def run(
        self,
        program: Program,
        side: str,
        site: Site,
        direction: Direction,
        labels: Sequence[str] | None = None,
        like: Mapping[str, HostTree] = MappingProxyType({}),
    ) -> ProgramOutputs:
        """Run a program on its inputs, or on those of some labels; the first one runs twice, but in further draws.

        Args:
            labels: of the inputs; all by default.
            like: what to expect, by label: what processes hold of it in parts need not be sent where it is the same.

        Raises:
            CouldNotRun: it does not compile, or the mesh was not used.
        """
        program.result()
        # Cases, dtypes and meshes with other values share programs; cotangents are seeded by case, dtype and draw.
        key = (program, site.case.id, site.dtype, self._drawn(site).digest, site.draw)
        cached = self._further if site.draw else self._ran
        if len(cached) > 256:
            cached.clear()
        ran = cached.setdefault(key, _Ran())
        inputs = self.inputs(site, side, direction)
        chosen = [label for label in inputs if labels is None or label in labels]
        if not chosen:
            return _NOTHING
        if self.sides.programs.group is None:  # else every host has its own part of them
            _require_memory_for_outputs(program, len(chosen))
        first = chosen[0]
        if first not in ran.twice and not site.draw:
            placed, call = self.placed(side, site, direction, *inputs[first])
            fetched = self._called(program, call, direction, like.get(first))
            repeats = self._repeats(program, call, direction, fetched.tree)
            layout = self._layout(program, site, direction, placed, call, fetched.outputs)
            shardings = {path: leaf.sharding for path, leaf in named_leaves(fetched.outputs, direction).items()}
            ran.keep(first, fetched, site, direction)
            ran.twice[first] = ProgramOutputs(
                trees={}, repeats=repeats, layout=layout, replicas=[], shardings=shardings
            )
        for label in chosen:
            if label not in ran.trees:
                _, call = self.placed(side, site, direction, *inputs[label])
                ran.keep(label, self._called(program, call, direction, like.get(label)), site, direction)
        # Of what other points ran besides, nothing is seen here: no result may depend on their order.
        replicas = {replica.path: replica for label in reversed(chosen) for replica in reversed(ran.replicas[label])}
        return replace(
            ran.twice.get(first, _NOTHING),
            trees={label: ran.trees[label] for label in chosen},
            replicas=list(replicas.values())[::-1],
        )

    def sides_at(
        self, job: PendingPoint, record: Record, cotangents: dict[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Run the reference alone and the variant on the mesh once, at other inputs than the point's; by leaf.

        Raises:
            CouldNotRun: a side does not compile, or a callback does not take these inputs.
        """
        import jax

        direction, sides = job.point.direction, list[dict[str, Array]]()
        inputs = digest_of([*record.values(), *cotangents.values()], *record, *cotangents)
        for side, site in self.ends(job):
            program = self.sides.programs.start(self.program(side, site, direction))
            if (program, inputs) not in self._elsewhere:
                while len(self._elsewhere) >= ELSEWHERE_CACHED:
                    self._elsewhere.popitem(last=False)
                _, call = self.placed(side, site, direction, record, cotangents)
                try:
                    self._elsewhere[program, inputs] = self._called(program, call, direction).tree
                except jax.errors.JaxRuntimeError as error:
                    raise CouldNotRun(f"{program.label} {one_line(error)}") from error
            sides.append({path: leaf.array for path, leaf in self._elsewhere[program, inputs].leaves.items()})
        return sides[0], sides[1]

    def placed(
        self, side: str, site: Site, direction: Direction, record: Record, cotangents: dict[str, Array]
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Return the arguments of a record on the devices of a site, and what a program is called with."""
        args = self.sides.args(site)
        with site.setup.active():
            placed = self._record_placed(site, record, args)
            if direction == "forward":
                return placed, (placed,)
            names = differentiable(args, site.dtype)
            types = self.sides.cotangent_types(side, site)
            pulled = [
                put(widen_array(c, site).astype(types[p].dtype), types[p].sharding) for p, c in cotangents.items()
            ]
            rest = {n: placed[n] for n in placed if n not in names}
            return placed, ({n: placed[n] for n in names}, rest, pulled)

    def _record_placed(self, site: Site, record: Record, args: Mapping[str, Arg]) -> dict[str, Any]:
        """Return the arguments of a record on the devices of a site; every side and cotangent takes the same."""
        key = site.key, ByIdentity(record), self.sides.programs.configuration
        if key not in self._placed:
            while len(self._placed) >= PLACED_CACHED:
                self._placed.popitem(last=False)
            wide = {name: widen_array(array, site) for name, array in record.items()}
            self._placed[key] = place(wide, args, site.mesh, site.built)
        return self._placed[key]

    def _repeats(self, program: Program, call: tuple[Any, ...], direction: Direction, tree: HostTree) -> bool:
        """Return whether a program gives the bits of an output again each time that it runs again."""
        repeats = True
        for _ in range(self.repeats - 1):
            again = self._called(program, call, direction, tree).tree
            repeats = repeats and all(
                same_bits(leaf.array, again.leaves[path].array) for path, leaf in tree.leaves.items()
            )
        return repeats

    def _layout(
        self,
        program: Program,
        site: Site,
        direction: Direction,
        placed: dict[str, Any],
        call: tuple[Any, ...],
        outputs: Any,
    ) -> dict[str, str]:
        """Return how arguments and outputs are laid out on the devices, in words.

        Raises:
            CouldNotRun: the mesh was not used.
        """
        leaves = named_leaves(outputs, direction)
        named = leaves if direction == "forward" else {f"gradient of {name}": v for name, v in leaves.items()}
        if site.on_mesh:
            assert site.built is not None
            cotangents = {f"cotangent {n}": c for n, c in enumerate(call[2] if len(call) > 2 else ())}
            check_mesh_used({**placed, **cotangents}, leaves, site.mesh, site.built)
            self._check_split(program, [*placed.values(), *cotangents.values(), *leaves.values()], site.mesh)
        return {name: describe(value) for name, value in {**placed, **named}.items()}

    def _check_split(self, program: Program, arrays: Sequence[Any], mesh: MeshSpec) -> None:
        """Reject a mesh of which an axis splits nothing, neither arguments and outputs nor, where that counts, inside.

        Raises:
            MeshNotUsed: there is such an axis.
        """
        idle = idle_axes(arrays, mesh)
        wide = [axis for axis, size in mesh.axes if size > 1]
        inside = any(equation.primitive.name in SPLITTING for equation in equations(program.traced.jaxpr))
        if not idle or (self.idle_axes and (inside or len(idle) < len(wide))):
            return
        remedy = f"give specs=..., by which an array is split over '{idle[0]}'"
        if not self.idle_axes:
            remedy = f"give an Arg spec=(...) with '{idle[0]}', or leave that mesh out"
        raise MeshNotUsed(f"mesh '{mesh.id}': no argument and no output is split over '{idle[0]}'; {remedy}")

    def _called(
        self, program: Program, call: tuple[Any, ...], direction: Direction, like: HostTree | None = None
    ) -> Fetched:
        require_time()
        group = self.sides.programs.group
        # Only a callback runs code of the user's here.
        calls = undone(f"{program.label.partition(', case')[0]}, in a callback,") if program.calls_python else None
        with calls or contextlib.nullcontext():
            if group is not None:
                fetched: Fetched = door("cluster.spanning").called_together(group, program, call, direction, like)
                return fetched
            outputs = run_program(program, call)
        return Fetched(outputs, to_host(outputs, program, direction))
