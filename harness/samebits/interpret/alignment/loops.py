"""Loops that run more often on one side than on the other."""

from __future__ import annotations

from samebits.interpret.alignment.frontier import Side, frontier
from samebits.interpret.alignment.graph import Node
from samebits.interpret.alignment.sources import position_of
from samebits.interpret.alignment.twins import Twins

_SURE = 9.0


def trip_counts(variant: Side, reference: Side, mine: Node, other: Node) -> list[Twins]:
    """Loops with another number of iterations than the same equations have on the other side, written out or in a loop.

    Args:
        variant, reference: the programs.
        mine, other: the output of each.
    """
    differing = []
    for node in frontier(reference.graph, other, reference.occurs):
        loop = _shorter(reference, variant, node)
        if loop is not None:
            differing.append(Twins("trip count", loop, node, _SURE))
    for node in frontier(variant.graph, mine, variant.occurs):
        loop = _shorter(variant, reference, node)
        if loop is not None:
            around = _loop(variant, node.trips[-1][0]) if node.trips else node
            differing.append(Twins("trip count", around, loop, _SURE))
    return differing[:1]


def _shorter(longer: Side, shorter: Side, node: Node) -> Node | None:
    """The loop of the one side all of whose iterations the other side has, and one more, in which a value is computed.

    Args:
        longer, shorter: the sides.
        node: of the longer one, in an iteration that the other may not have.
    """
    if node.kind != "computed":
        return None
    place = position_of(node), node.name, node.output
    group = [n for n in longer.graph.nodes if n.name == node.name and (position_of(n), n.name, n.output) == place]
    trips: set[tuple[int, int]] = set()
    for other in group:
        inside = [twin.trips[-1] for twin in longer.there.of(longer.marks[other]) if twin.trips]
        trips.update(inside[:1])
    loops = {loop for loop, _ in trips}
    if len(loops) != 1:
        return None
    (loop,) = loops
    is_whole = len(trips) == shorter.graph.counts[loop] < len(group)
    return _loop(shorter, loop) if is_whole else None


def _loop(side: Side, loop: int) -> Node:
    equation = side.graph.loops[loop]
    return Node(len(side.graph.nodes), None, "computed", equation, written=equation)
