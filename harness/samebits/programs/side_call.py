"""A side as a function of one flat record of arrays: arguments assembled, renamed and adapted, outputs adapted back."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from samebits.errors import DeclarationError, NotCovered, NothingCompared, RequestError
from samebits.interpret import equation
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import FLAGS, LabelDomain
from samebits.programs.host_trees import AFTER, Watched, WithWrites, fresh, named_leaves, returned, touched
from samebits.programs.implementations import bound
from samebits.programs.inputs import is_key, key_implementation
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.validate import kind_words

# The check that a map between two argument or output trees loses nothing: labelled elements are moved through it.
_ONLY = "a map may only rename, split, join, reshape and transpose"


def check_bijection(where: str, leaves: Mapping[str, Any], mapped: Callable[[dict[str, Any]], Any]) -> None:
    """Reject a map of which an element does not arrive, arrives twice, or is computed."""
    import jax

    def arrived(arrays: dict[str, Any]) -> dict[str, Any]:
        paths = jax.tree_util.tree_leaves_with_path(mapped(arrays))
        return {jax.tree_util.keystr(path): leaf for path, leaf in paths if hasattr(leaf, "dtype")}

    # Of one dtype, so that nothing is cast where leaves of several are joined.
    types = {
        path: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype if equation.is_key(leaf.dtype) else np.int32)
        for path, leaf in leaves.items()
    }
    closed, shapes = jax.make_jaxpr(arrived, return_shape=True)(types)
    domain = LabelDomain()
    avals = dict(zip(sorted(types), closed.in_avals, strict=True))
    inputs = {path: domain.input(path, equation.type_of(avals[path])) for path in types}
    try:
        moved = Interpreter(domain)(closed, *(inputs[path] for path in avals))
    except NotCovered as error:
        raise DeclarationError(f"{where}: {error}; {_ONLY}") from None
    counts = np.zeros(sum(each.codes.size for each in inputs.values()), np.int64)
    for name, value, aval in zip(sorted(shapes), moved, closed.out_avals, strict=True):
        codes = domain.table.codes(value, equation.type_of(aval)).reshape(-1)
        if np.any(codes < 0) or np.any(codes % FLAGS):  # a constant or the result of an operation
            raise DeclarationError(f"{where}: leaf '{name}' holds a value that no leaf brought; {_ONLY}")
        counts += np.bincount(domain.table.labels(codes), minlength=counts.size)
    for source in domain.table.inputs:
        times = counts[source.first : source.first + math.prod(source.kind.shape)]
        wrong = times[times != 1]
        if wrong.size:
            count = int(wrong[0])
            happened = "are lost" if count == 0 else f"arrive {count} times"
            raise DeclarationError(
                f"{where}: {np.sum(wrong == count)} of {times.size} elements of leaf '{source.name}' {happened}; every "
                "element must arrive exactly once"
            )


# Outputs that are not compared, by pattern: what one side alone returns or keeps, such as a cache.
_GONE = object()
_LISTED = 8
"""How many outputs a message names."""


def dotted(path: str) -> str:
    """Write the path of a leaf with dots: `cache.0.k` for `out['cache'][0].k`."""
    text = re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path.removesuffix(AFTER))
    return (text.removeprefix("out") if text.startswith("out.") and not path.endswith(AFTER) else text).strip(".")


def is_ignored(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a leaf matches a pattern; `cache.*` matches `cache` itself too."""
    name = dotted(path)
    return any(fnmatchcase(name, pattern) or name == pattern.removesuffix(".*") for pattern in patterns)


