"""A side as a function of one flat record of arrays: arguments assembled, renamed and adapted, outputs adapted back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from samebits.errors import DeclarationError, NotCovered
from samebits.host.cache_keys import ByIdentity, key_of
from samebits.programs.adaptation import check_bijection
from samebits.programs.argument_writes import Watched, fresh, returned, touched
from samebits.programs.host_trees import named_leaves
from samebits.programs.ignored import without_ignored
from samebits.programs.implementations import bound
from samebits.programs.inputs import is_key, key_implementation
from samebits.schema.case import Case
from samebits.schema.kind_words import kind_words
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair


def side_call(
    pair: Pair,
    side: str,
    function: Callable[..., Any],
    case: Case,
    mesh: MeshSpec,
    built: Any = None,
    wanted: Sequence[str] | None = None,
) -> Callable[[Mapping[str, Any]], Any]:
    """A side as a function of the flat record of a case.

    Equivalent, for a declaration without trees, to `lambda record: function(**record, **statics)`.

    Args:
        pair: the declaration.
        side: the name of the side.
        function: what it is.
        case, mesh: whose arguments it takes.
        built: the mesh that a `ContextMesh` stands for, under which the side is traced.
        wanted: the paths of leaves of arguments to return as they are after the call, beside those that the side
            writes; None where what it writes is not compared, so that a side that writes is refused.

    Returns:
        A function of arrays by the paths of their leaves that returns the side's outputs, in the structure of the
        reference's where the side is adapted; an `WithWrites` where leaves of its arguments are written or wanted.
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
        check_bijection(f"{where}, arguments", arrays, lambda numbers: change(**assembled(numbers)), built)
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
        return _adapted(f"{where}, outputs", adapt.outputs, outputs, built)

    return call


def _require_arrays(who: str, outputs: Any) -> None:
    """Reject what a side returned that jax has no array of: texts, objects, generators, coroutines.

    Raises:
        DeclarationError: it names the leaf and its type.
    """
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


def _adapted(where: str, change: Callable[..., Any], outputs: Any, built: Any) -> Any:
    """What a declaration makes of the outputs of a side, once it is seen to lose and to repeat none."""
    from jax.tree_util import tree_structure, tree_unflatten

    structure = tree_structure(outputs)
    check_bijection(
        where,
        named_leaves(outputs, "forward"),
        lambda numbers: change(tree_unflatten(structure, list(numbers.values()))),
        built,
    )
    return change(outputs)


def structure_key(structure: Any) -> Hashable:
    """A key of what a tree is built from: jax compares its structures, and everything else counts by content."""
    import jax

    if isinstance(structure, tuple):
        return tuple(map(structure_key, structure))
    if not isinstance(structure, jax.tree_util.PyTreeDef):
        return key_of(structure)
    try:
        hash(structure)
    except TypeError:  # what a class of the user's says of its nodes need not have a hash
        return ByIdentity(structure)
    return ("tree", structure)
