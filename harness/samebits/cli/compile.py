"""`samebits compile`: the programs of both sides for CPUs and TPU slices, at production shapes, without a TPU."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option
from samebits.errors import RequestError
from samebits.rooms import door
from samebits.schema.target import Target

if TYPE_CHECKING:
    from samebits.engine.run_work import EngineSettings


@dataclass(frozen=True, kw_only=True)
class CompileOptions(engine_options.EngineOptions, options.ContinuousIntegration, options.ReportOptions):
    """The options of `samebits compile`."""

    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    target: Annotated[tuple[str, ...], option("cpu, cpu:16, or a slice such as tpu7x:4x4x4.", "T")] = ()
    variant: Annotated[tuple[str, ...], option("Only this variant, beside the reference.", "NAME")] = ()
    case: Annotated[tuple[str, ...], option("Only this production shape.", "NAME")] = ()
    direction: Annotated[tuple[str, ...], option("Only this direction.", "forward|gradient")] = ()
    compiler_options: Annotated[
        tuple[str, ...], option("A compiler option, judged on and off.", "[SIDE:]K=V", "--option")
    ] = ()
    tune: Annotated[bool, option("Try the values that a production shape declares for one static argument.")] = False
    run: Annotated[bool, option("Run each compiled program on the CPU, all partitions, beside what was written.")] = (
        False
    )
    products: Annotated[
        str, option("With --run: products of float32 in full precision, or in passes of bfloat16.", "full|bf16")
    ] = "full"
    script: Annotated[Path | None, option("With --run: where to write the smallest program that differs.", "FILE")] = (
        None
    )
    preset: Annotated[
        str | None,
        option("With `compile model`: the full model's training step at its production shape.", "NAME"),
    ] = None
    whole: options.Whole = False
    root: options.AnyTree = None
    no_cache: options.NoCache = False

    def targets(self) -> tuple[Target, ...]:
        """Return what is compiled for."""
        return tuple(Target(name=name) for name in dict.fromkeys(self.target))


@options.command(CompileOptions, "compile")
def compile_(chosen: CompileOptions) -> int:
    """Compile every side of a pair for CPUs or TPU slices, and put the facts side by side.

    Shapes are the production shapes of the declaration; no array is made and no TPU is needed: the TPU compiler is in
    the libtpu wheel (pip install 'samebits[tpu]'). Loops, collectives, memory and traffic are shown as multiples of
    the reference's; claims of the declaration are checked; sides that become the same program are proved equal there.
    A note names each known fault of the compiler that a program may have (`make known` lists them).

    Programs are compiled in worker processes: a compiler that crashes or does not end costs one case on one target.

    `samebits compile PAIR --tune` compiles each value that the declaration gives for one static argument, such as tile
    sizes; shows which are the same program, which are rejected, and which is best by the compiler's own estimate; and
    checks on a CPU, at a small size, that results are equal. Values are compiled and run in worker processes too.

    `samebits compile PAIR --run` compiles every case of the sweep for the target, on each mesh of its size, runs the
    optimised programs on the CPU, all partitions at once, and compares them with what was written, run on one device.
    Products of float32 are taken in full precision, and with --products bf16 as a TPU takes them.
    With --script FILE the first that differs is made smaller, for half a minute, and written as a script that shows it
    with nothing but jax.

    `samebits compile model --preset NAME` compiles the full model's training step, one row per configuration, each in a
    worker process too.
    """
    # Compiling needs no accelerator: the default backend stays the CPU, and a TPU of this machine is left to others.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from samebits.host import environment

    environment.prepare(devices=max((target.cpu_devices or 0 for target in chosen.targets()), default=0) or None)
    if chosen.script is not None and not chosen.run:
        raise RequestError("--script goes with --run, which says what differs")
    if chosen.pairs == ("model",):
        return _compile_model(chosen, chosen.engine_settings())
    if chosen.run:
        return _run_compiled(chosen, chosen.engine_settings())
    if chosen.products != "full":
        raise RequestError("--products belongs to `samebits compile PAIR --run`")
    if chosen.preset is not None:
        raise RequestError("--preset belongs to `samebits compile model`")
    return _compile_pairs(chosen, chosen.engine_settings())


def _run_compiled(chosen: CompileOptions, settings: EngineSettings) -> int:
    from samebits.compile.request import PRODUCTS, of_programs
    from samebits.programs.plan import Request
    from samebits.schema.point import Effort

    if chosen.compiler_options or chosen.tune:
        raise RequestError("--run takes --target, --case, --variant and --direction; leave out --option and --tune")
    if chosen.products not in PRODUCTS:
        raise RequestError(f"--products {chosen.products}; expected {' or '.join(PRODUCTS)}")
    if len(chosen.target) != 1:
        raise RequestError(f"--run takes one --target, such as v5p:2x2x1; got {', '.join(chosen.target) or 'none'}")
    request = Request(variants=chosen.variant, cases=chosen.case, directions=chosen.direction)
    task = door("cli.check_run").CheckTask(
        pairs=chosen.pairs,
        request=of_programs(request, chosen.target[0]),
        root=chosen.root,
        settings=settings,
        effort=Effort(),
        audited=False,
        target=chosen.target[0],
        products=chosen.products,
        script=chosen.script,
    )
    return options.run("check_run:check_pairs", chosen, task)


def _compile_model(chosen: CompileOptions, settings: EngineSettings) -> int:
    if chosen.variant or chosen.direction or chosen.compiler_options or chosen.tune:
        raise RequestError("compile model takes --preset, --target and --case (a run of the preset), no other filter")
    chosen.require_none("compile model")
    return options.run("compile_model_run:compile_model", chosen, settings)


def _compile_pairs(chosen: CompileOptions, settings: EngineSettings) -> int:
    from samebits.compile.request import CompileOption, CompileRequest

    request = CompileRequest(
        targets=chosen.targets(),
        sides=chosen.variant,
        cases=chosen.case,
        directions=chosen.direction,
        options=tuple(CompileOption.parse(text) for text in chosen.compiler_options),
    )
    if not chosen.tune:
        return options.run("compile_run:compile_pairs", chosen, request, settings)
    if chosen.compiler_options:
        raise RequestError("--tune tries the values of a static argument, no compiler options; leave out --option")
    chosen.require_none("compile --tune")
    return options.run("compile_run:tune_pairs", chosen, request, settings)
