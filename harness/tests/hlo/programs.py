"""Small programs, compiled for CPUs and for TPU slices, as the modules that are read here."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from samebits.compile.compiler import compile_artefact, lower
from samebits.compile.devices import compiler_version, target_mesh
from samebits.hlo.counts import InstructionCounts, count
from samebits.hlo.module import HloModule, Instruction
from samebits.schema.target import Target

CPU = "cpu:8"
V5E = "v5e:2x2"
TPU7X = "tpu7x:2x2x1"
"""Four chips; this generation has two devices in each."""

needs_libtpu = pytest.mark.skipif(
    compiler_version(Target(name=V5E)) is None, reason="libtpu, the TPU compiler, is not installed"
)


class Array(NamedTuple):
    """An argument: its shape, dtype, and which axes of the mesh split it."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    spec: tuple[str | None, ...] = ()


@functools.cache
def module(
    function: Callable[..., Any],
    *arguments: Array,
    target: str = CPU,
    layout: str = "context*",
    options: tuple[tuple[str, str], ...] = (),
) -> HloModule:
    """What a target's compiler makes of a function; the same call gives the same module."""
    return compiled(function, *arguments, target=target, layout=layout, options=dict(options))


def compiled(
    function: Callable[..., Any],
    *arguments: Array,
    target: str = CPU,
    layout: str = "context*",
    options: Mapping[str, str] | None = None,
) -> HloModule:
    """The same, anew each time."""
    mesh = target_mesh(target, layout)
    types = [
        jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=NamedSharding(mesh, PartitionSpec(*one.spec)))
        for one in arguments
    ]
    return HloModule(
        compile_artefact(lower(function, *types, mesh=mesh, target=target, label="test"), options or {}).module
    )


def counts(function: Callable[..., Any], *arguments: Array, **where: Any) -> InstructionCounts:
    return count(module(function, *arguments, **where))


def mapped(body: Callable[..., Any], taken: PartitionSpec, given: PartitionSpec) -> Callable[..., Any]:
    """A body that runs on each device."""

    def whole(x: Any) -> Any:
        # Made anew at each trace: a shard_map keeps the mesh that it first saw.
        return jax.shard_map(body, in_specs=taken, out_specs=given, check_vma=False)(x)

    return whole


def every(found: HloModule, opcode: str) -> list[Instruction]:
    """All instructions of an opcode that the entry reaches."""
    return [inst for _, inst in found.instructions() if inst.opcode == opcode]
