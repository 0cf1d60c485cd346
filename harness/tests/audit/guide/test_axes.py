"""Own axis names in the roles of the guide; the messages are those of `samebits audit advise`, tested there."""

import pytest

from samebits.audit.guide.setup import guide_mesh
from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import MeshSpec


@pytest.mark.parametrize(
    ("mesh", "roles", "expected"),
    [
        ("tensor4", (), "tensor4"),
        ("dp2_tp4", ("dp=data", "tp=tensor"), "data2_tensor4"),
        ("fsdp=2,fsdp_transpose=4", ("fsdp_transpose=fsdp",), "fsdp8"),
        ("data2", ("data=fsdp",), "fsdp2"),
        ("none", (), "none"),
    ],
)
def test_axes_take_their_roles(mesh: str, roles: tuple[str, ...], expected: str) -> None:
    assert guide_mesh(MeshSpec.parse(mesh), roles).id == expected


def test_an_axis_without_a_role_is_not_ignored() -> None:
    with pytest.raises(MeshError, match="or say which one it is, as in --axis tp=tensor"):
        guide_mesh(MeshSpec.parse("data2_tp4"), ())


@pytest.mark.parametrize("role", ["tp", "=tensor", "tp=", "tp=tensr", "dp=data"])
def test_a_wrong_role_is_rejected(role: str) -> None:
    with pytest.raises(RequestError, match=r"^--axis "):
        guide_mesh(MeshSpec.parse("tp4"), (role,))
