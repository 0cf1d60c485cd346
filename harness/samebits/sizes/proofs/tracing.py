"""Functions traced for a family of shapes: with symbols where its sizes are free, with numbers where they are not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax import export
from jax.extend.core import jaxpr_as_fun

from samebits.errors import NotCovered, SamebitsError
from samebits.prove.mesh_queries import Query, platform_of_process, process_queries
from samebits.schema.domain import cotangent_of
from samebits.sizes.places.space import Space
from samebits.sizes.proofs.comparisons import SizeComparison
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.number_forms import with_scans
from samebits.sizes.proofs.operators import comparisons


# The arguments of a family as jax has them: types with symbols in their shapes, and sizes among static arguments.
def jax_types(family: Family) -> tuple[list[Any], dict[str, Any]]:
    """Return the types of the arguments, and the static ones, with sizes as jax has them."""
    free = family.free
    symbols = {}
    if free:
        bounds = [f"{name} >= {low}" for name, low in free.items() if low > 1] + _of_products(family)
        symbols = dict(zip(free, export.symbolic_shape(",".join(free), constraints=bounds), strict=True))

    def size(text: str | int) -> Any:
        total: Any = 0
        for monomial, factor in family.sizes(text).terms:
            product: Any = factor
            for name in monomial:
                product = symbols[name] * product
            total = product + total
        return total

    types = [
        jax.ShapeDtypeStruct(tuple(size(text) for text in arg.shape), np.dtype(arg.dtype))
        for arg in family.args.values()
    ]
    statics = {name: size(value.text) if isinstance(value, SizeOf) else value for name, value in family.statics.items()}
    return types, statics


def _of_products(family: Family) -> list[str]:
    """Say that a product of sizes is at least any of its factors' products, which jax does not conclude by itself."""
    statics = [value.text for value in family.statics.values() if isinstance(value, SizeOf)]
    sizes = [family.sizes(text) for text in (*(size for arg in family.args.values() for size in arg.shape), *statics)]
    products = dict.fromkeys(monomial for size in sizes for monomial, _ in size.terms if len(set(monomial)) > 1)
    return [
        f"{'*'.join(monomial)} >= {'*'.join(name for place, name in enumerate(monomial) if place != left_out)}"
        for monomial in products
        for left_out in range(len(monomial))
    ]


MOST_PROGRAMS = 512
"""How many programs are kept for the next caller."""


@dataclass(frozen=True, slots=True)
class OnMesh:
    """Traces a function in the context of a mesh.

    Args:
        function: takes the arguments by position and the static ones by keyword.
        specs: by argument, how it lies on the mesh, where shardings are part of types; empty elsewhere.
    """

    function: Callable[..., Any]
    mesh: Any
    specs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *arrays: Any, **sizes: Any) -> Any:
        """Call the function in the context of the mesh."""
        with jax.sharding.use_abstract_mesh(self.mesh):
            return self.function(*arrays, **sizes)

    def placed(self, name: str, kind: Any) -> Any:
        """Return the type of an argument with its sharding; where types have none, code sees the mesh alone."""
        spec = self.specs.get(name, jax.sharding.PartitionSpec())
        sharding = jax.sharding.NamedSharding(self.mesh, spec)
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)


@dataclass(frozen=True, slots=True)
class TracedOnce:
    """A function whose program of a family is traced once, for all that share the memory.

    It is for code that looks at nothing but its arguments and the mesh that it is traced on.

    Args:
        function: takes the arguments by position and the static ones by keyword.
        name: what it is, with all that it closes over, its mesh included.
        programs: the memory: by name, family and direction.
    """

    function: Callable[..., Any]
    name: Hashable
    programs: dict[Hashable, Any]

    def __call__(self, *arrays: Any, **sizes: Any) -> Any:
        """Call the function."""
        return self.function(*arrays, **sizes)

    def of(self, family: Family, direction: str) -> TracedFamily:
        """Return its program for a family: the gradient is that of the program that the other direction has."""
        program: TracedFamily = self._kept(
            (self.name, direction, family.types),
            lambda: _traced(self.function, family, direction, self._called(family)),
        )
        return program

    def _called(self, family: Family) -> _Called:
        called: _Called = self._kept((self.name, family.types), lambda: _called(self.function, family))
        return called

    def _kept(self, key: Hashable, build: Callable[[], Any]) -> Any:
        if key not in self.programs:
            value = build()
            if len(self.programs) >= MOST_PROGRAMS:
                self.programs.pop(next(iter(self.programs)))
            self.programs[key] = value
        return self.programs[key]


