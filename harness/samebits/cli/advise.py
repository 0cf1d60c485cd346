"""`samebits advise`: is a layer on a mesh bound by compute or by what it sends? Published figures, no device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samebits.cli.common import guarded, require_reports, write_text
from samebits.errors import RequestError
from samebits.schema.meshes import MeshSpec

if TYPE_CHECKING:
    from samebits.audit.guide.advice import Interconnect
    from samebits.audit.guide.communication import BlockTraffic
    from samebits.audit.guide.setup import TrainingSetup

SEQ = 8192
"""Tokens of a sequence where nothing is said; the length that the guide speaks of."""


@click.command("advise")
@click.option("--model", metavar="NAME", help="Such as llama3-70b; its sizes may be replaced one by one.")
@click.option("--target", required=True, metavar="T", help="A chip such as tpu7x, or a slice such as tpu7x:2x2x1.")
@click.option("--mesh", required=True, metavar="MESH", help="Such as tensor4 or fsdp16_tensor2, in devices.")
@click.option("--embed", type=int, metavar="N", help="Width of the activations.")
@click.option("--mlp", type=int, metavar="N", help="Width inside the MLP, or of one expert.")
@click.option("--heads", type=int, metavar="N", help="Query heads.")
@click.option("--kv-heads", type=int, metavar="N", help="Heads of keys and values; as many by default.")
@click.option("--head-dim", type=int, metavar="N", help="Width of a head; embed over heads by default.")
@click.option("--layers", type=int, metavar="N", help="Decoder layers; 1 by default.")
@click.option("--experts", type=int, metavar="N", help="Experts; 1 is a dense model.")
@click.option("--experts-per-token", type=int, metavar="N", help="How many of them a token goes to.")
@click.option("--batch", type=int, metavar="N", help="Sequences in all; one per device by default.")
@click.option("--seq", type=int, default=SEQ, show_default=True, metavar="N", help="Tokens of a sequence.")
@click.option("--dtype", default="bfloat16", show_default=True, metavar="bfloat16|float8", help="Of all that is sent.")
@click.option("--layers-per-stage", type=int, default=1, show_default=True, metavar="N", help="Of a pipeline.")
@click.option("--over", multiple=True, metavar="AXIS=N|d2d", help="So many ICI axes, or the die-to-die interface.")
@click.option("--no-wraparound", is_flag=True, help="ICI axes are lines, not rings: half the bandwidth.")
@click.option("--compile", "compiled", is_flag=True, help="Compile the MLP for the slice, and read what it sends.")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the document as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write tables for a pull request.")
@guarded
def advise(
    model: str | None,
    target: str,
    mesh: str,
    embed: int | None,
    mlp: int | None,
    heads: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    layers: int | None,
    experts: int | None,
    experts_per_token: int | None,
    batch: int | None,
    seq: int,
    dtype: str,
    layers_per_stage: int,
    over: tuple[str, ...],
    no_wraparound: bool,
    compiled: bool,
    json: Path | None,
    markdown: Path | None,
) -> int:
    """Say of each parallelism whether a layer is bound by compute or by what it sends, from published figures.

    The arithmetic intensity that each parallelism has, and the one that the chip needs; which dimension must be how
    large. With --compile the TPU compiler's collectives stand beside the prediction; no TPU is needed.

    Exit codes: 0 all bound by compute, 1 something is bound by what it moves, 2 the request is wrong, 3 a figure is
    not published.
    """
    require_reports(json, markdown)
    from samebits.audit.guide.advice import Interconnect
    from samebits.audit.guide.advice import advise as judge
    from samebits.audit.guide.chips import WIDTHS, chip_of
    from samebits.audit.guide.models import dimensions
    from samebits.audit.guide.setup import TrainingSetup
    from samebits.report.advise import (
        AdviseDocument,
        advised_markdown,
        derived,
        encode_advised,
        exit_code,
        figures,
        findings,
        show_advised,
    )
    from samebits.report.terminal import console

    chip = chip_of(target)
    if dtype not in WIDTHS:
        raise RequestError(f"--dtype {dtype}: expected one of {', '.join(WIDTHS)}")
    spec = MeshSpec.parse(mesh)
    given = {
        "embed": embed,
        "mlp": mlp,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "layers": layers,
        "experts": experts,
        "experts_per_token": experts_per_token,
    }
    known = dimensions(model, given)
    setup = TrainingSetup(
        model=known,
        mesh=spec,
        batch=spec.devices if batch is None else batch,
        seq=seq,
        width=WIDTHS[dtype],
        layers_per_stage=layers_per_stage,
    )
    _require_fit(spec, target)
    wires = Interconnect(over=_over(over), wraparound=not no_wraparound)
    results = judge(setup, chip, dtype, wires)
    sent = _compile(setup, target, dtype) if compiled else None
    document = AdviseDocument(
        model=known.name,
        target=target,
        mesh=spec.id,
        batch=setup.batch,
        seq=seq,
        dtype=dtype,
        layers_per_stage=layers_per_stage,
        dimensions={name: getattr(known, name) for name in (*given, "source")},
        figures=figures(chip, dtype),
        derived=derived(chip, dtype),
        results=results,
        compiled=sent,
        assumes=_assumes(spec, wires, int(chip.torus.value)),
        findings=findings(results, sent),
        exit_code=exit_code(results),
    )
    show_advised(console(), document)
    if json is not None:
        write_text(json, encode_advised(document))
    if markdown is not None:
        write_text(markdown, advised_markdown(document))
    return document.exit_code


def _over(texts: tuple[str, ...]) -> dict[str, str]:
    over: dict[str, str] = {}
    for text in texts:
        axis, _, wires = text.partition("=")
        if not (axis and (wires == "d2d" or wires.isdecimal())):
            raise RequestError(f"--over {text}: expected AXIS=N or AXIS=d2d, such as fsdp=2 or tensor=d2d")
        MeshSpec(axes=((axis, 1),))  # says which axes there are
        if axis in over:
            raise RequestError(f"--over: '{axis}' given twice")
        over[axis] = wires
    return over


def _require_fit(mesh: MeshSpec, target: str) -> None:
    from samebits.audit.guide.chips import slice_devices

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
    from samebits.audit.guide.block import check, compile_block

    check(setup, target, dtype)
    # Compiling needs no accelerator: the default backend stays the CPU.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from samebits.compile.cache import CompileCache
    from samebits.host import environment

    environment.prepare()
    return compile_block(setup, target, dtype, CompileCache())
