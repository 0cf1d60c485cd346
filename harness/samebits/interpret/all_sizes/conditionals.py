"""Conditionals: the branch that an integer or the platform selects."""

from __future__ import annotations

from samebits.interpret.all_sizes.demand import Demand
from samebits.interpret.all_sizes.facts import Integer, MapPiece, at_least, below
from samebits.interpret.all_sizes.polynomial import of
from samebits.interpret.platforms import branch_of


def conditional(demand: Demand) -> list[MapPiece]:
    """A place of an output of the branch that is taken: out of range, the first or the last."""
    last = len(demand.params["branches"]) - 1
    pieces = []
    for facts, which in demand.integers(0, ()):
        for number in range(last + 1):
            taken = [at_least(which, number)] if number else []
            taken += [below(which, number + 1)] if number < last else []
            own = demand.space.simplified((*facts, *taken))
            if own is None or demand.space.contradicts((*demand.facts, *own)):
                continue
            inner = demand.evaluator.branch(demand.at(own), number)
            pieces += [MapPiece((*own, *piece.facts), piece.source) for piece in inner]
    return pieces


def platform_index(demand: Demand) -> list[MapPiece]:
    """The number of the branch of the platform, which becomes a condition of the proof."""
    platform = demand.evaluator.platform
    if platform is None:
        raise demand.not_covered("it is not known on which platform it runs")
    number = branch_of(platform, demand.params["platforms"])
    demand.space.bounded[f"the platform is {platform}"] = None
    return [MapPiece((), Integer(of(number)))]
