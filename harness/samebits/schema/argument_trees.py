"""Arguments that are trees: a declaration's trees of `Arg` as flat leaves, each with its path, and back.

The engine uses one flat record per call, an array by the path of its leaf (`params['w']`); sides receive the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.case import Arg


@dataclass(frozen=True, kw_only=True, slots=True)
class ArgTree:
    """An argument that is a tree: its array leaves, and how the tree is made of arrays.

    Args:
        paths: of the leaves within the argument, as jax prints them, such as `['w']` or `.layers[0].kernel`; the empty
            text where the argument is one array.
        args: the declaration of each leaf.
        build: gives the tree for one array per leaf, with everything in it that is not an array.
        structure: what `build` depends on: jax's structure of the tree, then its non-array contents. Arguments of equal
            structure share their programs.
    """

    paths: tuple[str, ...]
    args: tuple[Arg, ...]
    build: Callable[[Sequence[Any]], Any]
    structure: tuple[Any, ...] = ()

    def stacked(self, copies: int) -> ArgTree:
        """Repeat the argument so many times along a new leading axis of every leaf."""
        return replace(self, args=tuple(arg.stacked(copies) for arg in self.args))

    def leaves(self, name: str) -> dict[str, Arg]:
        """Return the leaves by name, for an argument of this name."""
        return {name + path: arg for path, arg in zip(self.paths, self.args, strict=True)}

    def changed(self, name: str, change: Callable[[str, Arg], Arg]) -> ArgTree:
        """Return the argument with what `change` makes of each leaf, by its name in `leaves`."""
        return replace(self, args=tuple(change(path, arg) for path, arg in self.leaves(name).items()))

    def assembled(self, name: str, arrays: Mapping[str, Any]) -> Any:
        """Build the argument of arrays by the names of `leaves`."""
        return self.build([arrays[name + path] for path in self.paths])


def argument_tree(where: str, declared: Any) -> ArgTree:
    """Return a declared argument as a tree: an `Arg`, an `ArgTree`, or any pytree of them."""
    if isinstance(declared, Arg):
        return ArgTree(paths=("",), args=(declared,), build=lambda arrays: arrays[0])
    if isinstance(declared, ArgTree):
        return declared
    from jax import tree_util

    nodes, structure = tree_util.tree_flatten_with_path(declared, is_leaf=lambda node: isinstance(node, Arg | ArgTree))
    for path, node in nodes:
        if not isinstance(node, Arg | ArgTree):
            raise DeclarationError(
                f"{where}{tree_util.keystr(path)} is {node!r}, a {type(node).__name__}; expected Arg(shape=(...)), "
                "a dict, tuple, list or other pytree of Arg, or like(tree) of arrays that there are"
            )
    if not nodes:
        raise DeclarationError(f"{where} is an empty {type(declared).__name__}; expected Arg(shape=(...)) in it")
    return joined_tree(structure, [(tree_util.keystr(path), argument_tree(where, node)) for path, node in nodes])


def constant_tree(value: Any) -> ArgTree:
    """Return what has no array in it as a tree."""
    return ArgTree(paths=(), args=(), build=lambda arrays: value, structure=(value,))


def joined_tree(structure: Any, parts: Sequence[tuple[str, ArgTree]]) -> ArgTree:
    """Return the tree of a structure of jax's, with its leaves by path."""
    from jax import tree_util

    def build(arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        return tree_util.tree_unflatten(structure, [part.build([next(rest) for _ in part.args]) for _, part in parts])

    return ArgTree(
        paths=tuple(prefix + path for prefix, part in parts for path in part.paths),
        args=tuple(arg for _, part in parts for arg in part.args),
        build=build,
        structure=(structure, *(part.structure for _, part in parts)),
    )
