"""One side of a pair as a program: forward, or the pull-back of cotangents, with every argument in one record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from samebits.errors import CouldNotRun, DeclarationError
from samebits.host.cache_keys import ByIdentity, key_of
from samebits.host.interrupts import Stop
from samebits.interpret.interpreter import CALLS
from samebits.interpret.literals import number
from samebits.numerics import floats
from samebits.programs.asked import record
from samebits.programs.captured_values import equations
from samebits.programs.host_trees import inexact_leaves, named_leaves, returned, touched
from samebits.programs.implementations import implementation
from samebits.programs.inputs import Array, arg_dtype, arg_shape, differentiable
from samebits.programs.placement import cotangent_layout, device_number, partition, require_held, settled, sharding
from samebits.programs.program_cache import CompileSetup, Program, Programs, structure_key, trace_alone
from samebits.programs.shared_state import SharedState, values_around
from samebits.programs.side_call import side_call
from samebits.schema.case import Arg, Case
from samebits.schema.contract import DIFFERENTIATED
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.pair import Pair
from samebits.schema.point import Point

# A traced program in float64: the ideal value of what is written, whatever dtypes are fixed in it.
OPAQUE = frozenset(
    {"shard_map", "pallas_call", "pure_callback", "io_callback", "debug_callback", "ffi_call", "custom_call", "new_ref"}
)
"""Primitives that are bound to the dtypes (or, in `shard_map`, to the types per device) that they were traced with.

An array that is written in place (`jax.new_ref`) cannot be replaced by a wider value.
"""

_DTYPES = ("new_dtype", "dtype", "preferred_element_type", "out_dtype")


def widened(closed: Any) -> Callable[..., list[Any]] | None:
    """Return a function of the flat arguments of a closed jaxpr that evaluates it in float64.

    Returns:
        None where the program holds an opaque primitive; it must be traced again with wider arguments.
    """
    if OPAQUE & set(primitives(closed)):
        return None

    def run(*args: Any) -> list[Any]:
        return _evaluate(closed, args)

    return run


def wide(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that stands for another: float64 for floats, complex128 for complex numbers."""
    dtype = np.dtype(dtype)
    if floats.is_float(dtype):
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype.kind == "c" else dtype


def _evaluate(closed: Any, args: Sequence[Any]) -> list[Any]:
    jaxpr = getattr(closed, "jaxpr", closed)
    environment: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for var, const in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
        environment[var] = _constant(const, var.aval)

    def read(var: Any) -> Any:
        return _constant(var.val, var.aval) if hasattr(var, "val") else environment[var]

    for eqn in jaxpr.eqns:
        environment.update(zip(eqn.outvars, _equation(eqn, [read(var) for var in eqn.invars]), strict=True))
    return [read(var) for var in jaxpr.outvars]


