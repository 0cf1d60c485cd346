"""From the frontiers of two programs to places of the source, each on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.interpret.alignment.fingerprints import (
    Node,
    Side,
    each_device,
    elements_of,
    frontier,
    reaching,
    shadow_of,
    size_of,
)
from samebits.interpret.alignment.repairs import Repair, earliest
from samebits.interpret.alignment.sources import SourcePlace, calls_of, code_of, position_of, source_of
from samebits.interpret.devices import PerDevice
from samebits.interpret.equation import Array
from samebits.schema.line_difference import Change, LineDifference

# Pairs the frontiers of two programs: which equation of the one stands where which of the other does.
_DEEP = 8  # equations behind one that is missing or was added among which its user is looked for


@dataclass(frozen=True, slots=True)
class Twins:
    """What differs at one place.

    Args:
        variant, reference: the equations; one of them may be None.
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
    """The differences between two frontiers, surest first."""
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
    """Find the twin of `user` behind an equation that one side has, whose operand the other side's `user` takes."""
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


MOST = 3
"""Lines that are named for one output."""

STRONG = 4.0
"""The score of twins on the same operands, or of an equation that only one side has between the same two others."""

_SURE = 9.0
_SAME = 1e-12  # relative noise of float64 in one element


def named(reference: Side, variant: Side, number: int) -> tuple[LineDifference, ...]:
    """The places that make an output differ, surest first; none where both sides give the same."""
    mine, other = (side.graph.nodes[side.graph.outputs[number]] for side in (variant, reference))
    if variant.order(mine) == reference.order(other):
        return ()
    if variant.content(mine) == reference.content(other):
        pairs = _rearranged(variant, reference, mine, other)
    else:
        pairs = _causes(variant, reference, mine, other)
    places = _Places(variant, reference)
    return _merged(places.described(twins) for twins in pairs)


def _causes(variant: Side, reference: Side, mine: Node, other: Node) -> list[Twins]:
    """What makes two values differ, likeliest first."""
    repair = earliest(variant, reference, mine, other)
    end, its = (mine, other) if repair is None else (repair.variant[0], repair.reference[0])
    if repair is not None and end.grid:
        return _of_shards(variant, repair)
    end = _computed(variant, end)
    ours = frontier(variant.graph, end, variant.occurs)
    theirs = frontier(reference.graph, its, reference.occurs)
    pairs = pair_up(variant, reference, ours, theirs)
    known = {} if repair is None else {end.number: Twins("other", end, its, 1)}
    known |= {node.number: twins for twins in reversed(pairs) for node in (twins.variant or twins.user,) if node}
    if end.is_source:
        first = [Twins("missing", None, its, 1)]
    elif _is_zero(end) and not reference.marks.is_constant(its):
        first = [Twins("missing", None, node, 1) for node in theirs]
    elif [node.number for node in ours] == [end.number]:
        first = [known.get(end.number) or Twins("other", end, its, 1)]
        if repair is not None and first[0].reference is None and first[0].change == "other":
            first = [Twins("other", end, its, 1)]
    else:
        strong = [twins for twins in pairs if twins.score >= STRONG]
        likely, others = suspects(variant, reference, end, Elements(reference))
        turned = [_of({}, node) for node in _turned(variant, ours)]
        taken = [twins for twins in strong if _takes_others(twins)]
        first = taken + [_of(known, node) for node in likely] + strong + turned + [_of(known, node) for node in others]
    first = [*trip_counts(variant, reference, mine, other), *first]
    return [settled for twins in [*first, *pairs] for settled in _settled(variant, reference, twins)]


def _of_shards(variant: Side, repair: Repair) -> list[Twins]:
    """The earliest values of devices that repair an output, and what they were computed from that occurs nowhere."""
    end, its = repair.variant[0], repair.reference[0]
    first = Twins("partial" if repair.partial else "other", end, its, _SURE)
    return [first, *(Twins("other", node, None, 1) for node in frontier(variant.graph, end, variant.occurs))]


