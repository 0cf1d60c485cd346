"""`samebits bisect mesh`: the smallest mesh, sizes and inputs that still fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samebits.cli import options
from samebits.cli.bisect import SearchOptions, search_options
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.bisect.session import Session

OF_PAIRS = ("variant", "case", "dtype", "mode", "direction", "leaf", "input_", "value")
OF_CONFIGS = ("config", "against", "choice", "defect", "steps", "most")


@dataclass(frozen=True, kw_only=True)
class MeshOptions(SearchOptions):
    """The options of `samebits bisect mesh`."""

    pair: str | None
    variant: str | None
    case: str | None
    mesh: str | None
    dtype: str | None
    mode: str | None
    direction: str | None
    leaf: str | None
    size: tuple[str, ...]
    input_: str | None
    value: tuple[str, ...]
    only: bool
    config: str | None
    against: str | None
    choice: tuple[str, ...]
    defect: str | None
    steps: int | None
    most: int | None
    devices: int | None
    root: Path | None

    @property
    def sizes(self) -> dict[str, int]:
        """Of `--size`, by name.

        Raises:
            RequestError: one is not a positive integer.
        """
        return {name: _integer(name, text) for name, text in (_split("--size", size) for size in self.size)}


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
@options.takes(MeshOptions)
def bisect_mesh(chosen: MeshOptions) -> int:
    """Shrink what fails while it fails: the mesh, then the sizes, then the inputs.

    PAIR with --variant, --case and --mesh is judged as `samebits check` judges it. Inputs are cut down to the fewest
    nonzero elements, and these to small integers, as long as the same leaf differs in the same kind.

    --config is judged by training a few steps beside all references on one device: it fails where the two are
    `different`, at the same step; which array is furthest may change with the sizes.
    """
    if (chosen.pair is None) == (chosen.config is None):
        raise RequestError("give a PAIR with --variant, --case and --mesh, or --config NAME; one of them")
    for name in OF_CONFIGS if chosen.pair is not None else OF_PAIRS:
        if getattr(chosen, name):
            other = "--config" if chosen.pair is not None else "a PAIR"
            raise RequestError(f"--{name.rstrip('_')} goes with {other}; leave it out")
    sizes, session = chosen.sizes, chosen.session()
    return (_config_search if chosen.pair is None else _pair_search)(chosen, sizes, session)


def _config_search(chosen: MeshOptions, sizes: dict[str, int], session: Session) -> int:
    from samebits.bisect.mesh_config import ConfigRequest, bisect_config, wanted_devices
    from samebits.host import environment

    request = chosen.request(
        ConfigRequest, sizes=sizes, choices=chosen.choice, steps=chosen.steps or 2, most=chosen.most or 12
    )
    wanted = wanted_devices(request)
    devices = chosen.devices or (wanted if wanted > environment.asked_devices() else None)
    environment.prepare(devices=devices, platform=chosen.platform)
    return chosen.run("mesh", lambda session: bisect_config(request, session), session)


def _pair_search(chosen: MeshOptions, sizes: dict[str, int], session: Session) -> int:
    """The search that begins at one failing point of a pair.

    Raises:
        RequestError: the point is not complete.
    """
    values = {name: _number(name, text) for name, text in (_split("--value", value) for value in chosen.value)}
    required = {"--variant": chosen.variant, "--case": chosen.case, "--mesh": chosen.mesh}
    missing = [option for option, value in required.items() if not value]
    if missing:
        raise RequestError(f"a pair is shrunk from one failing point: give {' and '.join(missing)} too")
    from samebits.bisect.mesh import bisect_mesh as search
    from samebits.bisect.point import PointRequest
    from samebits.host import environment

    request = chosen.request(PointRequest, sizes=sizes, label=chosen.input_, values=values)
    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    return chosen.run("mesh", lambda session: search(request, session), session, cached=False)


def _split(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        example = "rows=4" if option == "--size" else "'x[0, 1]=1'"
        raise RequestError(f"{option} {text}: expected a name and a number, as in {example}")
    return name, value


def _integer(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise RequestError(f"--size {name}={text}: expected an integer of at least 1")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise RequestError(f"--value {name}={text}: '{text}' is not a number") from None
