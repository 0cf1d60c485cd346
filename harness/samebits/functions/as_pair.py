"""Two functions and the arguments of one call as a declaration: whatever works for a pair works for them.

Nothing is traced here.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from samebits.errors import DeclarationError, RequestError
from samebits.functions.request import CompareOptions, CompareRequest, near_option, short_text
from samebits.host.isolation import note
from samebits.programs.implementations import class_remark, parameters_of, signature_text
from samebits.programs.like import is_array, like
from samebits.schema.argument_trees import ArgTree
from samebits.schema.case import Arg, Case, ContextMesh, Spec
from samebits.schema.contract import Contract, Rung
from samebits.schema.meshes import MODES, NO_MESH, MeshSpec
from samebits.schema.pair import WIDEST, Pair
from samebits.schema.validate import with_article
from samebits.schema.values import Given


# How arguments lie on a mesh where none is declared: in automatic sharding every layout is a right one.
def split_by_default(args: Mapping[str, ArgTree], mesh: MeshSpec) -> tuple[dict[str, ArgTree], str | None]:
    """Return the arguments split over a mesh, unless one of them says how it lies, and what a reader should know.

    The dimensions of each array take the axes of the mesh in their order, each axis once, where the sizes divide.
    """
    leaves = {path: arg for name, tree in args.items() for path, arg in tree.leaves(name).items()}
    if mesh.devices == 1 or any(arg.spec for arg in leaves.values()):
        return dict(args), None
    specs = {path: _spec(arg, mesh) for path, arg in leaves.items()}
    split = {name: tree.changed(name, lambda path, arg: replace(arg, spec=specs[path])) for name, tree in args.items()}
    words = ", ".join(f"{path} {spec}" for path, spec in specs.items() if spec)
    return split, f"no specs were given; split over {mesh.id}: {words}" if words else None


def _spec(arg: Arg, mesh: MeshSpec) -> Spec:
    """Return the axes of each dimension; random keys are not split."""
    if str(arg.dtype).startswith("key<"):
        return ()
    axes = [(axis, size) for axis, size in mesh.axes if size > 1]
    entries: list[str | None] = []
    for length in arg.shape:
        fitting = next((axis for axis, size in axes if isinstance(length, int) and length % size == 0), None)
        entries.append(fitting)
        axes = [(axis, size) for axis, size in axes if axis != fitting]
    return tuple(entries) if any(entries) else ()


# What two functions are called in reports, so that a reader can tell them apart.
_LAMBDA = "<lambda>"
_UNNAMED = ("", "lambda", "unnamed_function")


def side_names(
    reference: Callable[..., Any], variant: Callable[..., Any], texts: tuple[str, str] = ("", "")
) -> tuple[str, str]:
    """Name two functions, with the module where their names are equal, or as `texts` of a command name them.

    A `functools.partial` has the name of its function after `partial_`, an object that of its class; a lambda is the
    `reference` or the `variant`.
    """
    sides = (reference, variant)
    own = (
        _id(text.rpartition(":")[2].rpartition(".")[2] or _name(side)) for side, text in zip(sides, texts, strict=True)
    )
    short = [name or which for name, which in zip(own, ("reference", "variant"), strict=True)]
    if short[0] == short[1]:
        modules = [str(getattr(_inner(side), "__module__", "")).split(".") for side in sides]
        part = 0 if modules[0][0] != modules[1][0] else -1  # of libraries the package, else the file
        if modules[0][part] != modules[1][part]:
            short = [_id(f"{module[part]}_{name}") for module, name in zip(modules, short, strict=True)]
    return (short[0], short[1]) if short[0] != short[1] else (f"{short[0]}_reference", f"{short[1]}_variant")


def shown_name(side: Callable[..., Any], place: str) -> str:
    """Return a function in a message: `'norm'`; a lambda by its place in the call, `first` or `second`."""
    name = getattr(_inner(side), "__name__", type(side).__name__)
    return f"the {place} function, a lambda," if name == _LAMBDA else f"'{name}'"


def check_renames(
    renamed: Mapping[str, str], names: Iterable[str], variant: Callable[..., Any], option: str, by_name: bool
) -> None:
    """Reject renamed arguments that the call does not have, or that the second function does not call so.

    With `by_name` an argument whose own name the second function has too is passed as that one.
    """
    names, parameters = tuple(names), parameters_of(variant)
    own = {p.name for p in parameters or ()}
    collects = parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name, other in renamed.items():
        where = f"{option} {name}={other}"
        if name not in names:
            raise RequestError(f"{where}: there is no argument '{name}'; the arguments are {', '.join(names)}")
        takes = f"{where}: the second function takes {signature_text(variant)}"
        if other not in own and not collects:
            raise RequestError(f"{takes}, and no parameter '{other}'")
        if by_name and collects and parameters is not None and other not in own:
            raise RequestError(f"{takes}, which gets '{name}' by that name; wrap it in a function that names '{other}'")
        if by_name and name in own and name != other:
            raise RequestError(f"{takes}, whose own '{name}' gets that argument; wrap it in a function of other names")


def _name(side: Callable[..., Any]) -> str:
    name = str(getattr(_inner(side), "__name__", type(side).__name__))
    if not isinstance(side, functools.partial):
        return name
    return f"partial_{name}" if _id(name) else "partial"


def _inner(side: Callable[..., Any]) -> Any:
    """Return the function in a partial, which has the name."""
    while isinstance(side, functools.partial):
        side = side.func
    return side


def _id(text: str) -> str:
    """Return a name as it may be part of a test's id; empty where there is none."""
    cleaned = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return "" if cleaned in _UNNAMED else cleaned