def _takes_others(twins: Twins) -> bool:
    """Whether both sides take as many elements of one array, but not the same ones."""
    node, other = twins.variant, twins.reference
    is_pair = node is not None and other is not None and node.kind == other.kind == "moved" and node.name == other.name
    return is_pair and node is not None and other is not None and size_of(node.value) == size_of(other.value)


def _turned(variant: Side, ours: Iterable[Node]) -> list[Node]:
    """What rearranges an operand of a frontier in a way that the reference does not."""
    operands = {operand.number: operand for node in ours for operand in variant.graph.operands(node)}
    whole = [node for node in operands.values() if node.kind == "moved" and not isinstance(node.value, PerDevice)]
    wrong = [operand for operand in whole if not variant.arranged(operand)]
    return [node for operand in wrong for node in frontier(variant.graph, operand, variant.arranged)]


def _is_zero(node: Node) -> bool:
    """Whether a value is zero everywhere, as a gradient that is not passed on."""
    return not any(shadow_of(value).any() for value in each_device(node.value))


def _of(known: dict[int, Twins], node: Node) -> Twins:
    return known.get(node.number) or Twins("other", node, None, 1)


def _computed(side: Side, node: Node) -> Node:
    """The value that another one only rearranges."""
    while node.kind == "moved" and len({*node.operands}) == 1 and not side.occurs(side.graph.nodes[node.operands[0]]):
        node = side.graph.nodes[node.operands[0]]
    return node


def _settled(variant: Side, reference: Side, twins: Twins) -> list[Twins]:
    """Twins that do the same to the same elements get what arranges these differently in their stead."""
    node, other = twins.variant, twins.reference
    if node is None or other is None or isinstance(node.value, PerDevice) or isinstance(other.value, PerDevice):
        return [twins]
    if node.is_source or other.is_source or not _same_operation(node.equation, other.equation):
        return [twins]
    ours, theirs = ([*side.graph.operands(each)] for side, each in ((variant, node), (reference, other)))
    if len(ours) != len(theirs):
        return [twins]
    for mine, its in zip(ours, theirs, strict=True):
        if variant.content(mine) != reference.content(its) and variant.occurs(mine) and its.kind == "moved":
            row = _row(variant, mine)
            if row is not None:
                return [replace(twins, change="moved", variant=row)]
    moved: list[Twins] = []
    for mine, its in zip(ours, theirs, strict=True):
        if variant.content(mine) != reference.content(its):
            return [twins]
        if variant.order(mine) != reference.order(its):
            moved += _rearranged(variant, reference, mine, its)
    return [replace(pair, score=twins.score) for pair in moved] or [twins]


def _row(side: Side, node: Node) -> Node | None:
    """Where an iteration takes its part of an array that a value rearranges; None where it is not such a part."""
    while node.kind == "moved":
        if node.name in ("scan", "dynamic_slice", "gather"):
            return node
        if len(node.operands) != 1:
            return None
        node = side.graph.nodes[node.operands[0]]
    return None


def _rearranged(variant: Side, reference: Side, mine: Node, other: Node) -> list[Twins]:
    """What gives the same elements in another order, on the way to two values."""
    repair = earliest(variant, reference, mine, other, arranged=True)
    first = [] if repair is None else [Twins("moved", repair.variant[0], repair.reference[0], 1)]
    ours = frontier(variant.graph, mine, variant.arranged)
    theirs = frontier(reference.graph, other, reference.arranged)
    return first + [replace(twins, change="moved") for twins in pair_up(variant, reference, ours, theirs)]


def _same_operation(first: Any, second: Any) -> bool:
    """Whether two equations are the same operation, where they run aside."""
    if first.primitive.name != second.primitive.name:
        return False
    ignored = ("sharding", "out_sharding", "name", "accuracy")
    params = [{key: str(value) for key, value in each.params.items() if key not in ignored} for each in (first, second)]
    return params[0] == params[1]


