"""The parts of an array are those that its devices really hold."""

from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest
from jax._src.lib import guard_lib
from jax.sharding import NamedSharding, PartitionSpec

from samebits.errors import DeclarationError
from samebits.programs.placement import as_taken, device_number, on_host, parts, require_held
from samebits.schema.meshes import MeshSpec
from samebits.testing.asserts import assert_same_bits

SPECS = {
    "rows": ("data2_tensor2", ("data", None)),
    "columns": ("data2_tensor2", (None, "tensor")),
    "both": ("data2_tensor2", ("tensor", "data")),
    "one dimension over two axes": ("data2_tensor4", (("data", "tensor"),)),
    "copies": ("data4", ()),
}


@pytest.mark.parametrize("name", SPECS)
def test_parts_are_what_the_devices_hold(name: str) -> None:
    mesh, spec = SPECS[name]
    whole = np.arange(16 * 8).reshape(16, 8)
    placed = jax.device_put(whole, NamedSharding(MeshSpec.parse(mesh).build("auto"), PartitionSpec(*spec)))
    held = parts(placed.sharding, whole.shape)
    assert sorted(device for devices in held.values() for device in devices) == sorted(
        shard.device.id for shard in placed.addressable_shards
    )
    for shard in placed.addressable_shards:
        (part,) = [part for part, devices in held.items() if shard.device.id in devices]
        assert np.array_equal(whole[tuple(slice(*ends) for ends in part)], shard.data)


class Guarded:
    """An array on a GPU whose user set `jax_transfer_guard="disallow"`: on the CPU nothing is guarded."""

    def copy_to_host_async(self) -> None:
        self.__array__()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        if not guard_lib.thread_local_state().explicit_device_get:
            raise RuntimeError("Disallowed device-to-host transfer")
        return np.arange(3)


def test_a_guard_of_the_user_lets_our_fetches_pass() -> None:
    with pytest.raises(RuntimeError, match="Disallowed"):
        np.asarray(Guarded())
    assert list(on_host(Guarded())) == [0, 1, 2] and list(on_host(jax.numpy.arange(2))) == [0, 1]
    assert on_host(2.5) == 2.5


def test_a_single_element_and_an_empty_array_have_parts() -> None:
    everywhere = NamedSharding(MeshSpec.parse("data4").build("auto"), PartitionSpec())
    assert parts(everywhere, ()) == {(): [0, 1, 2, 3]}
    assert parts(everywhere, (0, 3)) == {((0, 0), (0, 3)): [0, 1, 2, 3]}


class _Device:
    """A device of a plugin, whose backend has another name than the platform of its devices."""

    platform = "no backend has this name"
    client: Any = None


def test_a_device_is_numbered_among_those_of_its_backend() -> None:
    assert [device_number(device) for device in jax.devices()] == list(range(jax.device_count()))
    others = [_Device(), _Device()]
    _Device.client = SimpleNamespace(devices=lambda: others)
    assert [device_number(cast(jax.Device, device)) for device in others] == [0, 1]


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_a_dtype_that_jax_would_shorten_is_rejected(dtype: str) -> None:
    with pytest.raises(DeclarationError, match=f"'x' has dtype {dtype}, which jax holds as .*JAX_ENABLE_X64=1"):
        require_held(np.dtype(dtype), "argument 'x'")
    with jax.enable_x64(True):
        require_held(np.dtype(dtype), "argument 'x'")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn"])
@pytest.mark.parametrize("devices", [1, 8])
def test_compiled_programs_take_what_is_narrower_than_a_byte(dtype: str, devices: int) -> None:
    """FINDING on jax 0.10.2: `lower().compile()` rejects the committed array that it was lowered for."""
    values = (np.arange(16) % 4 - (dtype == "int2") * 2).astype(dtype).reshape(8, 2)
    mesh = jax.make_mesh((devices,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
    array = jax.device_put(values, NamedSharding(mesh, PartitionSpec("fsdp")))
    compiled = jax.jit(lambda x: (x, x.astype("float32"))).lower(array).compile()
    same, widened = compiled(as_taken(array))
    assert_same_bits(np.asarray(same), values)
    assert_same_bits(np.asarray(widened), values.astype(np.float32))
    assert as_taken(widened) is widened
