"""`samebits golden`: training runs as they once were, checked, accepted, listed and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from samebits.cli.common import guarded, require_writable
from samebits.errors import RequestError

WINDOW = 20


@click.group()
def golden() -> None:
    """Training runs as they once were: the same bits in the same environment, else within the recorded evidence."""


def _option(*names: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(*names, **more)


_matrix = _option("--matrix", multiple=True, metavar="NAME", help="All runs of this matrix.")
_config = _option("--config", multiple=True, metavar="NAME", help="This configuration, such as MATRIX/RUN.")
_root = _option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree; here by default.")
_json = _option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the results as JSON.")


@golden.command()
@_matrix
@_config
@_root
@_json
@guarded
def check(matrix: tuple[str, ...], config: tuple[str, ...], root: Path | None, json: Path | None) -> int:
    """Run configurations and hold them against their goldens; nothing is ever written.

    Without --matrix and --config: every run of each matrix that has goldens on this platform. A golden that is missing,
    or that no run uses, fails.
    Exit codes: 0 all hold, 1 one changed, is missing or unused, 2 a file is damaged, 3 a run could not be made.
    """
    require_writable("--json", json)
    _prepare()
    from samebits.cli.golden_run import run_check

    return run_check(matrix, config, root, json)


@golden.command()
@_matrix
@_config
@_option("--reason", default="", metavar="TEXT", help="Why today's run is right; mandatory, and kept in the file.")
@_option("--author", metavar="NAME", help="Who says so; git's user by default.")
@_option("--steps", type=int, default=WINDOW, show_default=True, metavar="N", help="How many steps; at least 20.")
@_option("--confirm", is_flag=True, help="Only add this environment to the evidence of goldens that hold in it.")
@_root
@_json
@guarded
def accept(
    matrix: tuple[str, ...],
    config: tuple[str, ...],
    reason: str,
    author: str | None,
    steps: int,
    confirm: bool,
    root: Path | None,
    json: Path | None,
) -> int:
    """Make today's runs the goldens, with the evidence of how far rounding moves them; shows old and new.

    Refused where CI is set, on a dirty tree, without a reason, with fewer than 20 steps, with a NaN, and where an array
    or a step is lost.
    """
    require_writable("--json", json)
    if not matrix and not config:
        raise RequestError(
            "name what to accept: --matrix NAME or --config MATRIX/RUN; goldens are not accepted wholesale"
        )
    _prepare()
    from samebits.cli.golden_run import run_accept

    reason = reason or ("confirmed" if confirm else "")
    return run_accept(matrix, config, root, json, reason=reason, author=author, steps=steps, only_confirm=confirm)


@golden.command("list")
@_matrix
@_root
@_json
@guarded
def list_goldens(matrix: tuple[str, ...], root: Path | None, json: Path | None) -> int:
    """The goldens of all platforms, from their files alone; no jax is started."""
    require_writable("--json", json)
    from samebits.cli.golden_show import run_list

    return run_list(matrix, root, json)


@golden.command()
@_config
@_root
@_json
@guarded
def show(config: tuple[str, ...], root: Path | None, json: Path | None) -> int:
    """One golden on every platform that has it: environment, evidence, history and all losses."""
    require_writable("--json", json)
    if not config:
        raise RequestError("name what to show: --config MATRIX/RUN; `samebits golden list` lists them")
    from samebits.cli.golden_show import run_show

    return run_show(config, root, json)


def _prepare() -> None:
    from samebits.host import environment

    environment.prepare()
