"""`samebits bisect mesh`: the smallest mesh, sizes and inputs that still fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samebits.cli.bisect import search_options, session_of
from samebits.cli.common import guarded
from samebits.errors import RequestError

OF_PAIRS = ("variant", "case", "dtype", "mode", "direction", "leaf", "input_", "value")
OF_CONFIGS = ("config", "against", "choice", "defect", "steps", "most")


@click.command("mesh")
@click.argument("pair", required=False)
@click.option("--variant", metavar="NAME", help="Of the pair, the side that fails.")
@click.option("--case", metavar="NAME", help="Of the pair.")
@click.option("--mesh", metavar="MESH", help="On which it fails, such as expert8 or expert4_fsdp2.")
@click.option("--dtype", metavar="NAME", help="The first of the case by default.")
@click.option("--mode", metavar="auto|explicit", help="The first of the case by default.")
@click.option("--direction", metavar="forward|gradient", help="forward by default.")
@click.option("--leaf", metavar="NAME", help="The output that differs; of the gravest the first by default.")
@click.option("--size", "size", multiple=True, metavar="NAME=N", help="Another size, to begin with.")
@click.option("--input", "input_", metavar="LABEL", help="Run this input alone, zero but for --value.")
@click.option("--value", "value", multiple=True, metavar="NAME[I, J]=X", help="One element of that input.")
@click.option("--only", is_flag=True, help="Judge this point alone, and shrink nothing.")
@click.option("--config", metavar="NAME", help="In place of a pair: a configuration of the full model.")
@click.option("--against", metavar="NAME", help="With --config: another one; all references on one device by default.")
@click.option("--choice", multiple=True, metavar="PAIR=SIDE", help="With --config: another side of a pair.")
@click.option("--defect", metavar="NAME", help="With --config: a defect of the model, planted.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="With --config: steps of every run; 2 by default.")
@click.option("--most", type=click.IntRange(2), metavar="N", help="With --config: the most runs; 12 by default.")
@click.option("--devices", type=int, metavar="N", help="How many CPU devices; 8 unless the environment says otherwise.")
@click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree; here by default.")
@search_options
@guarded
def bisect_mesh(
    pair: str | None,
    mesh: str | None,
    devices: int | None,
    root: Path | None,
    repeat: int,
    journal: Path | None,
    fresh: bool,
    json: Path | None,
    markdown: Path | None,
    **said: Any,
) -> int:
    """Shrink what fails while it fails: the mesh, then the sizes, then the inputs.

    PAIR with --variant, --case and --mesh is judged as `samebits check` judges it. Inputs are cut down to the fewest
    nonzero elements, and these to small whole numbers, as long as the same leaf differs in the same kind.

    --config is judged by training a few steps beside all references on one device: it fails where the two are
    `different`, at the same step; which array is furthest may change with the sizes.
    """
    if (pair is None) == (said["config"] is None):
        raise RequestError("give a PAIR with --variant, --case and --mesh, or --config NAME; one of them")
    for name in OF_CONFIGS if pair is not None else OF_PAIRS:
        if said[name]:
            other = "--config" if pair is not None else "a PAIR"
            raise RequestError(f"--{name.rstrip('_')} goes with {other}; leave it out")
    sizes = {name: _whole(name, text) for name, text in (_split("--size", one) for one in said["size"])}
    session = session_of(repeat, journal, fresh, json, markdown)
    from samebits.host import environment

    if pair is None:
        from samebits.bisect.mesh_config import ConfigRequest, bisect_config, wanted_devices

        whole = ConfigRequest(
            config=said["config"],
            mesh=mesh,
            sizes=sizes,
            only=said["only"],
            against=said["against"],
            choices=said["choice"],
            defect=said["defect"],
            steps=said["steps"] or 2,
            most=said["most"] or 12,
            root=root,
        )
        wanted = wanted_devices(whole)
        environment.prepare(devices=devices or (wanted if wanted > environment.asked_devices() else None))
        from samebits.cli.bisect_run import run_bisection

        return run_bisection("mesh", lambda s: bisect_config(whole, s), session, json=json, markdown=markdown)
    values = {name: _number(name, text) for name, text in (_split("--value", one) for one in said["value"])}
    missing = [f"--{name}" for name in ("variant", "case") if not said[name]] + ([] if mesh else ["--mesh"])
    if missing or mesh is None:
        raise RequestError(f"a pair is shrunk from one failing point: give {' and '.join(missing)} too")
    from samebits.bisect.mesh import bisect_mesh as search
    from samebits.bisect.point import PointRequest

    asked = PointRequest(
        pair=pair,
        variant=said["variant"],
        case=said["case"],
        mesh=mesh,
        dtype=said["dtype"],
        mode=said["mode"],
        direction=said["direction"],
        leaf=said["leaf"],
        sizes=sizes,
        label=said["input_"],
        values=values,
        only=said["only"],
        root=root,
    )
    environment.prepare(devices=devices)
    from samebits.cli.bisect_run import run_bisection

    return run_bisection("mesh", lambda s: search(asked, s), session, json=json, markdown=markdown, cached=False)


def _split(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        example = "rows=4" if option == "--size" else "'x[0, 1]=1'"
        raise RequestError(f"{option} {text}: expected a name and a number, as in {example}")
    return name, value


def _whole(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise RequestError(f"--size {name}={text}: expected a whole number of at least 1")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise RequestError(f"--value {name}={text}: '{text}' is no number") from None
