"""`samebits bisect mesh`: the smallest mesh, sizes and inputs that still fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from samebits.cli import options
from samebits.cli.bisect import PointOptions, SearchOptions
from samebits.cli.declared import argument, given, option
from samebits.errors import RequestError

if TYPE_CHECKING:
    from samebits.bisect.session import Session


@dataclass(frozen=True, kw_only=True)
class FailingPoint(PointOptions):
    """At which point of a pair the search begins, and with which input."""

    HEADING = PointOptions.HEADING

    input_: Annotated[str | None, option("Run this input alone, zero but for --value.", "LABEL")] = None
    value: Annotated[tuple[str, ...], option("One element of that input.", "NAME[I, J]=X")] = ()


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """Which trainings are compared, in place of a pair."""

    HEADING = "In place of a pair"

    config: Annotated[str | None, option("A configuration of the full model.", "NAME")] = None
    against: Annotated[str | None, option("Another one; all references on one device by default.", "NAME")] = None
    choice: Annotated[tuple[str, ...], option("Another side of a pair.", "PAIR=SIDE")] = ()
    defect: Annotated[str | None, option("A defect of the model, planted.", "NAME")] = None
    steps: Annotated[int | None, option("Steps of every run; 2 by default.", "N", least=1)] = None
    most: Annotated[int | None, option("The most runs; 12 by default.", "N", least=2)] = None


@dataclass(frozen=True, kw_only=True)
class MeshOptions(ConfigOptions, FailingPoint, SearchOptions):
    """The options of `samebits bisect mesh`."""

    pair: Annotated[str | None, argument()] = None
    mesh: Annotated[str | None, option("On which it fails, such as expert8 or expert4_fsdp2.", "MESH")] = None
    size: Annotated[tuple[str, ...], option("Another size, to begin with.", "NAME=N")] = ()
    only: Annotated[bool, option("Judge this point alone, and shrink nothing.")] = False
    devices: options.Devices = None
    root: options.Tree = None

    @property
    def sizes(self) -> dict[str, int]:
        """Of `--size`, by name.

        Raises:
            RequestError: one is not a positive integer.
        """
        return {name: _integer(name, text) for name, text in (_split("--size", size) for size in self.size)}


@options.command(MeshOptions, "mesh")
def bisect_mesh(chosen: MeshOptions) -> int:
    """Shrink what fails while it fails: the mesh, then the sizes, then the inputs.

    PAIR with --variant, --case and --mesh is judged as `samebits check` judges it. Inputs are cut down to the fewest
    nonzero elements, and these to small integers, as long as the same leaf differs in the same kind.

    --config is judged by training a few steps beside all references on one device: it fails where the two are
    `different`, at the same step; which array is furthest may change with the sizes.
    """
    if (chosen.pair is None) == (chosen.config is None):
        raise RequestError("give a PAIR with --variant, --case and --mesh, or --config NAME; one of them")
    for name in given(chosen, ConfigOptions) if chosen.pair is not None else given(chosen, PointOptions, FailingPoint):
        other = "--config" if chosen.pair is not None else "a PAIR"
        raise RequestError(f"{name} goes with {other}; leave it out")
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
    chosen.require("variant", "case", "mesh")
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
