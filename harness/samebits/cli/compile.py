"""`samebits compile`: what the compilers of CPU and TPU make of both sides, at real sizes, without a TPU."""

from __future__ import annotations

import os
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_reports
from samebits.errors import RequestError
from samebits.schema.target import Target


@click.command("compile")
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@click.option("--target", "targets", multiple=True, metavar="T", help="cpu, cpu:16, or a slice such as tpu7x:4x4x4.")
@click.option("--variant", multiple=True, metavar="NAME", help="Only this variant, beside the reference.")
@click.option("--case", multiple=True, metavar="NAME", help="Only this real size.")
@click.option("--direction", multiple=True, metavar="forward|gradient", help="Only this direction.")
@click.option("--option", "options", multiple=True, metavar="[SIDE:]K=V", help="A compiler option, judged on and off.")
@click.option("--tune", is_flag=True, help="Try the values that a real size declares for one static argument.")
@click.option("--preset", metavar="NAME", help="With `compile model`: the full model's training step at real size.")
@options.root
@options.builtin
@click.option("--no-cache", is_flag=True, help="Compile anew, and keep nothing.")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the facts as JSON.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write tables for a pull request.")
@guarded
def compile_(
    pairs: tuple[str, ...],
    targets: tuple[str, ...],
    variant: tuple[str, ...],
    case: tuple[str, ...],
    direction: tuple[str, ...],
    options: tuple[str, ...],
    tune: bool,
    preset: str | None,
    root: Path | None,
    no_cache: bool,
    json: Path | None,
    markdown: Path | None,
) -> int:
    """Compile every side of a pair for CPUs or TPU slices, and put the facts side by side.

    Sizes are the real ones of the declaration; no array is made and no TPU is needed: the TPU compiler is in the libtpu
    wheel (pip install 'samebits[tpu]'). Loops, collectives, memory and traffic are shown as multiples of the
    reference's; claims of the declaration are checked; sides that become the same program are proved equal there.

    `samebits compile PAIR --tune` compiles each value that the declaration gives for one static argument, such as tile
    sizes; shows which are the same program, which are refused, and which is best by the compiler's own estimate; and
    checks on a CPU, at a small size, that results are equal.

    `samebits compile model --preset NAME` compiles the full model's training step, one row per configuration.
    """
    require_reports(json, markdown)
    asked = tuple(Target(name=name) for name in dict.fromkeys(targets))
    # Compiling needs no accelerator: the default backend stays the CPU, and a TPU of this machine is left to others.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from samebits.host import environment

    environment.prepare(devices=max((one.cpu_devices or 0 for one in asked), default=0) or None)
    if pairs == ("model",):
        from samebits.cli.compile_model import run_compile_model

        if variant or direction or options or tune:
            raise RequestError(
                "compile model takes --preset, --target and --case (a run of the preset), no other filter"
            )
        return run_compile_model(preset, asked, case, root=root, cached=not no_cache, json=json, markdown=markdown)
    if preset is not None:
        raise RequestError("--preset belongs to `samebits compile model`")
    from samebits.cli.compile_run import run_compile
    from samebits.compile.request import CompileOption, CompileRequest

    ask = CompileRequest(
        targets=asked,
        sides=variant,
        cases=case,
        directions=direction,
        options=tuple(CompileOption.parse(text) for text in options),
    )
    if tune:
        if options:
            raise RequestError("--tune tries the values of a static argument, no compiler options; leave out --option")
        from samebits.cli.tune_run import run_tune

        return run_tune(pairs, ask, root=root, cached=not no_cache, json=json, markdown_to=markdown)
    return run_compile(pairs, ask, root=root, cached=not no_cache, json=json, markdown_to=markdown)
