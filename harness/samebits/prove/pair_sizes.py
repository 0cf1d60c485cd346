"""A point of a pair for all sizes: its declared arguments with symbols for the sizes of the case and of mesh axes.

The reference runs on one device, as in proofs of one shape. A variant whose code never looks at the mesh is one program
for every number of devices, in auto mode; any other is traced for the mesh of the point, with the number of devices as
it is there. Every other size is a symbol, but for those that a side's code needs as numbers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from samebits.errors import NotCovered
from samebits.interpret.all_sizes.polynomial import of
from samebits.interpret.inner_equations import equations
from samebits.programs.implementations import implementation
from samebits.programs.inputs import arg_dtype, differentiable
from samebits.programs.side_call import side_call
from samebits.prove.all_sizes import Function, SizesProof, prove_all_sizes
from samebits.prove.mesh_queries import mesh_queries
from samebits.prove.size_family import Family, Shaped, SizeOf, traced
from samebits.prove.size_of_case import SymbolicMesh, SymbolicSize, polynomial_of, with_symbols
from samebits.schema.all_sizes import SizesShown
from samebits.schema.case import Arg, AxisSize, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.size_symbols import SizeSymbols


@dataclass(frozen=True, slots=True)
class PairPoint:
    """What is to be proved: a variant in a case.

    Args:
        pair: the declaration.
        variant, case, dtype, direction: of the point.
    """

    pair: Pair
    variant: str
    case: Case
    dtype: str
    direction: str


@dataclass(frozen=True, slots=True)
class PairProof:
    """What is shown of a point of a pair.

    Args:
        leaves: of the whole family, one proof for each output.
        shapes: by argument, its shape as a text of symbols.
        fixed: the sizes that are numbers, because code of a side needs them.
        mesh: the mesh whose devices it is for; None for every number of devices.
        why_mesh: why it is for one mesh alone.
        sizes: by the name of a size of the case that is a symbol, its expression.
        axes: by the name of a mesh axis that is a symbol, its expression.
        statics: by static argument that is a size, its expression.
    """

    leaves: tuple[SizesProof, ...]
    shapes: Mapping[str, str]
    fixed: Mapping[str, int]
    sizes: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    statics: Mapping[str, str] = field(default_factory=dict)
    mesh: str | None = None
    why_mesh: str | None = None

    def family(self, leaf: SizesProof) -> SizesShown:
        """The sizes that the proof of a leaf is about."""
        return SizesShown(
            shapes=self.shapes,
            statics=self.statics,
            axes={name: text for name, text in self.axes.items() if text != name},
            conditions=leaf.conditions,
            fixed=self.fixed,
            mesh=self.mesh,
            why_mesh=self.why_mesh,
            counterexample=dict(leaf.sizes),
        )


def for_all(leaf: SizesProof) -> Literal["proved", "rounding"] | None:
    """What is shown of a leaf for all sizes."""
    return leaf.verdict if leaf.verdict in ("proved", "rounding") else None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A family for a point, with both sides as functions."""

    family: Family
    functions: tuple[Function, Function]
    fixed: Mapping[str, int]
    sizes: Mapping[str, str]
    axes: Mapping[str, str]

    @property
    def statics(self) -> dict[str, str]:
        """The static arguments that are sizes, as text."""
        return {name: size.text for name, size in self.family.statics.items() if isinstance(size, SizeOf)}


