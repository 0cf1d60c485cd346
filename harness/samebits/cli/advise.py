"""`samebits audit advise`: is a layer on a mesh bound by compute or by communication? Published figures, no device."""

from __future__ import annotations

from dataclasses import dataclass

import click

from samebits.cli import options

SEQ = 8192
"""The default length of a sequence, in tokens: that of the guide's examples."""

SIZES = ("embed", "mlp", "heads", "kv_heads", "head_dim", "layers", "experts", "experts_per_token")
"""The options that replace a size of the model."""


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(options.ReportOptions):
    """The options of `samebits audit advise`."""

    model: str | None
    target: str
    mesh: str
    axis: tuple[str, ...]
    embed: int | None
    mlp: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    layers: int | None
    experts: int | None
    experts_per_token: int | None
    batch: int | None
    seq: int
    dtype: str
    layers_per_stage: int
    over: tuple[str, ...]
    no_wraparound: bool
    compiled: bool


@click.command("advise")
@click.option("--model", metavar="NAME", help="Such as llama3-70b; its sizes may be replaced one by one.")
@click.option("--target", required=True, metavar="T", help="A chip such as tpu7x, or a slice such as tpu7x:2x2x1.")
@click.option("--mesh", required=True, metavar="MESH", help="Such as tensor4 or fsdp16_tensor2, in devices.")
@click.option("--axis", multiple=True, metavar="OWN=GUIDE", help="What an axis of the mesh is here, such as tp=tensor.")
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
@click.option(
    "--dtype", default="bfloat16", show_default=True, metavar="bfloat16|float8", help="Of what is communicated."
)
@click.option("--layers-per-stage", type=int, default=1, show_default=True, metavar="N", help="Of a pipeline.")
@click.option("--over", multiple=True, metavar="AXIS=N|d2d", help="So many ICI axes, or the die-to-die interface.")
@click.option("--no-wraparound", is_flag=True, help="ICI axes are lines, not rings: half the bandwidth.")
@click.option(
    "--compile", "compiled", is_flag=True, help="Compile the MLP for the slice, and read its communication volume."
)
@options.json_file("the document")
@options.markdown_file("tables for a pull request")
@options.takes(AdviseOptions)
def advise(chosen: AdviseOptions) -> int:
    """Say of each parallelism whether a layer is bound by compute or by communication, from published figures.

    The arithmetic intensity that each parallelism has, and the one that the chip needs; which dimension must be how
    large. With --compile the TPU compiler's collectives stand beside the prediction; no TPU is needed.

    Exit codes: 0 all bound by compute, 1 something is bound by what it moves, 2 the request is wrong, 3 a figure is
    not published.
    """
    files = chosen.report_files()
    from samebits.cli.advise_run import AdviseCommand
    from samebits.cli.pipeline import run_command

    command = AdviseCommand(
        model=chosen.model,
        sizes={name: getattr(chosen, name) for name in SIZES},
        target=chosen.target,
        mesh=chosen.mesh,
        roles=chosen.axis,
        batch=chosen.batch,
        seq=chosen.seq,
        dtype=chosen.dtype,
        layers_per_stage=chosen.layers_per_stage,
        over=chosen.over,
        wraparound=not chosen.no_wraparound,
        compiled=chosen.compiled,
    )
    return run_command(command, files)
