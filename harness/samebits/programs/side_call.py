"""A side as a function of one flat record of arrays: arguments assembled, renamed and adapted, outputs adapted back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from samebits.errors import DeclarationError
from samebits.programs.adaptation import check_bijection
from samebits.programs.host_trees import named_leaves
from samebits.programs.implementations import bound
from samebits.programs.inputs import is_key, key_implementation
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair


def side_call(
    pair: Pair, side: str, function: Callable[..., Any], case: Case, mesh: MeshSpec, built: Any = None
) -> Callable[[Mapping[str, Any]], Any]:
    """A side as a function of the flat record of a case.

    Equivalent, for a declaration without trees, to `lambda record: function(**record, **statics)`.

    Args:
        pair: the declaration.
        side: the name of the side.
        function: what it is.
        case, mesh: whose arguments it takes.
        built: the mesh that a `ContextMesh` stands for.

    Returns:
        A function of arrays by the paths of their leaves that returns the side's outputs, in the structure of the
        reference's where the side is adapted.
    """
    trees = pair.argument_trees(case, mesh)
    statics = pair.statics(case, mesh) | dict.fromkeys(case.context_meshes, built)
    declared = pair.arguments(case, mesh).items()
    keys = {name: key_implementation(str(arg.dtype)) for name, arg in declared if is_key(arg)}
    adapt, where = pair.adapt.get(side), f"pair '{pair.name}': adapt of '{side}'"

    def assembled(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: tree.assembled(name, arrays) for name, tree in trees.items()} | statics

    def arguments_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
        import jax

        arrays = {**record, **{name: jax.random.wrap_key_data(record[name], impl=impl) for name, impl in keys.items()}}
        if adapt is None or adapt.arguments is None:
            return assembled(arrays)
        change = adapt.arguments
        check_bijection(f"{where}, arguments", arrays, lambda numbers: change(**assembled(numbers)))
        arguments: Any = change(**assembled(arrays))
        if isinstance(arguments, Mapping):
            return arguments
        kind = type(arguments).__name__
        raise DeclarationError(f"{where}, arguments: got a {kind}; expected the variant's arguments as a dict by name")

    def call(record: Mapping[str, Any]) -> Any:
        from jax.tree_util import tree_structure, tree_unflatten

        arguments = arguments_of(record)
        outputs = bound(pair, side, function, arguments, case.context_meshes).call(function, arguments)
        if pair.has_aux and not (isinstance(outputs, tuple) and len(outputs) == 2):
            raise DeclarationError(
                f"pair '{pair.name}': has_aux=True and '{side}' returned a {type(outputs).__name__}; expected "
                "(outputs, auxiliary)"
            )
        if adapt is None or adapt.outputs is None:
            return outputs
        paths, change = named_leaves(outputs, "forward"), adapt.outputs
        structure = tree_structure(outputs)
        check_bijection(
            f"{where}, outputs", paths, lambda numbers: change(tree_unflatten(structure, list(numbers.values())))
        )
        return change(outputs)

    return call
