"""How arguments lie on a mesh where none is declared: in automatic sharding every layout is a right one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from samebits.schema.argument_trees import ArgTree
from samebits.schema.case import Arg, Spec
from samebits.schema.meshes import MeshSpec


def split_by_default(args: Mapping[str, ArgTree], mesh: MeshSpec) -> tuple[dict[str, ArgTree], str | None]:
    """The arguments split over a mesh, unless one of them says how it lies.

    The dimensions of each array take the axes of the mesh in their order, each axis once, where the sizes divide.

    Args:
        args: by name, with the sizes of their dimensions as numbers.
        mesh: whose axes are distributed.

    Returns:
        The arguments, and what a reader should know about them; None where nothing was changed.
    """
    leaves = {path: arg for name, tree in args.items() for path, arg in tree.leaves(name).items()}
    if mesh.devices == 1 or any(arg.spec for arg in leaves.values()):
        return dict(args), None
    specs = {path: _spec(arg, mesh) for path, arg in leaves.items()}
    split = {
        name: replace(
            tree,
            args=tuple(replace(arg, spec=specs[name + path]) for path, arg in zip(tree.paths, tree.args, strict=True)),
        )
        for name, tree in args.items()
    }
    words = ", ".join(f"{path} {spec}" for path, spec in specs.items() if spec)
    return split, f"no specs were given; split over {mesh.id}: {words}" if words else None


def _spec(arg: Arg, mesh: MeshSpec) -> Spec:
    """The axes of each dimension; random keys are not split."""
    if str(arg.dtype).startswith("key<"):
        return ()
    axes = [(axis, size) for axis, size in mesh.axes if size > 1]
    entries: list[str | None] = []
    for length in arg.shape:
        fitting = next((axis for axis, size in axes if isinstance(length, int) and length % size == 0), None)
        entries.append(fitting)
        axes = [(axis, size) for axis, size in axes if axis != fitting]
    return tuple(entries) if any(entries) else ()