class _Places:
    """Where equations stand in the source, and which lines of the two sides belong together."""

    def __init__(self, variant: Side, reference: Side) -> None:
        self.variant = variant
        self.reference = reference
        self._votes: dict[Any, Counter[SourcePlace]] | None = None
        self._voters: dict[Any, Node] = {}

    def described(self, twins: Twins) -> tuple[LineDifference, SourcePlace | None, SourcePlace | None]:
        """A difference with its places."""
        known = twins.variant or twins.reference
        assert known is not None
        here = self._place(twins.variant, twins, False)
        there = self._place(twins.reference, twins, True)
        line = LineDifference(
            change=twins.change,
            variant=None if here[0] is None else str(here[0]),
            variant_code=here[1],
            calls=calls_of(twins.variant),
            reference=None if there[0] is None else str(there[0]),
            reference_code=there[1],
            primitive=known.name,
            iterations=tuple(trip for _, trip in known.trips[-1:]) if twins.change != "trip count" else (),
            certain=twins.score >= 1,
        )
        return line, here[0], there[0]

    def _place(self, node: Node | None, twins: Twins, in_reference: bool) -> tuple[SourcePlace | None, str]:
        """The place of an equation; of one that a side lacks, the place where it would stand."""
        if node is not None and node.is_source:  # it is used there
            graph = (self.reference if in_reference else self.variant).graph
            node = next((user for user in graph.users(node) if source_of(user) is not None), node)
        if node is not None:
            return source_of(node), code_of(node)
        other = twins.reference if not in_reference else twins.variant
        assert other is not None
        place = source_of(other)
        having = self.variant if in_reference else self.reference
        if twins.user is not None and source_of(twins.beside) != place:
            # Its operand may be written on the line of what is missing: then that is where it would stand.
            for operand in having.graph.operands(other):
                here = [node for node in having.there.of(having.marks[operand]) if not node.is_source]
                if not operand.is_source and source_of(operand) == place and here:
                    return source_of(here[0]), code_of(here[0])
        if twins.user is not None:
            return source_of(twins.user), code_of(twins.user)
        best = None if place is None else self._opposite(other, in_reference)
        return (None, "") if best is None else (source_of(best), code_of(best))

    def _opposite(self, other: Node, in_reference: bool) -> Node | None:
        """A value of the other side on the line with most of the values of an expression, or else of its line."""
        if self._votes is None:
            self._votes = {}
            for node in self.variant.graph.nodes:
                if node.is_source or source_of(node) is None or self.variant.marks.is_constant(node):
                    continue
                for twin in self.variant.there.of(self.variant.marks[node])[:8]:
                    if twin.name == node.name and source_of(twin) is not None:
                        self._vote(node, twin)
        for place in (position_of(other), source_of(other)):
            votes = self._votes.get((in_reference, place))
            if votes:
                return self._voters[in_reference, place, votes.most_common(1)[0][0]]
        return None

    def _vote(self, mine: Node, its: Node) -> None:
        assert self._votes is not None
        for node, twin, in_reference in ((mine, its, True), (its, mine, False)):
            line = source_of(twin)
            for place in (position_of(node), source_of(node)):
                if line is not None:
                    self._votes.setdefault((in_reference, place), Counter())[line] += 1
                    self._voters.setdefault((in_reference, place, line), twin)


def _merged(
    described: Iterable[tuple[LineDifference, SourcePlace | None, SourcePlace | None]],
) -> tuple[LineDifference, ...]:
    """One entry per place of the variant, with all its iterations; the surest places."""
    places: dict[SourcePlace, LineDifference] = {}
    for line, here, there in described:
        key = here or there
        if key is None:  # an input in the place of another one
            continue
        if key not in places:
            places[key] = line
        elif (places[key].reference, places[key].change) == (line.reference, line.change):
            known = places[key]
            places[key] = replace(known, iterations=tuple(sorted({*known.iterations, *line.iterations})))
    named = [line for line in places.values() if line.variant]
    sure = [line for line in named if line.certain]
    return tuple((sure or named or [*places.values()])[:MOST])


