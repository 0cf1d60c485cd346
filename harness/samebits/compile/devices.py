"""The devices to compile for: those of a TPU slice, from the compiler in the `libtpu` wheel without a TPU, or CPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from samebits.errors import CouldNotRun, RequestError
from samebits.host.accelerator import EXTRA, package_version, prepare_libtpu
from samebits.host.stderr_capture import quiet
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.target import GENERATIONS, Target


class NoCompiler(CouldNotRun):
    """The compiler of a target is not installed."""


def compiler_version(target: Target) -> str | None:
    """Return the version of the package that holds the target's compiler: libtpu, or jaxlib for the CPU."""
    return package_version("libtpu" if target.platform == "tpu" else "jaxlib")


@functools.cache
def devices(target: Target) -> Sequence[Any]:
    """Return the devices of a target, in the compiler's order.

    Raises:
        NoCompiler: libtpu is not installed.
        RequestError: the compiler does not support the slice, or there are fewer CPU devices than requested.
    """
    if target.platform == "cpu":
        return _cpu(target)
    if compiler_version(target) is None:
        raise NoCompiler(f"target '{target.name}' needs the TPU compiler, which is not installed: {EXTRA}")
    prepare_libtpu()
    from jax.experimental import topologies

    with quiet() as written:
        try:
            topology = topologies.get_topology_desc(platform="tpu", topology_name=target.name).devices
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or written()[-300:]
            raise RequestError(
                f"target '{target.name}': the TPU compiler does not give this slice: {reason}; "
                f"generations are {', '.join(GENERATIONS)}, sizes as in v5e:2x2, v5p:2x2x1, tpu7x:4x4x4"
            ) from None
    return tuple(topology)


def _cpu(target: Target) -> Sequence[Any]:
    import jax

    cpus = jax.devices("cpu")
    wanted = target.cpu_devices or len(cpus)
    if wanted > len(cpus):
        raise RequestError(
            f"target '{target.name}': {len(cpus)} CPU devices are there; "
            f"set JAX_NUM_CPU_DEVICES={wanted} before jax starts"
        )
    return tuple(cpus[:wanted])


def target_mesh(target: str | Target, layout: str | MeshSpec, mode: Mode = "auto") -> Any:
    """Return the mesh of a target, laid out on its physical topology.

    Equivalent to `jax.make_mesh(sizes, names, devices=DEVICES_OF_THE_TARGET)`.

    Args:
        target: a target or its name, such as `v5p:2x2x1`.
        layout: a mesh such as `fsdp4`, or a layout whose star takes the remaining devices, such as `fsdp*`.
        mode: `auto` (the default) or `explicit`.

    Returns:
        A `jax.sharding.Mesh` to compile for; without a TPU its devices run nothing.

    Raises:
        NoCompiler: libtpu is not installed.
        RequestError: the target or the layout is wrong.
    """
    from samebits.schema.target import spread

    target = Target(name=target) if isinstance(target, str) else target
    target_devices = devices(target)
    spec = spread(layout, len(target_devices)) if isinstance(layout, str) else layout
    # Without a mesh the program is for one device of the target, which is not this process's first device.
    return (spec if spec.axes else MeshSpec(axes=(("device", 1),))).build(mode, target_devices)