CASE = "call"
"""The id of the first case; further seeds are numbered."""


OUTSIDE = (
    "two functions are compared by compiling and running them, which cannot be done inside of jax.jit, grad, vmap or "
    "scan; call this outside of it, with arrays"
)
"""What is said where a comparison is called in a function that jax transforms."""

MESH = "mesh"
"""The parameter for which a function that has it gets the mesh of the context."""


class PositionalCall:
    """A side that takes some of the declared arguments by position, and all others by keyword.

    Args:
        positional: the declared names that are passed by position, in order.
        keywords: by declared name, what the function calls it; an empty name for what it does not take.
    """

    def __init__(
        self, function: Callable[..., Any], positional: tuple[str, ...], keywords: Mapping[str, str], name: str
    ) -> None:
        self.__wrapped__ = function
        self.__name__ = name
        self.__signature__ = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])
        self.positional = positional
        self.keywords = dict(keywords)

    def __call__(self, **arguments: Any) -> Any:
        """Call the function."""
        ordered = [arguments.pop(name) for name in self.positional]
        keywords = {self.keywords.get(name, name): value for name, value in arguments.items()}
        keywords.pop("", None)
        return self.__wrapped__(*ordered, **keywords)


def pair_of(request: CompareRequest) -> Pair:
    """Return the declaration of a request."""
    options = request.options
    positional = _names(request)
    call = dict(zip(positional, request.args, strict=True)) | dict(request.keywords)
    _require_concrete(call)
    if options.adapt is None:
        check_renames(options.rename, (*call, MESH), request.variant, "rename", by_name=False)
    for place, side in (("first", request.reference), ("second", request.variant)):
        if side is request.reference or options.adapt is None:
            rename = options.rename if side is request.variant else {}
            _check_call(shown_name(side, place), side, len(positional), request.keywords, rename)
    specs = _specs_by_name(options.specs, positional, call)
    args = {name: _declared(name, value, specs.get(name)) for name, value in call.items() if _has_array(value)}
    if not args:
        raise RequestError(
            f"no array among the arguments ({', '.join(call) or 'there are none'}); give arrays, or "
            "jax.ShapeDtypeStruct(shape, dtype), from which values are drawn"
        )
    args = _as_stated(args, options)
    mesh = mesh_of(request)
    _require_axes(args, mesh)
    if options.specs is None and options.mesh is not None and mesh.mode != "explicit" and not _meshes_of(request):
        args, remark = split_by_default(args, mesh)
        if remark is not None:
            note(remark)
    chosen = mesh.untyped if len(set(mesh.types)) <= 1 else mesh  # one type for all is the sharding mode
    statics = {name: _static(value) for name, value in call.items() if name not in args}
    first, second = side_names(request.reference, request.variant)
    adapted = {} if options.adapt is None else {second: options.adapt}
    statics, renamed = _with_context_mesh(request, statics, mesh)
    return Pair(
        name=options.name or f"{first}_{second}",
        reference=_side(request.reference, positional, renamed[0], first),
        variants={second: _side(request.variant, () if adapted else positional, renamed[1], second)},
        args=args,
        cases=tuple(Case(id=CASE if seed == 0 else f"{CASE}_{seed}", statics=statics) for seed in range(options.seeds)),
        dtypes=(_main_dtype(args.values()),),
        meshes=(chosen.id,) if chosen.devices <= WIDEST else (),
        wide_meshes=() if chosen.devices <= WIDEST else (chosen.id,),
        modes=(mesh.mode or MODES[0],),
        contracts=() if options.accept is None else (_contract(options.accept),),
        gradients=options.gradients,
        has_aux=options.has_aux,
        accuracy=options.accuracy,
        adapt=adapted,
        ignore=tuple(options.ignore),
    )


