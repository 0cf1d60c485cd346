"""The axes of a user's mesh by the names that the parallelism guide has for them."""

from __future__ import annotations

from collections.abc import Iterable

from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import AXES, MeshSpec
from samebits.schema.validate import expected


def guide_mesh(mesh: MeshSpec, roles: Iterable[str]) -> MeshSpec:
    """Return a mesh with the axis names of the guide; axes of one role are one axis of their product.

    Args:
        mesh: with any names.
        roles: `OWN=GUIDE`, such as `tp=tensor`; axes that are named as in the guide need none.

    Raises:
        RequestError: a role is malformed, repeated, unknown, or of an axis that the mesh does not have.
        MeshError: an axis is not one of the guide's, and has no role.
    """
    named: dict[str, str] = {}
    for text in roles:
        own, _, role = text.partition("=")
        if not own or not role:
            raise RequestError(f"--axis {text}: expected OWN=GUIDE, such as tp=tensor")
        if own in named:
            raise RequestError(f"--axis: '{own}' given twice")
        if role not in AXES:
            raise RequestError(f"--axis {text}: {expected(role, AXES)}")
        if own not in mesh.names:
            raise RequestError(f"--axis {text}: mesh '{mesh.id}' has no axis '{own}'")
        named[own] = role
    sizes: dict[str, int] = {}
    for name, size in mesh.axes:
        role = named.get(name, name)
        if role not in AXES:
            raise MeshError(
                f"mesh axis '{name}' is not one of the guide's; {expected(name, AXES)}; "
                f"or say which one it is, as in --axis {name}=tensor"
            )
        sizes[role] = sizes.get(role, 1) * size
    return MeshSpec(axes=tuple(sizes.items()))