def ignored_note(patterns: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> str:
    """Name the outputs that are ignored, for a note."""
    every = list(dict.fromkeys(path for paths in outputs.values() for path in paths))
    for pattern in patterns:
        if not any(is_ignored(path, (pattern,)) for path in every):
            raise RequestError(
                f"ignore '{pattern}' matches no output; the outputs are {_listed(every)}; write a path with dots, as "
                "in 'cache.*'"
            )
    for side, paths in outputs.items():
        if all(is_ignored(path, patterns) for path in paths):
            raise NothingCompared(
                f"ignore={', '.join(patterns)} leaves nothing of '{side}', which returns {_listed(paths)}; nothing "
                "would be compared"
            )
    texts = []
    for path in every:
        sides = [side for side, paths in outputs.items() if path in paths]
        if is_ignored(path, patterns):
            texts.append(path if len(sides) == len(outputs) else f"{path} (of '{sides[0]}' alone)")
    return f"ignored, and not compared: {_listed(texts)}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more


def without_ignored(outcome: Any, patterns: Sequence[str], *, pair: bool = False) -> Any:
    """Drop the leaves that match from what a side returned and wrote.

    An entry of a dict goes, so do the last ones of a tuple or list, and a tuple of which one is left is that one; but
    with `has_aux` a tuple of two stays a `pair`.
    """
    if not isinstance(outcome, WithWrites):
        return _returned(outcome, patterns, pair)
    written = {name: leaf for name, leaf in outcome.written.items() if not is_ignored(name, patterns)}
    paths = tuple(path for path in outcome.touched if not is_ignored(f"{path}{AFTER}", patterns))
    changes = tuple(each for each in outcome.changes if not is_ignored(f"{each[0]}{AFTER}", patterns))
    outputs = _returned(outcome.outputs, patterns, pair)
    return WithWrites(outputs, written, paths, changes) if paths else outputs


def _returned(outputs: Any, patterns: Sequence[str], pair: bool) -> Any:
    if pair:
        return tuple(None if part is _GONE else part for part in _parts(outputs, "out", patterns))
    left = _left(outputs, "out", patterns)
    return None if left is _GONE else left


def _parts(node: Sequence[Any], path: str, patterns: Sequence[str]) -> list[Any]:
    return [_left(part, f"{path}[{number}]", patterns) for number, part in enumerate(node)]


def _left(node: Any, path: str, patterns: Sequence[str]) -> Any:
    """Return what is left of a part of an output; `_GONE` where nothing is."""
    if type(node) is dict:
        entries = {key: _left(value, f"{path}[{key!r}]", patterns) for key, value in node.items()}
        rest = {key: value for key, value in entries.items() if value is not _GONE}
        return rest if rest or not node else _GONE
    if type(node) in (tuple, list):
        parts = _parts(node, path, patterns)
        while parts and parts[-1] is _GONE:
            parts.pop()
        if not parts and node:
            return _GONE
        if len(parts) == 1 < len(node) and type(node) is tuple:
            return parts[0]
        return type(node)(None if part is _GONE else part for part in parts)
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(node)
    kept = [None if is_ignored(path + jax.tree_util.keystr(key), patterns) else leaf for key, leaf in leaves]
    if leaves and all(leaf is None for leaf in kept):
        return _GONE
    return jax.tree.unflatten(structure, kept)


def side_call(
    pair: Pair,
    side: str,
    function: Callable[..., Any],
    case: Case,
    mesh: MeshSpec,
    built: Any = None,
    wanted: Sequence[str] | None = None,
) -> Callable[[Mapping[str, Any]], Any]:
    """Return a side as a function of the flat record of a case: arrays by the paths of their leaves.

    Equivalent, for a declaration without trees, to `lambda record: function(**record, **statics)`.

    Args:
        built: the mesh that a `ContextMesh` stands for, under which the side is traced.
        wanted: the paths of leaves of arguments to return as they are after the call, beside those that the side
            writes; None where what it writes is not compared, so that a side that writes is refused.
    """
    trees = pair.argument_trees(case, mesh)
    statics = pair.statics(case, mesh) | dict.fromkeys(case.context_meshes, built)
    declared = pair.arguments(case, mesh).items()
    keys = {name: key_implementation(str(arg.dtype)) for name, arg in declared if is_key(arg)}
    adapt, where = pair.adapt.get(side), f"pair '{pair.name}': adapt of '{side}'"

    def assembled(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tree.assembled(name, arrays) for name, tree in trees.items()} | {
            name: fresh(value) for name, value in statics.items()
        }

    def arguments_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
        import jax

        arrays = {**record, **{name: jax.random.wrap_key_data(record[name], impl=impl) for name, impl in keys.items()}}
        if adapt is None or adapt.arguments is None:
            return assembled(arrays)
        change = adapt.arguments
        check_bijection(f"{where}, arguments", arrays, lambda labelled: change(**assembled(labelled)))
        arguments: Any = change(**assembled(arrays))
        if isinstance(arguments, Mapping):
            return arguments
        kind = type(arguments).__name__
        raise DeclarationError(f"{where}, arguments: got a {kind}; expected the variant's arguments as a dict by name")

    def call(record: Mapping[str, Any]) -> Any:
        arguments = arguments_of(record)
        # An adapted side may be given a tree under the name of an array.
        arrays = {name for name, tree in trees.items() if tree.paths == ("",) and adapt is None}
        plain = arrays | {name for name, value in statics.items() if type(value) not in (dict, list)}
        watched = Watched({name: value for name, value in arguments.items() if name not in plain})
        outputs = bound(pair, side, function, arguments, case.context_meshes).call(function, arguments)
        _require_arrays(f"pair '{pair.name}': '{side}'", outputs)
        if pair.has_aux and not (isinstance(outputs, tuple) and len(outputs) == 2):
            raise DeclarationError(
                f"pair '{pair.name}': has_aux=True and '{side}' returned {kind_words(outputs)}; expected "
                "(outputs, auxiliary)"
            )
        outcome = watched.outcome(outputs, wanted or ())
        if pair.ignore:
            outcome = without_ignored(outcome, pair.ignore, pair=pair.has_aux)
            outputs = returned(outcome)
        paths = touched(outcome)
        if paths and wanted is None:
            raise NotCovered(f"what '{side}' writes into its arguments ({', '.join(paths)}); return it")
        if paths and adapt is not None:
            raise DeclarationError(
                f"{where}: what a side writes into its arguments ({', '.join(paths)}) is not compared where a side is "
                "adapted; return it from both sides"
            )
        if adapt is None or adapt.outputs is None:
            return outcome
        return _adapted(f"{where}, outputs", adapt.outputs, outputs)

    return call


def _require_arrays(who: str, outputs: Any) -> None:
    """Reject what a side returned that jax has no array of: texts, objects, generators, coroutines."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(outputs, is_leaf=lambda node: isinstance(node, Iterator))
    for path, leaf in leaves:
        if isinstance(leaf, bool | int | float | complex) or hasattr(leaf, "dtype") or hasattr(leaf, "__jax_array__"):
            continue
        what, advice = kind_words(leaf), "return arrays alone"
        if inspect.isgenerator(leaf):
            what, advice = "a generator", "it has `yield`: return the arrays, as in a tuple"
        elif isinstance(leaf, Iterator):
            advice = "return what it gives, as a tuple"
        elif inspect.iscoroutine(leaf):
            leaf.close()  # it is never awaited, of which Python would warn
            what, advice = "a coroutine", "it is `async def`: compare the function that it awaits"
        raise DeclarationError(f"{who}: out{jax.tree_util.keystr(path)} is {what}; {advice}")


def _adapted(where: str, change: Callable[..., Any], outputs: Any) -> Any:
    """Return what a declaration makes of the outputs of a side, once it is seen to lose and to repeat none."""
    from jax.tree_util import tree_structure, tree_unflatten

    structure = tree_structure(outputs)
    check_bijection(
        where,
        named_leaves(outputs, "forward"),
        lambda labelled: change(tree_unflatten(structure, list(labelled.values()))),
    )
    return change(outputs)
