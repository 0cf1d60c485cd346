"""The names of what is unknown in a loop: its step, the places of what it carries, and what it carries there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from samebits.interpret.all_sizes.facts import Carried, Element, Facts, Source, parts_of, variables_in
from samebits.interpret.all_sizes.space import Space
from samebits.interpret.all_sizes.terms import names_in

TURN, SPOT, CARRY = "turn", "spot", "carry"
_DEPTH = re.compile(rf"\b(?:{TURN}|{SPOT}|{CARRY}) (\d+)")


def depth_of_loops(space: Space, names: Iterable[str]) -> int:
    """How many loops around the names are looked at with unknown carries."""
    texts = [text for name in names for text in (name, *space.inside.get(name, ()))]
    return max((int(number) + 1 for text in texts for number in _DEPTH.findall(text)), default=0)


def is_carried(source: Source) -> bool:
    """Whether a source is what a loop carries, known or unknown."""
    return isinstance(source, Carried) or (isinstance(source, Element) and source.name.startswith(f"{CARRY} "))


def mentions(space: Space, source: Source, facts: Facts, depth: int, whose: str) -> bool:
    """Whether an unknown carry of this depth decides where a source stands, or one of these is in it.

    Args:
        space: of indices.
        source: that a step writes.
        facts: where it stands.
        depth: of the loop.
        whose: how the names of carries begin that must not be in it.
    """
    if any(_depends(space, part, depth) for part in parts_of(source)):
        return True
    deciding = [name for fact in facts for name in fact.polynomial.variables]
    return _named(space, [*names_in(source), *variables_in(source)], depth, whose) or _named(
        space, deciding, depth, f"{CARRY} {depth}."
    )


def _named(space: Space, names: Iterable[str], depth: int, whose: str) -> bool:
    """Whether names, or what they stand for, are of a carry whose name begins so."""
    begins = re.compile(rf"{re.escape(whose)}\b")
    todo, seen = list(names), set[str]()
    while todo:
        name = todo.pop()
        if begins.match(name):
            return True
        if name not in seen and name in space.sources:
            inner = space.sources[name]
            if any(_depends(space, part, depth) for part in parts_of(inner)):
                return True
            todo += [*names_in(inner), *variables_in(inner)]
        seen.add(name)
    return False


def _depends(space: Space, source: Source, depth: int) -> bool:
    """Whether a source is carried by a loop inside the step that is looked at."""
    return isinstance(source, Carried) and space.scans[source.name].demand.frame.depth > depth