def _equation(eqn: Any, values: list[Any]) -> Sequence[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS:
        return _evaluate(params[CALLS[name]], values)
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        first, last = lengths.matvec + lengths.vecmat, sum(lengths)
        return _evaluate(params["jaxprs"].solve, [*values[first : first + lengths.solve], *values[last:]])
    if name == "reduce_precision" or (name == "convert_element_type" and _rounds(eqn)):
        return values
    if name == "bitcast_convert_type":  # bits are those of the dtype that was declared
        values = [jnp.asarray(value, var.aval.dtype) for value, var in zip(values, eqn.invars, strict=True)]
        return [jnp.asarray(eqn.primitive.bind(*values, **params), _dtype(eqn.outvars[0].aval))]
    outputs = eqn.primitive.bind(*values, **{key: _parameter(key, value) for key, value in params.items()})
    return outputs if eqn.primitive.multiple_results else [outputs]


def _constant(value: Any, aval: Any) -> Any:
    """Return a constant in float64: floats stand for the numbers that they were rounded from, as in the fields."""
    if not jnp.issubdtype(aval.dtype, np.inexact):
        return jnp.asarray(value, _dtype(aval))
    array = np.asarray(value)
    if array.dtype.kind == "c":
        kind = "float32" if array.dtype.itemsize == 8 else "float64"
        return jnp.asarray(_exact(array.real, kind) + 1j * _exact(array.imag, kind)).reshape(aval.shape)
    return jnp.asarray(_exact(array, np.dtype(aval.dtype).name).reshape(aval.shape))


def _exact(array: Any, dtype: str) -> Any:
    """Return the numbers in float64 that those of an array were rounded from."""
    unique, places = np.unique(array.astype(np.float64), return_inverse=True, equal_nan=True)
    exact = [float(number(v, dtype)) if np.isfinite(v) else v for v in unique.tolist()]
    return np.array(exact, np.float64)[places].reshape(array.shape)


def _rounds(eqn: Any) -> bool:
    """Return whether a cast is from one float to another."""
    return floats.is_float(np.dtype(eqn.invars[0].aval.dtype)) and floats.is_float(np.dtype(eqn.params["new_dtype"]))


def _parameter(key: str, value: Any) -> Any:
    """Return a parameter of an equation: inner programs and dtypes are widened, and no algorithm is asked for."""
    if _is_program(value):
        return _program(value)
    if isinstance(value, tuple) and value and all(map(_is_program, value)):
        return tuple(map(_program, value))
    if key in _DTYPES and value is not None:
        return wide(value)
    return None if key == "precision" else value


def _is_program(value: Any) -> bool:
    return hasattr(getattr(value, "jaxpr", value), "eqns")


def _program(closed: Any) -> Any:
    """Return the jaxpr of an inner program, as that of a loop, in float64."""
    inputs = getattr(closed, "jaxpr", closed).invars
    types = [jax.ShapeDtypeStruct(var.aval.shape, _dtype(var.aval)) for var in inputs]
    return jax.make_jaxpr(lambda *args: _evaluate(closed, args))(*types)


def _dtype(aval: Any) -> Any:
    """Return the dtype of a value in float64; random keys stay what they are."""
    return aval.dtype if jnp.issubdtype(aval.dtype, jax.dtypes.extended) else wide(aval.dtype)


def primitives(closed: Any) -> set[str]:
    """Return the names of all primitives of a program, those of its inner programs included."""
    return {equation.primitive.name for equation in equations(closed)}


# Both sides of a pair under a transformation of jax, for rules of differentiation and batching of their own.
SECOND = "second_derivative_of_squares"
"""The transform under which second derivatives are tried that no declaration asks for."""

Call = Callable[[dict[str, Any]], Any]
"""A side as a function of its arrays by name."""


def transformed(call: Call, transform: str | None, names: Sequence[str]) -> Call:
    """Put a side under one of `TRANSFORMS`, `SECOND` or None; second derivatives are with respect to `names`."""
    if transform == "vmap":
        return jax.vmap(call)
    if transform == "remat":
        return jax.checkpoint(call)
    if transform in ("second_derivative", SECOND):
        return _gradient(call, names, squares=transform == SECOND)
    return call


def _gradient(call: Call, names: Sequence[str], squares: bool) -> Call:
    """Return the gradient of a weighted sum of all float outputs; its own gradient is the second derivative.

    With their squares in it, the cotangents of the outputs depend on the arguments too.
    """

    def gradient(arrays: dict[str, Any]) -> dict[str, Any]:
        chosen = {name: arrays[name] for name in names}
        rest = {name: array for name, array in arrays.items() if name not in chosen}

        def total(chosen: dict[str, Any]) -> Any:
            leaves = jax.tree.leaves(call({**chosen, **rest}))
            floats = (leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact))
            return sum(jnp.sum(leaf * (_weights(leaf) + leaf / 2 if squares else _weights(leaf))) for leaf in floats)

        gradients: dict[str, Any] = jax.grad(total)(chosen)
        return gradients

    return gradient


def _weights(leaf: Any) -> Any:
    """Return eighths between -3/4 and 3/4, exact in every float format: of a plain sum many gradients vanish."""
    weights = (np.arange(leaf.size) * 7 % 13 - 6) / 8
    return weights.reshape(leaf.shape).astype(leaf.dtype)


