"""`samebits check`: run the sweep, show it, write it, and end with the exit code that it earned."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_reports


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@options.filters
@options.devices
@click.option("--platform", type=click.Choice(["cpu", "tpu", "gpu"]), help="Where to run; jax chooses by default.")
@options.workers
@options.full
@click.option("--no-skips", is_flag=True, help="Fail where a mesh does not fit, instead of skipping it.")
@click.option("--shake", is_flag=True, help="Again under compiler options that move rounding; says what is fragile.")
@click.option(
    "--no-assumptions",
    is_flag=True,
    help="Accept no verdict by a proof that assumes anything beyond shapes and rounding.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="N",
    help="How often each program runs on its first input.",
)
@options.root
@options.builtin
@options.json_results
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write a table for a pull request.")
@guarded
def check(
    pairs: tuple[str, ...],
    devices: int | None,
    platform: str | None,
    workers: int,
    full: bool,
    no_skips: bool,
    shake: bool,
    no_assumptions: bool,
    repeat: int,
    root: Path | None,
    json: Path | None,
    markdown: Path | None,
    **chosen: tuple[str, ...],
) -> int:
    """Hold optimised variants against their reference, bit for bit, on every mesh, forward and gradient.

    PAIR is a name of the tree or module:PAIR; all pairs of the tree without one. Filters can be repeated and
    take shell patterns ('context*').
    """
    require_reports(json, markdown)
    # jax reads its environment when it is imported: before this line nothing may import it.
    from samebits.host import environment

    environment.prepare(devices=devices, platform=platform)
    from samebits.cli.check_run import run_check
    from samebits.schema.point import Effort

    request = options.requested(chosen, full)
    return run_check(
        pairs,
        request,
        root=root,
        workers=workers,
        no_skips=no_skips,
        json=json,
        markdown_to=markdown,
        effort=Effort(repeats=repeat, shake=shake, assuming=not no_assumptions),
    )