@dataclass(frozen=True, slots=True)
class TracedFamily:
    """A program of a family.

    Args:
        comparisons: those of sizes with one answer for all, which is wrong for some.
        asked: what code asked about the devices and the platform of this process.
    """

    closed: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    comparisons: tuple[SizeComparison, ...]
    asked: tuple[Query, ...] = ()


Sides = tuple[TracedFamily, TracedFamily]
"""The programs of the reference and of the variant."""


class NotTraced(NotCovered):
    """Code raises where it meets a symbol, with the comparisons of sizes before that."""

    def __init__(self, message: str, comparisons: tuple[SizeComparison, ...]) -> None:
        super().__init__(message)
        self.comparisons = comparisons


def traced(function: Callable[..., Any], family: Family, direction: str = "forward") -> TracedFamily:
    """Return a function's program for a family, with symbols where these are free.

    Raises:
        NotTraced: the function needs a number where it gets a symbol.
        NotCovered: it asks for the platform, which is another one here than that of the family.
    """
    if isinstance(function, TracedOnce):
        program = function.of(family, direction)
    else:
        program = _traced(function, family, direction, _called(function, family))
    why = platform_of_process(program.asked, family.platform)
    if why is not None:
        raise NotCovered(why)
    return program


def each_once(functions: Sequence[Callable[..., Any]]) -> list[TracedOnce]:
    """Return functions whose programs are kept as long as these objects are."""
    programs: dict[Hashable, TracedFamily] = {}
    return [f if isinstance(f, TracedOnce) else TracedOnce(f, number, programs) for number, f in enumerate(functions)]


@dataclass(frozen=True, slots=True)
class _Called:
    """Holds a function's program as it was called, with the types of its arguments and outputs."""

    closed: Any
    types: tuple[Any, ...]
    outputs: Any
    comparisons: tuple[SizeComparison, ...]
    asked: tuple[Query, ...]


def _called(function: Callable[..., Any], family: Family) -> _Called:
    """Call a function with symbols."""
    types, statics = jax_types(family)
    if isinstance(function, OnMesh):
        types = [function.placed(name, kind) for name, kind in zip(family.args, types, strict=True)]

    def forward(*arrays: Any) -> Any:
        return function(*arrays, **statics)

    with _tracing(function, family) as seen, process_queries() as queries:
        closed, outputs = jax.make_jaxpr(forward, return_shape=True)(*types)
    return _Called(closed, tuple(types), outputs, tuple(seen), _of_process(queries))


def _traced(function: Callable[..., Any], family: Family, direction: str, called: _Called) -> TracedFamily:
    """Return the program of a function that was called, or that of its pull-back."""
    paths = _paths("out", called.outputs)
    if direction != "gradient":
        with _tracing(function, family):
            closed = with_scans(called.closed)
        return TracedFamily(closed, tuple(family.args), tuple(paths), called.comparisons, called.asked)
    chosen, cotangents = _chosen(family, called.types), jax.tree.map(_of_cotangent, called.outputs)
    with _tracing(function, family, called.comparisons) as seen, process_queries() as queries:
        flat = jaxpr_as_fun(with_scans(called.closed, differentiable=True))
        forward = OnMesh(flat, function.mesh) if isinstance(function, OnMesh) else flat
        closed = jax.make_jaxpr(_pull_back(forward, called.outputs, chosen))(*called.types, cotangents)
    inputs = (*family.args, *(cotangent_of(path) for path in paths))
    outputs, of_process = tuple(tuple(family.args)[n] for n in chosen), (*called.asked, *_of_process(queries))
    return TracedFamily(closed, inputs, outputs, (*called.comparisons, *seen), of_process)