NO_DERIVATIVE = "the forward function traces and can be compared without gradients (gradients=False)"
NO_KERNEL_DERIVATIVE = (
    "a Pallas kernel has no derivative of its own: compare without gradients (gradients=False), or give it one by "
    "jax.custom_vjp"
)
"""What to do where a gradient cannot be traced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Where and how a side runs: a case, a dtype, and a mesh built in one mode (None: the first device, without one).

    `alone` is on one device, under a mesh of one device where `built` is one; `mesh` is that of the point all the same.
    `pinned` lays outputs out as declared, as the steps around a component do; else the compiler chooses (auto mode).
    `draw` numbers the draws of inputs: every comparison is of draw 0, errors are measured on further ones too.
    `primal` has gradients return the outputs too, as the rules of differentiation give them.
    """

    case: Case
    dtype: str
    mesh: MeshSpec
    mode: Mode
    built: Mesh | AbstractMesh | None
    x64: bool = False
    pinned: bool = False
    draw: int = 0
    alone: bool = False
    primal: bool = False

    @property
    def on_mesh(self) -> bool:
        """Tell whether arrays lie on the mesh of the point."""
        return self.built is not None and not self.alone

    @property
    def device_order(self) -> tuple[int, ...]:
        """Return the numbers of the devices in the order of the mesh; none where that is 0, 1, 2 ..."""
        order = [device_number(d) for d in self.built.devices.flat] if isinstance(self.built, Mesh) else []
        return () if self.alone or order == [*range(len(order))] else tuple(order)

    @property
    def setup(self) -> CompileSetup:
        """Return the jax contexts to trace under."""
        return CompileSetup(mesh=self.built, x64=self.x64)

    @property
    def key(self) -> Hashable:
        """Return everything in it but the draw; the case and the devices count as the objects that they are."""
        where = self.dtype, self.mesh.id, self.mode, self.x64, self.pinned, self.alone, self.primal
        return ByIdentity(self.case), ByIdentity(self.built), *where

    def widen(self, dtype: Any) -> np.dtype[Any]:
        """Return a dtype as it is at this site: floats become float64 where the side runs as its own oracle."""
        dtype = np.dtype(dtype)
        return wide(dtype) if self.x64 else dtype


def _once_at(trace: Callable[[TracedSides, str, Site], Program]) -> Callable[[TracedSides, str, Site], Program]:
    """Trace a side at a site once; that it is asked for is recorded each time."""

    @functools.wraps(trace)
    def asked(sides: TracedSides, side: str, site: Site) -> Program:
        question = trace.__name__, side, site.key
        program: Program = sides.once(question, lambda: trace(sides, side, site))
        record(question, site, program)
        return program

    return asked


