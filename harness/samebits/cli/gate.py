"""`samebits gate`: a kernel in a file against its reference, for a loop that writes kernels."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from samebits.cli import options
from samebits.cli.declared import argument, option
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES

if TYPE_CHECKING:
    from samebits.cli.pipeline import CommandRun
    from samebits.kernel_gate.request import GateRequest
    from samebits.report.gate import GateDocument


@dataclass(frozen=True, kw_only=True)
class GateOptions(options.ReportOptions):
    """The options of `samebits gate`."""

    kernel: Annotated[str, argument("KERNEL.py[:FUNCTION]|-")]
    reference: Annotated[str | None, option("The function that is right by definition.", "FILE.py[:FUNCTION]")] = None
    inputs: Annotated[
        str | None,
        option(
            "Returns what both are called with; `inputs` or `create_inputs` of the reference's file by default.",
            "FILE.py[:FUNCTION]",
        ),
    ] = None
    arg: Annotated[
        tuple[str, ...], option(f"An array in place of --inputs, by position, as in {EXAMPLES}.", "WORD")
    ] = ()
    gradient: Annotated[bool, option("Refute a kernel that cannot be differentiated.")] = False
    forward: Annotated[bool, option("No gradients; by default they are compared where the kernel has some.")] = False
    sizes: Annotated[
        Literal["blocks", "all", "given"],
        option("At which other sizes it must be right, or reject them: those that its blocks divide, all, or none."),
    ] = "blocks"
    accuracy: Annotated[float, option("How many times its reference's error it may have.", "TIMES", least=1)] = 8.0
    seconds: Annotated[float, option("How long each of its processes may take.", "SECONDS", above=0)] = 60.0


@options.command(GateOptions, runs_user_code=False)
def gate(chosen: GateOptions) -> int:
    """Refute a kernel by name, or say what may be claimed of it; no device is needed.

    The kernel runs in processes of its own, first without its reference, then beside it. With `-` the request is JSON
    on standard input: the options by name, and `kernel_source` and `reference_source` in place of files.

    Exit codes: 0 not refuted, 1 refuted, 2 the request is wrong, 3 undecided.
    """
    from samebits.host import environment

    environment.prepare(devices=1, platform="cpu")
    return options.run("gate:gate_kernel", chosen)


def gate_kernel(chosen: GateOptions, run: CommandRun) -> GateDocument:
    """Judge a kernel."""
    with tempfile.TemporaryDirectory(prefix="samebits-gate-") as folder:
        return gate_document(_request(chosen, Path(folder)), run)


def gate_document(request: GateRequest, run: CommandRun) -> GateDocument:
    """Judge a kernel by its request."""
    from samebits.kernel_gate.gate import gated
    from samebits.report.gate import GateDocument, claim_of

    request = request.resolved()
    outcome = gated(request)
    return GateDocument(
        kernel=request.kernel,
        reference=request.reference,
        results=outcome.rows,
        leaves=outcome.leaves,
        refuted=tuple(row.kind for row in outcome.rows if row.state == "refuted"),
        claim=claim_of(outcome.rows, outcome.leaves),
        notes=outcome.notes,
        seconds=round(run.seconds, 3),
    )


def _request(chosen: GateOptions, folder: Path) -> GateRequest:
    """Return the request of the options, or that on standard input."""
    from samebits.kernel_gate.request import GateRequest, read_request

    if chosen.gradient and chosen.forward:
        raise RequestError("--gradient and --forward contradict each other; give one of them")
    if chosen.kernel == "-":
        return read_request(sys.stdin.read(), folder)
    if chosen.reference is None:
        raise RequestError("no --reference: nothing would be compared; give --reference FILE.py:FUNCTION")
    options_of = {each.name: getattr(chosen, each.name) for each in fields(GateRequest)}
    return GateRequest(**{**options_of, "gradient": True if chosen.gradient else False if chosen.forward else None})