def _of_process(queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries about the devices and the platform of this process, each once."""
    return tuple(dict.fromkeys(query for query in queries if query.asks != {"mesh"}))


@contextmanager
def _tracing(
    function: Callable[..., Any], family: Family, before: tuple[SizeComparison, ...] = ()
) -> Iterator[list[SizeComparison]]:
    """Collect what traced code asks of sizes, on the mesh of its function, after what it asked `before`."""
    mesh: Any = nullcontext()
    if isinstance(function, OnMesh) and function.specs:
        mesh = jax.sharding.use_abstract_mesh(function.mesh)
    with mesh, comparisons(family.free, family.answers) as seen, _whole_tracebacks():
        try:
            yield seen
        except SamebitsError:
            raise
        except Exception as error:  # of the user's code, which may raise anything where it meets a symbol
            why = f"it cannot be traced with symbols for sizes: {_first_line(error)}"
            raise NotTraced(why, (*before, *seen)) from error


@contextmanager
def _whole_tracebacks() -> Iterator[None]:
    """Leave tracebacks as they are: jax looks at the path of every frame to shorten them, and here they are dropped."""
    config: Any = jax.config
    before = config.jax_traceback_filtering
    config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        config.update("jax_traceback_filtering", before)


def _of_cotangent(kind: Any) -> Any:
    """Return the type of a cotangent: reduced over the axes over which the output is unreduced, and vice versa."""
    spec = getattr(kind.sharding, "spec", None)
    if spec is None or not (spec.unreduced or spec.reduced):
        return kind
    swapped = jax.sharding.PartitionSpec(*spec.partitions, unreduced=spec.reduced, reduced=spec.unreduced)
    sharding = jax.sharding.NamedSharding(kind.sharding.mesh, swapped)
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding)


def _chosen(family: Family, types: Sequence[Any]) -> list[int]:
    """Return the numbers of the arguments that a gradient is taken of."""
    if family.differentiable is not None:
        return [number for number, name in enumerate(family.args) if name in family.differentiable]
    return [number for number, kind in enumerate(types) if jax.numpy.issubdtype(kind.dtype, jax.numpy.inexact)]


def _pull_back(flat: Callable[..., Any], outputs: Any, chosen: Sequence[int]) -> Callable[..., Any]:
    """Return the function of cotangents that gives the gradients of chosen arguments, for a flat function."""
    structure = jax.tree.structure(outputs)

    def pull(*arrays: Any) -> Any:
        *arguments, cotangents = arrays

        def of_chosen(*own: Any) -> Any:
            placed = dict(zip(chosen, own, strict=True))
            operands = [placed.get(number, argument) for number, argument in enumerate(arguments)]
            return jax.tree.unflatten(structure, flat(*operands))

        return jax.vjp(of_chosen, *(arguments[number] for number in chosen))[1](cotangents)

    return pull


def _paths(root: str, tree: Any) -> list[str]:
    return [root + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def other_types(space: Space, sides: Sides) -> str | None:
    """Say how outputs of two programs differ in names, number, shape or dtype; or their inputs, as cotangents do."""
    for what, first, second in (
        ("outputs", *(_in_words(space, side.outputs, side.closed.out_avals) for side in sides)),
        ("inputs", *(_in_words(space, side.inputs, side.closed.in_avals) for side in sides)),
    ):
        if first != second:
            return (
                f"the {what} are not of the same names, shapes and dtypes: {'; '.join(first)} and {'; '.join(second)}"
            )
    return None


def _in_words(space: Space, names: Sequence[str], avals: Sequence[Any]) -> list[str]:
    return [
        f"{name} {aval.dtype}[{', '.join(str(space.size(size)) for size in aval.shape)}]"
        f"{' of weak type' if getattr(aval, 'weak_type', False) else ''}"
        for name, aval in zip(names, avals, strict=True)
    ]