class TracedSides:
    """Traces the programs of a pair's sides, each once."""

    def __init__(self, pair: Pair, programs: Programs) -> None:
        self.pair = pair
        self.programs = programs
        self._known: dict[Hashable, Any] = {}
        self._written_by: dict[Hashable, tuple[str, ...]] = {}
        self._written_in: dict[Hashable, tuple[str, ...]] = {}
        self.functions = {side: implementation(pair, side) for side in pair.sides}
        self.state = SharedState(self.functions.values())
        reference = self.functions[pair.reference_name]
        for side in pair.variant_names:
            if self.functions[side] is reference:
                raise DeclarationError(
                    f"pair '{pair.name}': variant '{side}' is the reference itself; nothing would be compared"
                )

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what is made of a site, which is asked for many times at each of its points."""
        key = key, self.programs.configuration
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def args(self, site: Site) -> Mapping[str, Arg]:
        """Return the declared arguments at a site."""
        key = "args", ByIdentity(site.case), site.mesh.id
        args: Mapping[str, Arg] = self.once(key, lambda: self.pair.arguments(site.case, site.mesh))
        record(key, site, args)
        return args

    def types(self, site: Site) -> dict[str, Any]:
        """Return the argument types at a site, shardings included."""
        self.args(site)  # what the types are made of is recorded each time
        types: dict[str, Any] = self.once(("types", site.key), lambda: self._types(site))
        return types

    def _types(self, site: Site) -> dict[str, Any]:
        types = {}
        for name, arg in self.args(site).items():
            shape = arg_shape(arg, name, site.case)
            where = sharding(arg.spec, shape, name, site.mesh, site.built)
            dtype = site.widen(arg_dtype(arg, site.dtype))
            if not site.x64:
                require_held(dtype, f"case '{site.case.id}': argument '{name}'")
            types[name] = jax.ShapeDtypeStruct(shape, dtype, sharding=where, weak_type=arg.weak_type)
        return types

    def site_of(self, point: Point, built: Any = None) -> Site:
        """Return where the sides of a point run on its mesh, which is abstract unless a built one is given."""
        mesh = MeshSpec.parse(point.mesh)
        built = mesh.abstract(point.mode) if built is None else built
        return Site(case=self.pair.case(point.case), dtype=point.dtype, mesh=mesh, mode=point.mode, built=built)

    @_once_at
    def forward(self, side: str, site: Site) -> Program:
        """Return the traced forward program of a side; compile it with `programs.start`."""
        own, wanted = self.by_itself(side, site), self._written(site)
        if own.error is not None or set(wanted) <= set(touched(own.traced.out_info)):
            return own
        return self._with_writes(side, site, wanted)

    @_once_at
    def by_itself(self, side: str, site: Site) -> Program:
        """Return the traced forward program of a side, with what this side alone writes into its arguments."""
        program = self._with_writes(side, site, ())
        if program.error is None:
            self._note_writes(side, site.case, program.traced)
        return program

    def _with_writes(self, side: str, site: Site, wanted: tuple[str, ...]) -> Program:
        call = self._call(side, site, wanted)

        def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
            return self._ideal(call, site, lambda narrow: self._with_writes(side, narrow, wanted)), (self.types(site),)

        return self._traced("forward", side, site, make, wanted)

    def _traced(
        self,
        direction: str,
        side: str,
        site: Site,
        make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
        wanted: tuple[str, ...] = (),
    ) -> Program:
        """Trace a function as if no other had been traced, and put back what that leaves."""
        key = *self._key(direction, side, site), wanted
        return self.programs.trace(key, self._label(side, site, direction), site.setup, make, self.state.put_back)

    def _note_writes(self, side: str, case: Case, traced: Any) -> None:
        """Note which leaves of its arguments a side writes; the first trace in a case counts."""
        self._written_by.setdefault((side, ByIdentity(case)), touched(traced.out_info))

    def _written(self, site: Site) -> tuple[str, ...]:
        """Return the leaves of arguments that any side writes; the same at each call for a case."""
        case = ByIdentity(site.case)
        if case not in self._written_in:
            trees = self.pair.argument_trees(site.case, site.mesh).values()
            sides = self.pair.sides if any(tree.paths != ("",) for tree in trees) else ()
            for side in sides:
                if (side, case) not in self._written_by:  # one that cannot be traced writes nothing
                    self.by_itself(side, replace(site, x64=False))
            paths = {path for side in sides for path in self._written_by.get((side, case), ())}
            self._written_in[case] = tuple(sorted(paths))
        return self._written_in[case]

    def traced_alone(self, side: str, site: Site) -> Any:
        """Return the program of `by_itself`, traced again; None where that raises."""
        who, call = f"{self.pair.name}: '{side}'", self._call(side, site)
        try:
            traced = trace_alone(who, site.setup.active, call, (self.types(site),), self.state.put_back)
        except BaseException as error:  # `sys.exit()` is no `Exception`
            if Stop.caused(error):
                raise
            return None
        self._note_writes(side, site.case, traced)
        return traced

    @_once_at
    def gradient(self, side: str, site: Site) -> Program:
        """Return the traced program `(differentiable args, other args, cotangents) -> gradients` of a side."""
        types = self.types(site)
        call = self._call(side, site)
        names = differentiable(self.args(site), site.dtype)
        chosen = {name: types[name] for name in names}
        rest = {name: types[name] for name in types if name not in names}
        cotangents = self.cotangent_types(side, site)

        def pull_back(chosen: dict[str, Any], rest: dict[str, Any], cotangents: list[Any]) -> Any:
            outputs, pull = self._differentiated(call, chosen, rest)
            gradients = pull(cotangents)[0]
            if site.primal:
                leaves = named_leaves(returned(outputs), "forward")
                return {**gradients, **{f"{path}{DIFFERENTIATED}": leaf for path, leaf in leaves.items()}}
            if not site.pinned:
                return gradients
            return {
                name: jax.lax.with_sharding_constraint(gradient, types[name].sharding.spec)
                for name, gradient in gradients.items()
            }

        def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
            function = self._ideal(pull_back, site, lambda narrow: self.gradient(side, narrow))
            return function, (chosen, rest, list(cotangents.values()))

        program = self._traced("gradient", side, site, make)
        if program.error is not None:  # the forward program, which the cotangents are of, has none
            kernel = "pallas_call" in primitives(self.forward(side, site).traced.jaxpr)
            program.advice = NO_KERNEL_DERIVATIVE if kernel else NO_DERIVATIVE
        return program

    def _differentiated(
        self, call: Callable[..., Any], chosen: dict[str, Any], rest: dict[str, Any]
    ) -> tuple[Any, Any]:
        """Return the outputs of a side as rules of differentiation give them, and what pulls cotangents back."""

        def outputs_of(chosen: dict[str, Any]) -> tuple[list[Any], Any]:
            outputs = call({**chosen, **rest})
            return list(self.pulled_back(outputs).values()), outputs

        _, pull, outputs = jax.vjp(outputs_of, chosen, has_aux=True)
        return outputs, pull

    @_once_at
    def differentiated(self, side: str, site: Site) -> Program:
        """Return the traced program of a side's outputs as rules of differentiation give them, by argument names."""
        call, names = self._call(side, site, self._written(site)), differentiable(self.args(site), site.dtype)

        def outputs_of(arrays: dict[str, Any]) -> Any:
            rest = {name: array for name, array in arrays.items() if name not in names}
            return self._differentiated(call, {name: arrays[name] for name in names}, rest)[0]

        return self._traced("differentiated", side, site, lambda: (outputs_of, (self.types(site),)))

    def cotangent_types(self, side: str, site: Site) -> dict[str, Any]:
        """Return the types of the cotangents of a side's float outputs, by leaf.

        Over explicit axes their sharding is the output's own; over auto axes the declaration's `out_spec`, or else that
        of the first argument of the same shape, or else not split.
        """
        self.forward(side, site)  # what they are the types of is recorded each time
        types: dict[str, Any] = self.once(("cotangents", side, site.key), lambda: self._cotangent_types(side, site))
        return types

    def _cotangent_types(self, side: str, site: Site) -> dict[str, Any]:
        forward = self.forward(side, site)
        if forward.error is not None:
            forward.result()
        types: dict[str, Any] = {}
        out_info = forward.traced.out_info
        avals = jax.tree.unflatten(jax.tree.structure(out_info), forward.traced.jaxpr.out_avals)
        traced = named_leaves(avals, "forward")
        for path, info in self.pulled_back(out_info).items():
            if site.built is not None:
                declared = self._declared_layout(path, info.shape, site)
                where: Any = NamedSharding(site.built, cotangent_layout(traced[path], declared, site.built))
            else:
                where = sharding((), info.shape, path, site.mesh, None)
            types[path] = jax.ShapeDtypeStruct(info.shape, info.dtype, sharding=where)
        if not types:
            raise CouldNotRun(
                f"{self._label(side, site, 'gradient')} no float output to pull a cotangent back from; "
                "declare gradients=False"
            )
        return types

    def pulled_back(self, outputs: Any) -> dict[str, Any]:
        """Return the outputs that a cotangent is pulled back from, by path: floats, and with `has_aux` of the first."""
        return inexact_leaves(outputs, self.pair.has_aux)

    def _ideal(
        self, function: Callable[..., Any], site: Site, program: Callable[[Site], Program]
    ) -> Callable[..., Any]:
        """Return what is traced at a site: in float64, the program of the declared dtypes with every float widened.

        A program that cannot be widened is traced again with wider arguments, by which what it casts to a fixed dtype
        does not become wider.
        """
        if not site.x64:
            return function
        narrow = program(replace(site, x64=False))
        run = None if narrow.error is not None else widened(narrow.traced.jaxpr)
        if run is None:
            return function
        tree = jax.tree.structure(narrow.traced.out_info)
        return lambda *args: jax.tree.unflatten(tree, run(*jax.tree.leaves(args)))

    def _call(self, side: str, site: Site, wanted: tuple[str, ...] = ()) -> Callable[[dict[str, Any]], Any]:
        function = side_call(self.pair, side, self.functions[side], site.case, site.mesh, site.built, wanted)

        def call(arrays: dict[str, Any]) -> Any:
            outputs = jax.tree.map(settled, function(arrays))
            if site.case.transform in ("second_derivative", SECOND):  # of what is returned; nothing else leaves it
                outputs = returned(outputs)
            return self._pin(outputs, site) if site.pinned else outputs

        return transformed(call, site.case.transform, differentiable(self.args(site), site.dtype))

    def _pin(self, outputs: Any, site: Site) -> Any:
        pinned = [
            jax.lax.with_sharding_constraint(leaf, self._declared_layout(name, leaf.shape, site))
            for name, leaf in named_leaves(outputs, "forward").items()
        ]
        return jax.tree.unflatten(jax.tree.structure(outputs), pinned)

    def _declared_layout(self, path: str, shape: tuple[int, ...], site: Site) -> PartitionSpec:
        """Return how an output lies: as `out_spec` says, else like the first argument of its shape, else not split."""
        declared = self.pair.output_spec(site.case, site.mesh)
        like = {arg_shape(arg, name, site.case): arg.spec for name, arg in reversed(list(self.args(site).items()))}
        return partition(declared.get(path, like.get(shape, ())), site.mesh)

    def _key(self, direction: str, side: str, site: Site) -> tuple[Any, ...]:
        """Return everything that a program is traced from; the objects in it live as long as it does."""
        args, types = self.args(site), self.types(site).items()
        arrays = tuple((name, t.shape, t.dtype, t.sharding, t.weak_type) for name, t in types)
        # The mesh itself, devices included: eight of a CPU and eight of a TPU slice are one mesh by name.
        place = (site.built, site.mode) if site.built is not None else None
        laid_out, pulled = None, None
        if site.pinned or (direction == "gradient" and site.built is not None):
            declared = {**self.pair.output_spec(site.case, site.mesh)}
            laid_out = key_of((declared, [arg.spec for arg in args.values()]))
        if direction != "forward" or site.case.transform is not None:
            pulled = differentiable(args, site.dtype)
        statics = key_of(self.pair.statics(site.case, site.mesh))
        function, transform = ByIdentity(self.functions[side]), site.case.transform
        trees = self.pair.argument_trees(site.case, site.mesh)
        built = tuple((name, structure_key(tree.structure)) for name, tree in trees.items())
        called = built, key_of(self.pair.adapt.get(side)), key_of(dict(self.pair.rename)), self.pair.has_aux
        signature = arrays, statics, laid_out, pulled, called
        program = direction, site.primal and direction == "gradient"
        named = self.pair.name, self.pair.ignore
        return (*named, function, program, place, site.x64, site.pinned, transform, signature)

    def _label(self, side: str, site: Site, direction: str) -> str:
        where = f"mesh '{site.mesh.id}' ({site.mode})" if site.on_mesh else "one device"
        return f"{self.pair.name}: '{side}', case '{site.case.id}', {site.dtype}, {direction}, {where}:"


