"""`samebits bisect tensors`: the first tensor that is wrong although its inputs are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from samebits.cli import options
from samebits.cli.bisect import search_options
from samebits.cli.bisect_pairs import EndpointOptions, training_options
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES

if TYPE_CHECKING:
    from samebits.bisect.point import PointRequest
    from samebits.bisect.search.trials import Finding
    from samebits.schema.pair import Pair

OF_PAIRS = ("variant", "case", "dtype", "mode", "direction", "leaf", "arg", "static", "rename")
OF_FUNCTIONS = ("arg", "static", "rename")
OF_TRAININGS = ("config", "against", "choices", "shard_mode", "defect")


@dataclass(frozen=True, kw_only=True)
class TensorsOptions(EndpointOptions):
    """The options of `samebits bisect tensors`."""

    names: tuple[str, ...]
    variant: str | None
    case: str | None
    dtype: str | None
    mode: str | None
    direction: str | None
    leaf: str | None
    arg: tuple[str, ...]
    static: tuple[str, ...]
    rename: tuple[str, ...]

    def point(self) -> PointRequest:
        """The point of the pair; what is not given is the first that there is."""
        from samebits.bisect.point import PointRequest

        named = {name: getattr(self, name) or "" for name in ("variant", "case", "mesh")}
        return self.request(PointRequest, pair=self.names[0], **named)

    def pair(self) -> Pair:
        """The declared pair, or the two functions as one.

        Raises:
            RequestError: there is none of that name, or an argument of the functions is malformed.
        """
        from samebits.programs.catalogue import Locator, load

        if len(self.names) == 1:
            return load(Locator(name=self.names[0], root=None if self.root is None else str(self.root)))
        from samebits.cli.compare_options import CompareFunctionsOptions
        from samebits.cli.compare_run import functions_as_pair

        chosen = CompareFunctionsOptions(
            reference=self.names[0], variant=self.names[1], arg=self.arg, static=self.static, rename=self.rename,
            mesh=self.mesh or "none", mode=self.mode or "auto", accept=None, forward=False, has_aux=False, seeds=1,
            devices=None, platform=None, json=None, html=None, markdown=None,
        )  # fmt: skip
        return functions_as_pair(chosen)


@click.command("tensors")
@click.argument("names", nargs=-1, metavar="[PAIR | MODULE:FUNCTION MODULE:FUNCTION]")
@training_options
@click.option("--variant", metavar="NAME", help="Of a pair: the side that differs; the first by default.")
@click.option("--case", metavar="NAME", help="Of a pair; the first by default.")
@click.option("--dtype", metavar="NAME", help="Of a pair: the first of the case by default.")
@click.option("--mode", metavar="auto|explicit", help="Of a pair: the first of the case by default.")
@click.option("--direction", metavar="forward|gradient", help="Of a pair: forward by default.")
@click.option("--leaf", metavar="NAME", help="Of a pair: the output; the first that differs by default.")
@click.option("--arg", multiple=True, metavar="WORD", help=f"Of two functions: an array argument, as in {EXAMPLES}.")
@click.option("--static", multiple=True, metavar="NAME=VALUE", help="Of two functions: a static argument.")
@click.option("--rename", multiple=True, metavar="NAME=OTHER", help="Of two functions: what the second calls it.")
@search_options
@options.takes(TensorsOptions)
def tensors(chosen: TensorsOptions) -> int:
    """Find the first tensor, in the order of computation, that is wrong although what it is computed from is right.

    PAIR, or two functions: both programs are interpreted and their values aligned by what they are, not by name. Named
    are the first value that occurs nowhere in the reference although its operands do, and its line on both sides.

    --config: of a training, the first tensor that exceeds its bound when its block gets the good inputs. Both steps are
    interpreted at the smallest sizes, without compiling; what goes into each part of the model, and the cotangents of
    what comes out of it, are those of the good training. Forward and backward. Tensors that differ without reaching
    the loss, the gradients or the new state are passed over.
    """
    session = chosen.session()
    _require_one_kind(chosen)
    if not chosen.names:
        request = chosen.endpoints()
        from samebits.bisect.tensors import bisect_tensors

        return chosen.run("tensors", lambda session: bisect_tensors(request, session), session)
    from samebits.host import environment

    environment.prepare(platform=chosen.platform)
    return chosen.run("tensors", lambda _: _of_pair(chosen), session, cached=False)


def _of_pair(chosen: TensorsOptions) -> Finding:
    from samebits.bisect.pair_tensors import align_pair
    from samebits.bisect.session import again

    options = {name: getattr(chosen, name) for name in (*OF_PAIRS, "mesh", "root")}
    return align_pair(chosen.pair(), chosen.point(), again("tensors", *chosen.names, **options))


def _require_one_kind(chosen: TensorsOptions) -> None:
    """Raise unless the options are those of a training, of a pair, or of two functions.

    Raises:
        RequestError: they are mixed.
    """
    if len(chosen.names) > 2:
        raise RequestError(f"got {len(chosen.names)} names; expected a PAIR, or two functions as MODULE:FUNCTION")
    kinds = {0: "a training", 1: "a pair", 2: "two functions"}
    of = {"a PAIR": OF_PAIRS[: -len(OF_FUNCTIONS)], "two functions": OF_FUNCTIONS, "a training": OF_TRAININGS}
    allowed = {0: ("a training",), 1: ("a PAIR",), 2: ("a PAIR", "two functions")}[len(chosen.names)]
    for owner, names in of.items():
        for name in names:
            if owner not in allowed and getattr(chosen, name):
                option = "choice" if name == "choices" else name.replace("_", "-")
                raise RequestError(
                    f"--{option} goes with {owner}, and {kinds[len(chosen.names)]} was named; leave it out"
                )
    if len(chosen.names) == 2 and not chosen.arg:
        raise RequestError(f"no --arg: declare what {chosen.names[0]} takes, as in {EXAMPLES}")