class PairSizes:
    """Proves points of pairs for all sizes; what holds for every number of devices is shown once.

    Args:
        most_fixed: how many sizes of a case may be numbers, where code needs them.
    """

    def __init__(self, most_fixed: int = 3) -> None:
        self._most_fixed = most_fixed
        self._everywhere: dict[tuple[str, ...], tuple[PairProof, Family] | str] = {}

    def prove(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        """Prove a point on a mesh in auto mode, for every number of devices if its code does not ask for it.

        Args:
            point: the point.
            mesh: of the point.
        """
        if point.case.transform is not None:
            return _undecided(f"both sides are under {point.case.transform}")
        if point.variant in point.pair.adapt and set(_symbols(point).expressions) & set(point.case.statics):
            return _undecided("its arguments are adapted, which may compute with static arguments that are sizes")
        key = (point.pair.name, point.variant, point.case.id, point.dtype, point.direction)
        if key not in self._everywhere:
            self._everywhere[key] = self._on_every_mesh(point, mesh)
        everywhere = self._everywhere[key]
        if not isinstance(everywhere, str):
            proof, family = everywhere
            if _covers(family, point, mesh):
                return proof
            everywhere = "the shapes of the case depend on the mesh by more than sums and products"
        if not mesh.axes:
            return self._on_mesh(point, mesh, None)
        return self._on_mesh(point, mesh, everywhere)

    def _on_every_mesh(self, point: PairPoint, mesh: MeshSpec) -> tuple[PairProof, Family] | str:
        if point.case.context_meshes:
            return "the mesh is an argument"
        if point.variant in point.pair.adapt and _axis_sizes(point.case):
            return "its arguments are adapted, which may compute with the sizes of mesh axes"
        why = ""
        for attempt in _attempts(point, SymbolicMesh.over(mesh, point.case, _symbols(point)), self._most_fixed):
            try:
                with mesh_queries() as places:
                    program = traced(attempt.functions[1], attempt.family, point.direction)
                if any(equation.primitive.name == "shard_map" for equation in equations(program.closed.jaxpr)):
                    return "it has a mesh of its own"
                traced(attempt.functions[0], attempt.family, point.direction)
            except NotCovered as error:
                why = why or str(error)
                if not places:
                    continue
            if places:
                return f"{places[0]} asks for the mesh"
            proof = _proof(attempt, point)
            return proof, attempt.family
        return why or "there is no size to prove it for"

    def _on_mesh(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> PairProof:
        why = ""
        if _numbers(point, mesh) is None:
            return _undecided(f"no value of the symbols gives the sizes of the case and of mesh {mesh.id}")
        for attempt in _attempts(point, mesh, self._most_fixed):
            try:
                for function in attempt.functions:
                    traced(function, attempt.family, point.direction)
            except NotCovered as error:
                why = why or str(error)
                continue
            return replace(_proof(attempt, point), mesh=mesh.id if mesh.axes else None, why_mesh=why_mesh)
        return _undecided(why or "the case has no sizes")


def _attempts(point: PairPoint, mesh: MeshSpec, most_fixed: int) -> Iterator[_Attempt]:
    """Families with as few symbols fixed as possible, as long as there is one left."""
    symbols = _symbols(point)
    own = (*point.case.sizes, *(name for name in point.case.numbers if name in symbols.expressions))
    numbers = _numbers(point, mesh)
    # Empty dimensions are no sizes of a family, and a mesh that is there has the axes that it has.
    always = {name: number for name, number in point.case.sizes.items() if number < 1}
    if not isinstance(mesh, SymbolicMesh) and numbers is not None:
        always |= {name: numbers[name] for name in symbols.free(_axes(point, mesh))}
    names = tuple(name for name in symbols.free(own) if numbers is not None and name not in always)
    for count in range(min(most_fixed, len(names)) + 1):
        for fixed in itertools.combinations(names, count):
            values = {**always, **{name: (numbers or {})[name] for name in fixed}}
            attempt = _attempt(point, mesh, symbols, values)
            if attempt.family.symbols:
                yield attempt


def _symbols(point: PairPoint) -> SizeSymbols:
    return point.case.size_symbols(f"pair '{point.pair.name}', case '{point.case.id}'", point.pair.axes)


def _axes(point: PairPoint, mesh: MeshSpec) -> tuple[str, ...]:
    """The mesh axes that the sizes of a case are declared to depend on."""
    case, symbols = point.case, _symbols(point)
    free = symbols.free(tuple(case.numbers))
    names = dict.fromkeys((*point.pair.axes, *mesh.names))
    return tuple(name for name in names if name not in case.numbers and (name in symbols.expressions or name in free))


def _numbers(point: PairPoint, mesh: MeshSpec) -> dict[str, int] | None:
    """The symbols' values at the declared sizes, on a mesh; on one of symbols, whatever its axes are there."""
    case, symbols = point.case, _symbols(point)
    axes = {} if isinstance(mesh, SymbolicMesh) else {name: mesh.size(name) for name in _axes(point, mesh)}
    return symbols.numbers({**axes, **case.numbers})


def _undecided(why: str) -> PairProof:
    return PairProof((SizesProof("*", "error", reason=why),), {}, {})


def _proof(attempt: _Attempt, point: PairPoint) -> PairProof:
    leaves = prove_all_sizes(*attempt.functions, attempt.family, point.direction)
    shapes = {name: f"{arg.dtype}[{', '.join(map(str, arg.shape))}]" for name, arg in attempt.family.args.items()}
    return PairProof(tuple(leaves), shapes, attempt.fixed, attempt.sizes, attempt.axes, attempt.statics)


def _covers(family: Family, point: PairPoint, mesh: MeshSpec) -> bool:
    """Whether the declared shapes on a mesh are among those of a family."""
    axes = {name: mesh.size(name) for name in (*family.symbols, *_axes(point, mesh)) if name not in point.case.numbers}
    known = {name for name in axes if name in point.pair.axes or name in mesh.names or name in _axis_names(point.case)}
    numbers = _symbols(point).numbers({**{name: axes[name] for name in known}, **point.case.numbers})
    if numbers is None:
        return False
    numbers |= {name: number for name, number in point.case.sizes.items() if number < 1}
    for name, arg in point.pair.arguments(point.case, mesh).items():
        declared = tuple(point.case.sizes[size] if isinstance(size, str) else size for size in arg.shape)
        shaped = family.args.get(name)
        if shaped is None or tuple(family.sizes(size).value(numbers) for size in shaped.shape) != declared:
            return False
    return True


def _attempt(point: PairPoint, mesh: MeshSpec, symbols: SizeSymbols, fixed: Mapping[str, int]) -> _Attempt:
    pair, case = point.pair, with_symbols(point.case, symbols, fixed)
    args = pair.arguments(case, mesh)
    shaped = {
        name: Shaped(
            tuple(str(polynomial_of(case.sizes[size] if isinstance(size, str) else size)) for size in arg.shape),
            arg_dtype(arg, point.dtype).name,
        )
        for name, arg in args.items()
    }
    every = isinstance(mesh, SymbolicMesh)
    statics = {name: SizeOf(str(size.polynomial)) for name, size in _symbolic_statics(case, mesh).items()}
    texts = " ".join([str(size) for arg in shaped.values() for size in arg.shape] + [s.text for s in statics.values()])
    axes = mesh.symbolic if isinstance(mesh, SymbolicMesh) else ()
    family = Family(
        symbols={name: symbols.low(name) for name in symbols.free((*case.numbers, *axes)) if _names(texts, name)},
        args=shaped,
        statics=statics,
        differentiable=differentiable(args, point.dtype),
        divided=_divided(args, case, mesh, texts),
    )
    built = None if every else mesh.abstract("auto")
    single = mesh.single.abstract("auto") if built is not None and case.context_meshes else None
    functions = (
        _function(point, pair.reference_name, case, mesh, single),
        _function(point, point.variant, case, mesh, built),
    )
    sizes = {name: case.sizes.get(name, case.statics.get(name)) for name in case.numbers}
    return _Attempt(family, functions, fixed, _expressions(sizes), _expressions({n: mesh.size(n) for n in axes}))


def _divided(args: Mapping[str, Arg], case: Case, mesh: MeshSpec, texts: str) -> tuple[tuple[str, str], ...]:
    """The dimensions that lie on several devices, with their number; axes that no size depends on are 1 there."""
    divided: dict[tuple[str, str], None] = {}
    for arg in args.values():
        for size, entry in zip(arg.shape, arg.spec, strict=False):
            devices = of(1)
            for axis in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
                number = polynomial_of(mesh.size(axis))
                idle = isinstance(mesh, SymbolicMesh) and not any(_names(texts, name) for name in number.variables)
                devices = devices if idle else devices * number
            if devices.constant != 1:
                text = str(polynomial_of(case.sizes[size] if isinstance(size, str) else size))
                divided[text, str(devices)] = None
    return tuple(divided)


def _expressions(sizes: Mapping[str, Any]) -> dict[str, str]:
    """The sizes that are symbols, as text."""
    return {name: str(size.polynomial) for name, size in sizes.items() if isinstance(size, SymbolicSize)}


def _names(texts: str, name: str) -> bool:
    return name in texts.replace("*", " ").replace("+", " ").replace("-", " ").split()


def _function(point: PairPoint, side: str, case: Case, mesh: MeshSpec, built: Any) -> Callable[..., Any]:
    """A side as a function of the arrays of a case, in the order of its arguments, and of its sizes of mesh axes."""
    pair = point.pair
    names = tuple(pair.arguments(case, mesh))
    written = implementation(pair, side)

    def function(*arrays: Any, **sizes: Any) -> Any:
        dims = {str(size.polynomial): sizes[name] for name, size in _symbolic_statics(case, mesh).items()}

        @functools.wraps(written)
        def traced_side(*args: Any, **keywords: Any) -> Any:
            return written(*(_dim(a, dims) for a in args), **{name: _dim(a, dims) for name, a in keywords.items()})

        call = side_call(pair, side, traced_side if dims else written, case, mesh, built)
        return call(dict(zip(names, arrays, strict=True)))

    if built is None:
        return function

    def on_mesh(*arrays: Any, **sizes: Any) -> Any:
        import jax

        with jax.sharding.use_abstract_mesh(built):
            return function(*arrays, **sizes)

    return on_mesh


def _axis_sizes(case: Case) -> dict[str, AxisSize]:
    """The static arguments that are sizes of mesh axes."""
    return {name: value for name, value in case.statics.items() if isinstance(value, AxisSize)}


def _axis_names(case: Case) -> set[str]:
    return {value.axis for value in _axis_sizes(case).values()}


def _symbolic_statics(case: Case, mesh: MeshSpec) -> dict[str, SymbolicSize]:
    """The static arguments that are sizes made of symbols."""
    values = {name: mesh.size(v.axis) if isinstance(v, AxisSize) else v for name, v in case.statics.items()}
    return {name: value for name, value in values.items() if isinstance(value, SymbolicSize)}


def _dim(value: Any, dims: Mapping[str, Any]) -> Any:
    """The size of an axis as jax has it, in place of the number that the declaration gave."""
    return dims[str(value.polynomial)] if isinstance(value, SymbolicSize) else value