def widen_array(array: Array, site: Site) -> Array:
    """Return a host array as the site wants it: the same numbers, in float64 where the side is its own oracle."""
    wide = site.widen(array.dtype)
    return array if wide == array.dtype else array.astype(wide)


# Where a side runs alone on one device, and the meshes that functions bring along themselves.
def sites_alone(sides: TracedSides, site: Site) -> Iterator[Site]:
    """Yield the ways to have a side on one device: without a mesh, then under a mesh of one device.

    That has the axes of the site, or of the pair where it has no mesh: first with their types, then all of type auto.
    """
    axes = site.mesh.names or sides.pair.axes
    if not axes or not site.case.context_meshes:
        yield replace(site, built=None, alone=True)
    single, first = site.mesh.having(tuple((axis, 1) for axis in axes)), jax.local_devices()[:1]
    for mesh in dict.fromkeys((single.build(site.mode, first), single.untyped.build("auto", first))):
        if mesh is not None:
            yield replace(site, built=mesh, alone=True)


def site_alone(sides: TracedSides, side: str, site: Site) -> Site:
    """Return the first of these at which a side can be traced; the last where it cannot, for its error."""
    candidate = site
    for candidate in sites_alone(sides, site):
        if sides.forward(side, candidate).error is None:
            break
    return candidate


