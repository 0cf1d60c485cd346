"""Options that several commands have, with one text each, and the request that the filters make."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samebits.host.package import builtin_tree

if TYPE_CHECKING:
    from samebits.programs.plan import Request

_FILTERS = (
    ("variant", "variants", "NAME", "Only this variant; the reference's own name checks the reference on the mesh."),
    ("case", "cases", "NAME", "Only this case."),
    ("dtype", "dtypes", "NAME", "Only this dtype."),
    (
        "mesh",
        "meshes",
        "NAME",
        "Only this mesh, such as context4 or expert4_fsdp2; one that the pair does not list runs too.",
    ),
    ("mode", "modes", "auto|explicit", "Only this sharding mode."),
    ("direction", "directions", "forward|gradient", "Only this direction."),
)

devices = click.option(
    "--devices", type=int, metavar="N", help="How many CPU devices; 8 unless the environment says otherwise."
)
workers = click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes."
)
full = click.option("--full", is_flag=True, help="The whole product, not the selection that covers every two values.")
root = click.option(
    "--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; here by default."
)
builtin = click.option(
    "--builtin",
    "root",
    flag_value=builtin_tree(),
    type=click.Path(path_type=Path),
    help="The pairs that samebits brings along, in place of a tree.",
)
json_results = click.option(
    "--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the results as JSON."
)


def filters(command: Any) -> Any:
    """The options that narrow a request; each can be repeated."""
    for name, _, metavar, text in reversed(_FILTERS):
        command = click.option(f"--{name}", name, multiple=True, metavar=metavar, help=text)(command)
    return command


def requested(chosen: Mapping[str, tuple[str, ...]], full: bool = False) -> Request:
    """The request of the filters.

    Args:
        chosen: what was given for each of them.
        full: whether the whole product is asked for.
    """
    from samebits.programs.plan import Request  # which imports jax

    return Request(full=full, **{field: chosen[name] for name, field, _, _ in _FILTERS})
