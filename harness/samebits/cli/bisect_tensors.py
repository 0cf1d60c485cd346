"""`samebits bisect tensors`: the first tensor that is wrong although its inputs are right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from samebits.cli import options
from samebits.cli.bisect import PointOptions
from samebits.cli.bisect_pairs import EndpointOptions, TrainingChoice
from samebits.cli.compare_options import CompareFunctionsOptions, TwoFunctions
from samebits.cli.declared import argument, given, words_of
from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES

if TYPE_CHECKING:
    from samebits.bisect.point import PointRequest
    from samebits.bisect.search.trials import SearchFinding
    from samebits.schema.pair import Pair

GROUPS = {"a PAIR": PointOptions, "two functions": TwoFunctions, "a training": TrainingChoice}
"""By what is searched, the options that go with it."""


@dataclass(frozen=True, kw_only=True)
class TensorsOptions(PointOptions, TwoFunctions, EndpointOptions):
    """The options of `samebits bisect tensors`."""

    names: Annotated[tuple[str, ...], argument("[PAIR | MODULE:FUNCTION MODULE:FUNCTION]")] = ()

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
        from samebits.cli.compare_run import functions_as_pair

        reference, variant = self.names
        functions = CompareFunctionsOptions(
            reference=reference, variant=variant, arg=self.arg, static=self.static, rename=self.rename
        )
        return functions_as_pair(replace(functions, mesh=self.mesh or "none", mode=self.mode or "auto"))


@options.command(TensorsOptions)
def tensors(chosen: TensorsOptions) -> int:
    """Find the first tensor, in the order of computation, that is wrong although what it is computed from is right.

    PAIR, or two functions: both programs are interpreted and their values aligned by what they are, not by name. Named
    are the first value that occurs nowhere in the reference although its operands do, and its line on both sides. Of a
    pair, side and case are the first by default, and the output is the first that differs.

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


def _of_pair(chosen: TensorsOptions) -> SearchFinding:
    from samebits.bisect.pair_tensors import align_pair
    from samebits.bisect.session import again

    words = [*chosen.names, *words_of(chosen, PointOptions, TwoFunctions)]
    return align_pair(chosen.pair(), chosen.point(), again("tensors", *words, mesh=chosen.mesh, root=chosen.root))


def _require_one_kind(chosen: TensorsOptions) -> None:
    """Raise unless the options are those of a training, of a pair, or of two functions.

    Raises:
        RequestError: they are mixed.
    """
    if len(chosen.names) > 2:
        raise RequestError(f"got {len(chosen.names)} names; expected a PAIR, or two functions as MODULE:FUNCTION")
    kinds = {0: "a training", 1: "a pair", 2: "two functions"}
    allowed = {0: ("a training",), 1: ("a PAIR",), 2: ("a PAIR", "two functions")}[len(chosen.names)]
    for owner, group in GROUPS.items():
        for name in given(chosen, group) if owner not in allowed else ():
            raise RequestError(f"{name} goes with {owner}, and {kinds[len(chosen.names)]} was named; leave it out")
    if len(chosen.names) == 2 and not chosen.arg:
        raise RequestError(f"no --arg: declare what {chosen.names[0]} takes, as in {EXAMPLES}")