def on_mesh_of(sides: TracedSides, variant: str, site: Site) -> Site:
    """Return where the reference and a variant run on the mesh of a point: on the mesh that one of them brings along.

    A point without a mesh is on one device, as the reference alone is.
    """
    for side in dict.fromkeys((sides.pair.reference_name, variant)):
        site = on_own_mesh(sides, side, site)
    return site if site.mesh.axes else site_alone(sides, variant, site)


def baseline(sides: TracedSides, on_mesh: Site, *, runs: bool = True) -> tuple[Site, str | None]:
    """Return where the reference runs that others are compared with, and a remark where that is not one device.

    Where it need not run there, it suffices that it can be traced.
    """
    reference = sides.pair.reference_name
    alone = site_alone(sides, reference, on_mesh)
    own = own_mesh(sides, reference, alone)
    if own is None or (not runs and sides.forward(reference, alone).error is None):
        return alone, None
    return on_mesh, (
        f"the reference '{reference}' is bound to a mesh of {own.size} devices of its own and cannot run on one; "
        "the baseline is the reference on that mesh"
    )


def own_mesh(sides: TracedSides, side: str, site: Site) -> Mesh | None:
    """Return the first mesh of several devices that a side brings along: of its program, else of its variables."""
    program = sides.forward(side, site)
    if program.error is not None:
        return next(filter(_is_of_several, values_around(sides.functions[side])), None)
    for equation in equations(program.traced.jaxpr):
        for value in equation.params.values():
            for mesh in map(_mesh_of, value if isinstance(value, tuple | list) else (value,)):
                if _is_of_several(mesh) and mesh is not site.built:
                    return mesh  # type: ignore[no-any-return]
    return None


def on_own_mesh(sides: TracedSides, side: str, site: Site) -> Site:
    """Return the site on the very mesh that a side brings along, where that has the axes of the point; else the site.

    Its devices can be in another order, and jax holds an abstract mesh against its kind of devices.
    """
    here = site.built is not None and sides.forward(side, site).error is None
    own = own_mesh(sides, side, site if here else replace(site, built=None, alone=True))
    if own is None:
        return site
    spec = MeshSpec.of(own)
    if site.built is not None and spec == MeshSpec.of(site.built):
        return replace(site, built=own)
    if here:
        return site
    raise CouldNotRun(
        f"{sides.pair.name}: '{side}' is bound to a mesh of its own, '{spec.id}', and the mesh here is "
        f"'{site.mesh.id}' ({site.mode}); run it there: meshes=('{spec.id}',) in a Pair, or mesh='{spec.id}' in a "
        "call; or let it take the mesh as an argument: statics={'mesh': ContextMesh()}"
    )


def _mesh_of(value: Any) -> Any:
    return value if isinstance(value, Mesh) else getattr(value, "mesh", None)


def _is_of_several(mesh: Any) -> bool:
    return isinstance(mesh, Mesh) and mesh.size > 1
