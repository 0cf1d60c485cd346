"""`samebits check`: run the sweep, show it, write it, and end with the exit code that it earned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.common import guarded, require_reports

_FILTERS = (
    ("variant", "NAME", "Only this variant; the reference's own name checks the reference on the mesh."),
    ("case", "NAME", "Only this case."),
    ("dtype", "NAME", "Only this dtype."),
    ("mesh", "NAME", "Only this mesh, such as context4 or expert4_fsdp2; one that the pair does not list runs too."),
    ("mode", "auto|explicit", "Only this sharding mode."),
    ("direction", "forward|gradient", "Only this direction."),
)


def filters(command: Any) -> Any:
    """The options that narrow a request; each can be repeated."""
    for name, metavar, text in reversed(_FILTERS):
        command = click.option(f"--{name}", name, multiple=True, metavar=metavar, help=text)(command)
    return command


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@filters
@click.option("--devices", type=int, metavar="N", help="How many CPU devices; 8 unless the environment says otherwise.")
@click.option("--platform", type=click.Choice(["cpu", "tpu", "gpu"]), help="Where to run; jax chooses by default.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes.")
@click.option("--full", is_flag=True, help="The whole product, not the selection that covers every two values.")
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
@click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; here by default.")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the results as JSON.")
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
    from harness import environment

    environment.prepare(devices=devices, platform=platform)
    from harness.cli.checking import run_check
    from harness.point import Effort
    from harness.selection import Request

    request = Request(
        variants=chosen["variant"],
        cases=chosen["case"],
        dtypes=chosen["dtype"],
        meshes=chosen["mesh"],
        modes=chosen["mode"],
        directions=chosen["direction"],
        full=full,
    )
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
