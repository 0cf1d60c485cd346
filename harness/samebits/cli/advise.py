"""`samebits audit advise`: is a layer on a mesh bound by compute or by communication? Published figures, no device."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from samebits.cli import options
from samebits.cli.declared import option
from samebits.rooms import door

SEQ = 8192
"""The default length of a sequence, in tokens: that of the guide's examples."""


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    """The options that replace a size of the model."""

    HEADING = "Sizes of the model"

    embed: Annotated[int | None, option("Width of the activations.", "N")] = None
    mlp: Annotated[int | None, option("Width inside the MLP, or of one expert.", "N")] = None
    heads: Annotated[int | None, option("Query heads.", "N")] = None
    kv_heads: Annotated[int | None, option("Heads of keys and values; as many by default.", "N")] = None
    head_dim: Annotated[int | None, option("Width of a head; embed over heads by default.", "N")] = None
    layers: Annotated[int | None, option("Decoder layers; 1 by default.", "N")] = None
    experts: Annotated[int | None, option("Experts; 1 is a dense model.", "N")] = None
    experts_per_token: Annotated[int | None, option("How many of them a token goes to.", "N")] = None


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(ModelSizes, options.ReportOptions):
    """The options of `samebits audit advise`."""

    model: Annotated[str | None, option("Such as llama3-70b; its sizes may be replaced one by one.", "NAME")] = None
    target: Annotated[str, option("A chip such as tpu7x, or a slice such as tpu7x:2x2x1.", "T")]
    mesh: Annotated[str, option("Such as tensor4 or fsdp16_tensor2, in devices.", "MESH")]
    axis: Annotated[tuple[str, ...], option("What an axis of the mesh is here, such as tp=tensor.", "OWN=GUIDE")] = ()
    batch: Annotated[int | None, option("Sequences in all; one per device by default.", "N")] = None
    seq: Annotated[int, option("Tokens of a sequence.", "N")] = SEQ
    dtype: Annotated[str, option("Of what is communicated.", "bfloat16|float8")] = "bfloat16"
    layers_per_stage: Annotated[int, option("Of a pipeline.", "N")] = 1
    over: Annotated[tuple[str, ...], option("So many ICI axes, or the die-to-die interface.", "AXIS=N|d2d")] = ()
    no_wraparound: Annotated[bool, option("ICI axes are lines, not rings: half the bandwidth.")] = False
    compile: Annotated[bool, option("Compile the MLP for the slice, and read its communication volume.")] = False

    def sizes(self) -> dict[str, int | None]:
        """Return the sizes of the model by name; those that are None are the known model's."""
        return {field.name: getattr(self, field.name) for field in fields(ModelSizes)}


@options.command(AdviseOptions)
def advise(chosen: AdviseOptions) -> int:
    """Say of each parallelism whether a layer is bound by compute or by communication, from published figures.

    The arithmetic intensity that each parallelism has, and the one that the chip needs; which dimension must be how
    large. With --compile the TPU compiler's collectives stand beside the prediction; no TPU is needed.

    Exit codes: 0 all bound by compute, 1 something is bound by what it moves, 2 the request is wrong, 3 a figure is
    not published.
    """
    files = chosen.report_files()
    from samebits.cli.pipeline import run_command

    return run_command(door("cli.advise_run").AdviseCommand(chosen=chosen), files)
