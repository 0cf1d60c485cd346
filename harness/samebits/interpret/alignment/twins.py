"""Pairs the frontiers of two programs: which equation of the one stands where which of the other does.

Two equations on the same operands are twins. Where one side has an equation more, its operand and its user are next to
each other on the other side: then it is that equation which is missing, or was added, and not its user that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from samebits.interpret.alignment.frontier import Side
from samebits.interpret.alignment.graph import Node, size_of
from samebits.interpret.devices import PerDevice
from samebits.schema.line_difference import Change

_DEEP = 8  # equations behind one that is missing or was added among which its user is looked for


@dataclass(frozen=True, slots=True)
class Twins:
    """What differs at one place.

    Args:
        change: what the variant does there.
        variant, reference: the equations; one of them may be None.
        score: how sure it is that they belong together.
        user: of a missing or an added equation, the one that takes its operand on the other side.
        beside: the twin of the user on the side that has the equation.
    """

    change: Change
    variant: Node | None
    reference: Node | None
    score: float
    user: Node | None = None
    beside: Node | None = None


def pair_up(variant: Side, reference: Side, ours: list[Node], theirs: list[Node]) -> list[Twins]:
    """The differences between two frontiers, surest first.

    Args:
        variant, reference: the programs.
        ours, theirs: their frontiers.
    """
    candidates = [twins for node in ours for other in theirs for twins in _related(variant, reference, node, other)]
    candidates.sort(key=lambda twins: (-twins.score, _order(twins)))
    pairs: list[Twins] = []
    used: tuple[set[int], set[int]] = (set(), set())
    for twins in candidates:
        nodes = (twins.variant or twins.user, twins.reference or twins.user)
        if any(node is not None and node.number in taken for node, taken in zip(nodes, used, strict=True)):
            continue
        for node, taken in zip(nodes, used, strict=True):
            if node is not None:
                taken.add(node.number)
        pairs.append(twins)
    pairs += [Twins("other", node, None, _weight(node)) for node in ours if node.number not in used[0]]
    pairs += [Twins("other", None, node, _weight(node)) for node in theirs if node.number not in used[1]]
    return sorted(pairs, key=lambda twins: (-twins.score, _order(twins)))


def _order(twins: Twins) -> int:
    return min(node.number for node in (twins.variant, twins.reference, twins.user) if node is not None)


def _weight(node: Node) -> float:
    """How significant an equation without a twin is: what only rearranges elements may be a step of a correct form."""
    return 0.0 if node.kind == "moved" else 0.5


def _related(variant: Side, reference: Side, node: Node, other: Node) -> Iterator[Twins]:
    """The ways in which two equations of the frontiers may belong together."""
    shared = _shared(variant, reference, node, other)
    if isinstance(node.value, PerDevice) != isinstance(other.value, PerDevice):
        if shared:  # what a device computes of its part may be another thing than what is computed of the whole
            yield Twins("other", node, other, 1 + shared)
        return
    beside = _behind(reference, variant, other, node)
    if beside is not None:
        yield Twins("missing", None, other, 6 + shared, node, beside)
    beside = _behind(variant, reference, node, other)
    if beside is not None:
        yield Twins("added", node, None, 6 + shared, other, beside)
    if shared:
        alike = 2.0 if node.name == other.name else 0.0
        size = 1.0 if size_of(node.value) == size_of(other.value) else 0.0
        yield Twins("other", node, other, 1 + 3 * shared + alike + size + _weight(node))
    elif node.name == other.name:
        yield Twins("other", node, other, 1 + _weight(node))


def _shared(variant: Side, reference: Side, node: Node, other: Node) -> float:
    """The share of operands that two equations have in common, of the one that has more; literals count."""
    ours, theirs = _contents(variant, node), _contents(reference, other)
    both = sum((ours & theirs).values())
    inputs = sum(1 for operand in variant.graph.operands(node) if not variant.marks.is_constant(operand))
    if inputs and not _depends(variant, reference, node, other):
        return 0.0
    return both / max(sum(ours.values()), sum(theirs.values()), 1)


def _depends(variant: Side, reference: Side, node: Node, other: Node) -> bool:
    """Whether an operand that depends on the inputs is common to both."""
    ours = {variant.content(o) for o in variant.graph.operands(node) if not variant.marks.is_constant(o)}
    return any(reference.content(o) in ours for o in reference.graph.operands(other))


def _contents(side: Side, node: Node) -> Counter[bytes]:
    return Counter(side.content(operand) for operand in side.graph.operands(node))


def _behind(having: Side, lacking: Side, extra: Node, user: Node) -> Node | None:
    """The twin of `user` behind an equation that only one side has: the other side's `user` takes its operand itself.

    Args:
        having, lacking: the sides.
        extra: the equation that one side has.
        user: of the other side.
    """
    operands = {having.content(operand) for operand in having.graph.operands(extra)}
    wanted = _contents(lacking, user)
    direct = [content for content in wanted if content in operands]
    level = [extra] if direct and extra.kind == "computed" else []
    for _ in range(_DEEP):
        level = [after for node in level for after in having.graph.users(node)]
        for twin in level[:64]:
            if twin.name != user.name or having.occurs(twin):
                continue
            rest = Counter(having.content(o) for o in having.graph.operands(twin) if having.occurs(o))
            if any(rest == Counter({key: n for key, n in wanted.items() if key != content}) for content in direct):
                return twin
        level = [node for node in level if node.kind == "moved" or len(node.operands) == 1][:16]
    return None
