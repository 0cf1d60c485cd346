"""`samebits prove`: what can be shown without running anything, in plain words."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.check import filters
from harness.cli.common import guarded, require_writable


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]...")
@filters
@click.option("--full", is_flag=True, help="The whole product, not the selection that covers every two values.")
@click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; here by default.")
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the proofs as JSON.")
@guarded
def prove(pairs: tuple[str, ...], full: bool, root: Path | None, json: Path | None, **chosen: tuple[str, ...]) -> int:
    """Prove that variants are their reference: the same movement of data, or the same formulas.

    Both programs are walked in NumPy, on meshes of any size, without devices and without compiling. Printed are the
    method, the assumptions and the error probability. Exit code 0 when every leaf reaches its contract by proof, 1 when
    one is refuted, 3 when proof alone does not tell (`samebits check` then runs both sides).
    """
    require_writable("--json", json)
    from harness import environment

    environment.prepare()
    from harness.cli.proofs import run_prove
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
    return run_prove(pairs, request, root=root, json=json)