def _require_concrete(call: Mapping[str, Any]) -> None:
    """Reject arguments that are traced by a transformation around the call."""
    import jax

    for name, value in call.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            if isinstance(leaf, jax.core.Tracer):
                raise RequestError(f"'{name}'{jax.tree_util.keystr(path)} is a traced array: {OUTSIDE}")


def takes_mesh(side: Callable[..., Any], mesh: MeshSpec) -> bool:
    """Tell whether a function has a parameter `mesh` to fill: without a mesh, only one that has no default."""
    parameters = [p for p in parameters_of(side) or () if p.name == MESH]
    return any(mesh.axes or p.default is p.empty for p in parameters)


def mesh_of(request: CompareRequest) -> MeshSpec:
    """Return the mesh of a request: the one asked for, or that of the arrays, or none."""
    import jax

    asked_for = request.options.mesh
    if isinstance(asked_for, str):
        return MeshSpec.parse(asked_for)
    if isinstance(asked_for, jax.sharding.Mesh):
        return MeshSpec.of(asked_for)
    if asked_for is not None:
        raise RequestError(
            f"mesh={short_text(asked_for)} is {with_article(type(asked_for).__name__)}; expected a jax.sharding.Mesh, "
            "or an id such as 'dp2_tp4'"
        )
    wide = _meshes_of(request)
    if len(wide) > 1:
        raise RequestError(f"the arrays lie on {len(wide)} meshes ({wide[0]}, {wide[1]}); give one as mesh=")
    return MeshSpec.of(wide[0]) if wide else MeshSpec.parse(NO_MESH)


def _meshes_of(request: CompareRequest) -> list[Any]:
    """Return the meshes of several devices among the arguments, or on which their arrays lie, each once."""
    import jax

    leaves = jax.tree.leaves((request.args, dict(request.keywords)))
    passed = [leaf for leaf in leaves if isinstance(leaf, jax.sharding.Mesh)]
    meshes = dict.fromkeys([*passed, *(getattr(getattr(leaf, "sharding", None), "mesh", None) for leaf in leaves)])
    return [mesh for mesh in meshes if mesh is not None and mesh.size > 1]


def _names(request: CompareRequest) -> tuple[str, ...]:
    """Name the positional arguments: as the reference's parameters, or the variant's, or by numbers."""
    for side in (request.reference, request.variant):
        parameters = parameters_of(side) or ()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(names) >= len(request.args):
            return tuple(names[: len(request.args)])
    return tuple(f"arg{number}" for number in range(len(request.args)))


def _check_call(
    who: str, side: Callable[..., Any], count: int, keywords: Mapping[str, Any], rename: Mapping[str, str]
) -> None:
    """Reject arguments that a function does not take."""
    parameters = parameters_of(side)
    if parameters is None:
        return
    names = [rename.get(name, name) for name in keywords]
    if MESH not in names and any(p.name == MESH for p in parameters[count:]):
        names.append(MESH)
    try:
        inspect.Signature(list(parameters)).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        unknown = next((name for name in names if name not in {p.name for p in parameters}), "")
        raise RequestError(
            f"{who} takes {signature_text(side)} and cannot be called with {count} positional "
            f"arguments{' and ' + ', '.join(names) if names else ''}: {error}"
            f"{near_option(unknown) if unknown else ''}{class_remark(side)}"
        ) from None


def _declared(name: str, value: Any, specs: Any) -> ArgTree:
    """Return an argument of the call as it is declared."""
    try:
        return like(value, specs=specs)
    except DeclarationError as error:
        raise RequestError(f"'{name}': {error}") from None


def _as_stated(args: Mapping[str, ArgTree], options: CompareOptions) -> dict[str, ArgTree]:
    """Return the arguments with what the call says of their values."""
    leaves = [path for name, tree in args.items() for path in tree.leaves(name)]
    for option, names in (("values", options.values), ("exactly", options.exactly)):
        unknown = next((name for name in names if name not in {*leaves, *args}), None)
        if unknown is not None:
            raise RequestError(f"{option}= names '{unknown}'; the arrays are {', '.join(leaves)}")

    def stated(arg: Arg, *names: str) -> Arg:
        drawn = next((options.values[name] for name in names if name in options.values), None)
        if drawn is not None:
            return replace(arg, values=drawn)
        exactly = isinstance(arg.values, Given) and any(name in options.exactly for name in names)
        return replace(arg, values=replace(arg.values, exactly=True)) if exactly else arg  # type: ignore[type-var]

    return {
        name: replace(tree, args=tuple(stated(arg, path, name) for path, arg in tree.leaves(name).items()))
        for name, tree in args.items()
    }


