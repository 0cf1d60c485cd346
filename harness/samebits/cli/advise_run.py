"""The work of `samebits audit advise`: says what limits each parallelism of a model on a mesh; no device is used."""

from __future__ import annotations

import os

from samebits.audit.guide.advice import Interconnect, advise
from samebits.audit.guide.chips import WIDTHS, chip_of, slice_devices
from samebits.audit.guide.intensity import BlockTraffic
from samebits.audit.guide.setup import TrainingSetup, dimensions, guide_mesh
from samebits.cli.audit import AdviseOptions
from samebits.cli.pipeline import CommandRun
from samebits.errors import RequestError
from samebits.report.advise import (
    AdviseDocument,
    derived,
    exit_code,
    figures,
    findings,
)
from samebits.schema.meshes import MeshSpec


def advise_mesh(chosen: AdviseOptions, run: CommandRun) -> AdviseDocument:
    """Judge the parallelisms of a mesh by published figures; with `--compile`, compile the MLP beside."""
    chip = chip_of(chosen.target)
    if chosen.dtype not in WIDTHS:
        raise RequestError(f"--dtype {chosen.dtype}: expected one of {', '.join(WIDTHS)}")
    mesh = guide_mesh(MeshSpec.parse(chosen.mesh), chosen.axis)
    setup = TrainingSetup(
        model=dimensions(chosen.model, chosen.sizes()),
        mesh=mesh,
        batch=mesh.devices if chosen.batch is None else chosen.batch,
        seq=chosen.seq,
        width=WIDTHS[chosen.dtype],
        layers_per_stage=chosen.layers_per_stage,
    )
    _require_fit(mesh, chosen.target)
    wires = Interconnect(over=_over(chosen.over), wraparound=not chosen.no_wraparound)
    judged = tuple(advise(setup, chip, chosen.dtype, wires))
    compiled = _compile(setup, chosen.target, chosen.dtype) if chosen.compile else None
    return AdviseDocument(
        model=setup.model.name,
        target=chosen.target,
        mesh=mesh.id,
        batch=setup.batch,
        seq=chosen.seq,
        dtype=chosen.dtype,
        layers_per_stage=chosen.layers_per_stage,
        dimensions={name: getattr(setup.model, name) for name in (*chosen.sizes(), "source")},
        figures=figures(chip, chosen.dtype),
        derived=derived(chip, chosen.dtype),
        results=judged,
        compiled=compiled,
        assumes=_assumes(mesh, wires, int(chip.torus.value)),
        findings=findings(judged, compiled),
        exit_code=exit_code(judged),
    )


def _over(texts: tuple[str, ...]) -> dict[str, str]:
    over: dict[str, str] = {}
    for text in texts:
        axis, _, wires = text.partition("=")
        if not (axis and (wires == "d2d" or wires.isdecimal())):
            raise RequestError(f"--over {text}: expected AXIS=N or AXIS=d2d, such as fsdp=2 or tensor=d2d")
        guide_mesh(MeshSpec(axes=((axis, 1),)), ())  # says which axes there are
        if axis in over:
            raise RequestError(f"--over: '{axis}' given twice")
        over[axis] = wires
    return over


def _require_fit(mesh: MeshSpec, target: str) -> None:
    if ":" in target and mesh.devices > slice_devices(target):
        raise RequestError(
            f"mesh '{mesh.id}' needs {mesh.devices} devices and {target} has {slice_devices(target)}; "
            "give a larger slice"
        )


def _assumes(mesh: MeshSpec, wires: Interconnect, torus: int) -> tuple[str, ...]:
    ring = "ICI axes are closed to rings, which send both ways" if wires.wraparound else "ICI axes are lines"
    used = sum(size > 1 for _, size in mesh.axes)
    lines = [
        f"{ring}; each parallelism is judged alone; communication is hidden behind compute where it is shorter",
        "a mesh axis over ICI runs over as many chips as it has devices; the devices of a chip share its links evenly",
        "routing to experts is balanced; batch is one sequence per device unless it is given",
    ]
    if used > torus:
        lines.append(f"{used} mesh axes on {torus} ICI axes do not disturb each other, which is too kind")
    return tuple(lines)


def _compile(setup: TrainingSetup, target: str, dtype: str) -> BlockTraffic:
    from samebits.audit.guide.block import check_block, compile_block

    check_block(setup, target, dtype)
    # Compiling needs no accelerator: the default backend stays the CPU.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from samebits.compile.cache import CompileCache
    from samebits.host import environment

    environment.prepare()
    return compile_block(setup, target, dtype, CompileCache())
