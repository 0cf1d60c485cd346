"""`samebits list`: the pairs of a tree, from their declarations alone; no jax is imported."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, problem_line, require_writable, say, write_text
from samebits.errors import SamebitsError
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.schema.result import Problem


@click.command("list")
@click.option("--devices", type=int, metavar="N", help="For so many devices; 8 unless the environment says otherwise.")
@options.root
@options.builtin
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the list as JSON.")
@guarded
def list_pairs(devices: int | None, root: Path | None, json: Path | None) -> int:
    """The pairs of a tree: sides, cases, dtypes, meshes, and how much of the product a check runs."""
    require_writable("--json", json)
    from samebits.host.environment import asked_devices
    from samebits.programs.plan import Request, plan
    from samebits.report.list import Listed, Listing, encode_listing, show_listing
    from samebits.report.terminal import console

    listed, problems = [], []
    for name in names(root or default_root()):
        try:
            pair = load(Locator(name=name, root=None if root is None else str(root)))
            listed.append(Listed.of(pair, plan(pair, Request(), devices or asked_devices())))
        except SamebitsError as error:
            problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
            say(problem_line(problems[-1]))
    listing = Listing(results=tuple(listed), problems=tuple(problems))
    if listed:
        show_listing(console(), listing)
    if json is not None:
        write_text(json, encode_listing(listing))
    return max((problem.exit_code for problem in problems), default=0)