def _require_axes(args: Mapping[str, ArgTree], mesh: MeshSpec) -> None:
    """Reject an array that is split over an axis which the mesh lacks."""
    known = [name for name, _ in mesh.axes]
    leaves = {path: arg for name, tree in args.items() for path, arg in tree.leaves(name).items()}
    for path, arg in leaves.items():
        axes = [axis for entry in arg.spec for axis in ((entry,) if isinstance(entry, str) else entry or ())]
        unknown = next((axis for axis in axes if axis not in known), None)
        if known and unknown is not None:
            raise RequestError(
                f"'{path}' is split over '{unknown}'; expected some of the axes of mesh '{mesh.id}': {', '.join(known)}"
            )


def _specs_by_name(specs: Any, positional: Sequence[str], call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specs of each argument by its name."""
    import jax

    expected = f"expected a PartitionSpec, one per positional argument ({', '.join(positional)}), or a dict by name"
    if specs is None:
        return {}
    if isinstance(specs, jax.sharding.PartitionSpec):
        return dict.fromkeys(call, specs)
    if isinstance(specs, Mapping):
        unknown = [name for name in specs if name not in call]
        if unknown:
            raise RequestError(f"specs name '{unknown[0]}'; the arguments are {', '.join(call)}")
        return dict(specs)
    if not isinstance(specs, Sequence) or len(specs) > len(positional):
        raise RequestError(f"specs={short_text(specs)}; {expected}")
    rest = [name for name in positional[len(specs) :] if _has_array(call[name])]
    if rest:
        raise RequestError(f"specs={short_text(specs)} has none for {', '.join(rest)}; {expected}")
    return dict(zip(positional, specs, strict=False))


def _with_context_mesh(
    request: CompareRequest, statics: Mapping[str, Any], mesh: MeshSpec
) -> tuple[dict[str, Any], list[tuple[tuple[str, str], ...]]]:
    """Add the mesh of the context to the static arguments of a side that takes one, with its name on each side."""
    names: list[dict[str, str]] = [{}, dict(request.options.rename)]
    takes = [takes_mesh(side, mesh) for side in (request.reference, request.variant)]
    if any(takes) and MESH not in {*statics, *request.keywords}:
        statics = {**statics, MESH: ContextMesh()}
        names = [known if takes_it else {**known, MESH: ""} for known, takes_it in zip(names, takes, strict=True)]
    return dict(statics), [tuple(sorted(known.items())) for known in names]


def _static(value: Any) -> Any:
    """Return a static argument; a mesh is that of the point, of which the reference alone gets a smaller one."""
    import jax

    return ContextMesh() if isinstance(value, jax.sharding.Mesh) else value


def _has_array(value: Any) -> bool:
    import jax

    return any(is_array(leaf) for leaf in jax.tree.leaves(value))


def _side(
    function: Callable[..., Any], positional: tuple[str, ...], rename: tuple[tuple[str, str], ...], name: str
) -> PositionalCall:
    """Return the function as a side; the same object for the same function, so that its programs are compiled once."""
    try:
        hash(function)
    except TypeError:  # a callable object may have none, like a module with arrays in it
        return _new_side(function, positional, rename, name)
    return _cached_side(function, positional, rename, name)


def _new_side(
    function: Callable[..., Any], positional: tuple[str, ...], rename: tuple[tuple[str, str], ...], name: str
) -> PositionalCall:
    return PositionalCall(function, positional, dict(rename), name)


_cached_side = functools.lru_cache(maxsize=256)(_new_side)


def _main_dtype(trees: Iterable[ArgTree]) -> str:
    """Return the dtype that a report names: that of the most elements, floats before others."""
    args = [arg for tree in trees for arg in tree.args]
    floats = [arg for arg in args if "float" in str(arg.dtype)]
    return str(max(floats or args, key=lambda arg: math.prod(arg.shape)).dtype)


def _contract(accept: Rung) -> Contract:
    reason = None if accept != "rounding" else "accept='rounding'"
    return Contract(lowest=accept, reason=reason)