def trip_counts(variant: Side, reference: Side, mine: Node, other: Node) -> list[Twins]:
    """Find loops with another number of iterations than the same equations have on the other side, in a loop or not."""
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
    """Find the loop of the shorter side of which the longer one has all iterations, and one more, that of the value."""
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


class Elements:
    """The elements of the values of one program, to find parts of them."""

    def __init__(self, side: Side) -> None:
        nodes = [node for node in side.graph.nodes if not side.marks.is_constant(node)]
        none = np.zeros(0)
        self._exact = np.unique(np.concatenate([none.astype(np.int64), *map(_residues, nodes)]))
        self._numbers = np.unique(np.concatenate([none, *map(_numbers, nodes)]))

    def has(self, node: Node) -> bool:
        """Whether every element of a value occurs, or is zero."""
        own = _residues(node)
        if own.size and self._exact.size:  # not np.isin, which sorts all elements of the program again
            after = np.minimum(np.searchsorted(self._exact, own), self._exact.size - 1)
            if np.all((self._exact[after] == own) | (own == 0)):
                return True
        numbers = _numbers(node)
        if self._numbers.size < 2:
            return False
        after = np.clip(np.searchsorted(self._numbers, numbers), 1, self._numbers.size - 1)
        near = np.minimum(*(np.abs(self._numbers[places] - numbers) for places in (after, after - 1)))
        return bool(np.all((near <= _SAME * np.abs(numbers)) | (numbers == 0)))


def _residues(node: Node) -> Array:
    """The elements as residues; none of a value that has none."""
    rows = [elements_of(value).reshape(-1) for value in each_device(node.value)]
    return np.concatenate([row for row in rows if row.dtype.kind == "i"] or [np.zeros(0, np.int64)])


def _numbers(node: Node) -> Array:
    """The finite elements as float64 numbers."""
    rows = [shadow_of(value).reshape(-1) for value in each_device(node.value)]
    numbers = np.concatenate(rows)
    finite: Array = numbers[np.isfinite(numbers)]
    return finite


def suspects(variant: Side, reference: Side, end: Node, elements: Elements) -> tuple[list[Node], list[Node]]:
    """The values of a region that are likely to be its cause, and others that may be, likeliest first.

    Where a program has another form than the reference, most of its values occur nowhere in it, and no cause is among
    them. Three things point to one: elements that occur nowhere in the reference, although those of all operands do; a
    constant or an operation that the reference does not have; and the value at which both forms should have met again.

    Args:
        end: where the region ends: its operands and theirs belong to it, up to those that occur in the reference.
    """
    plain = frontier(variant.graph, end, variant.occurs)
    partly = frontier(variant.graph, end, lambda node: variant.occurs(node) or elements.has(node))
    region = reaching(variant.graph, end, variant.occurs)
    new = [node for node in region if node.kind == "computed" and is_new(variant, reference, node)]
    if {node.number for node in partly} != {node.number for node in plain}:
        return [*_first(partly, new), *partly], [*new, end]
    return [*_first(plain, new), *new], [end, *plain]


def _first(nodes: Iterable[Node], new: Iterable[Node]) -> list[Node]:
    numbers = {node.number for node in new}
    return [node for node in nodes if node.number in numbers]


def is_new(variant: Side, reference: Side, node: Node) -> bool:
    """Whether a constant, or the length of a sum, that a value is computed by does not occur in the reference."""
    for operand in variant.graph.operands(node):
        if operand.kind == "constant" and not variant.there.of(variant.marks[operand]):
            return True
    if not node.name.startswith("reduce_"):
        return False
    return _sizes(node) not in {_sizes(each) for each in reference.graph.nodes if each.name == node.name}


def _sizes(node: Node) -> tuple[int, int]:
    """How many elements a reduction takes and gives."""
    return int(node.equation.invars[0].aval.size), int(node.equation.outvars[0].aval.size)
