"""A point of a pair for all sizes: its declared arguments with symbols for the sizes of the case and of mesh axes.

The reference runs on one device, as in proofs of one shape. A variant whose code never looks at the mesh is one program
for every number of devices, in auto mode; any other is traced for the mesh of the point, with the number of devices as
it is there. Every other size is a symbol, but for those that a side's code needs as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import DeclarationError, NotCovered, SamebitsError
from samebits.interpret.inner_equations import equations
from samebits.prove.mesh_queries import Query, conditions_of, mesh_queries, other_devices
from samebits.schema.all_sizes import DevicesShown
from samebits.schema.meshes import MeshSpec
from samebits.schema.size_symbols import value_of
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.proofs.attempts import (
    PairPoint,
    SymbolicMesh,
    attempts,
    axis_sizes,
    covers,
    expression,
    mesh_axes,
    numbers_on,
    symbols_of,
)
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.family_proof import (
    PairProof,
    SizesProof,
    for_all,
    proof_of,
    prove_all_sizes,
    tried_at_others,
    undecided,
    with_kept,
)
from samebits.sizes.proofs.mesh_proofs import MeshProof, MeshProofs
from samebits.sizes.proofs.number_forms import same_on_one_device
from samebits.sizes.proofs.tracing import traced

# For how many devices a proof on one mesh holds: the same point put to proof on other numbers of devices.
# A point of a pair on another number of devices: its sizes there, as its symbols have them.
MOST_DEVICES = 16
"""Up to which number of devices on an axis a proof is asked for where code asks for the mesh."""


def in_order(most: int) -> Iterator[int]:
    """Yield the numbers of devices up to the most, those on which most is run first.

    One device comes first, since the proof there often holds for others; then the largest and the powers of two.
    """
    first = [1, most, *(1 << power for power in range(most.bit_length() - 1, 0, -1))]
    yield from (number for number in dict.fromkeys([*first, *range(1, most + 1)]) if number <= most)


def few(most: int) -> Iterator[int]:
    """Yield the numbers of devices to look for a fault on where nothing is shown: one, an odd one, the largest."""
    yield from (number for number in dict.fromkeys((1, most, 3)) if number <= most)


def point_on(point: PairPoint, mesh: MeshSpec, there: MeshSpec) -> PairPoint | None:
    """Return the point on another mesh of the same axes; None where its symbols do not allow that number of devices.

    Sizes that are made of the number of devices become other numbers, and all other symbols keep theirs.
    """
    try:
        numbers, symbols = numbers_on(point, mesh), symbols_of(point, there)
        devices = symbols.numbers({name: there.size(name) for name in mesh_axes(point, there)})
        if numbers is None or devices is None:
            return None
        # A dimension that is not split on the mesh of the point has its own size for a symbol there.
        own = {f"{name}_shard": number for name, number in point.case.numbers.items()}
        values = {**own, **numbers, **devices}
        of_symbols = [name for name in point.case.numbers if name in symbols.expressions]
        sizes = {name: value_of(symbols.text(name), values) for name in of_symbols}
        moved = replace(point, case=point.case.at_sizes(sizes))
        return moved if numbers_on(moved, there) is not None else None
    except DeclarationError:  # the declaration does not allow these sizes together, or this mesh
        return None


MOST_ASKED = 3_000
"""How many questions z3 may be asked for the other numbers of a point, some ten seconds."""

SEARCH = 750
"""As how many questions the search for a counterexample counts, where a proof leaves something undecided."""

MOST_REASON = 160
"""The most letters of a reason why a number is left out."""

_AT_MOST = re.compile(r"(?P<size>.+) <= (?P<number>-?\d+)")


@dataclass
class _Axis:
    """What is shown on the numbers of devices of one axis.

    Args:
        proofs: by number, what is shown there.
        left_out: by number on which nothing is shown, why it was not tried.
    """

    name: str
    proofs: dict[int, MeshProof] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)


def on_other_numbers(proofs: MeshProofs, point: PairPoint, mesh: MeshSpec, own: MeshProof, most: int) -> PairProof:
    """Prove a point on other numbers of devices of its mesh; a leaf that is refuted on one of them is refuted."""
    if own.attempt is None or all(leaf.verdict == "different" for leaf in own.proof.leaves):
        return own.proof
    axes = [_Axis(name) for name in mesh.names]
    if own.devices_at is not None:
        why = f"{own.devices_at} asks for the devices of the process"
        for axis in axes:
            axis.proofs[mesh.size(axis.name)] = own
            axis.left_out = {n: why for n in range(1, most + 1) if n != mesh.size(axis.name)}
        return _together(own.proof, axes, most)
    spent, latest = 0, _cost(own)
    is_any_shown = any(for_all(leaf) is not None for leaf in own.proof.leaves)
    for number in in_order(most) if is_any_shown else few(most):
        for axis in axes:
            there = mesh.with_devices(axis.name, number)
            moved = point if there == mesh else point_on(point, mesh, there)
            if moved is None:
                axis.left_out[number] = "the symbols of the sizes do not allow this number"
                continue
            if not is_any_shown and there != mesh:
                axis.proofs[number] = _with_numbers(proofs.fault(moved, there, own), point, moved)
                continue
            others = [axis.proofs[1]] if 1 in axis.proofs else []
            asking = spent + latest <= MOST_ASKED
            shown = own if there == mesh else proofs.on(moved, there, own, others, asking=asking, turn=number)
            if shown is None:
                axis.left_out[number] = "not tried, as other numbers took as many questions as are asked"
                continue
            axis.proofs[number] = _with_numbers(shown, point, moved)
            if shown.asked and there != mesh:
                latest = _cost(shown)
                spent += latest
    return _together(own.proof, axes, most)


def _cost(shown: MeshProof) -> int:
    """Return how many questions a proof asked, with what a search counts for."""
    return shown.asked + (0 if shown.is_shown else SEARCH)


def _with_numbers(shown: MeshProof, point: PairPoint, moved: PairPoint) -> MeshProof:
    """Return what is shown on another number of devices, with the sizes that are other numbers there."""
    before, numbers = point.case.numbers, moved.case.numbers
    changed = {name: str(number) for name, number in numbers.items() if number != before[name]}
    return replace(shown, proof=replace(shown.proof, sizes={**changed, **shown.proof.sizes}))


def _together(own: PairProof, axes: list[_Axis], most: int) -> PairProof:
    """Make one proof of what is shown on a mesh and on other numbers of its devices."""
    elsewhere = _refuted(own, axes)
    leaves, devices = [], {}
    for leaf in _named_leaves(own, elsewhere):
        if leaf.leaf in elsewhere:
            leaves.append(_leaf(elsewhere[leaf.leaf], leaf.leaf))
            continue
        shown = [_shown_on(axis, leaf, most) for axis in axes]
        if for_all(leaf) is not None:
            devices[leaf.leaf] = tuple(shown)
            there = [
                _leaf(axis.proofs[n].proof, leaf.leaf) for axis, d in zip(axes, shown, strict=True) for n in d.numbers
            ]
            conditions = strictest([*leaf.conditions, *(text for other in there for text in other.conditions)])
            leaf = replace(leaf, conditions=conditions)
        leaves.append(leaf)
    return replace(own, leaves=tuple(leaves), devices=devices, elsewhere={**own.elsewhere, **elsewhere})


def _refuted(own: PairProof, axes: list[_Axis]) -> dict[str, PairProof]:
    """Return by leaf that is not refuted on the mesh itself, the proof with the fewest devices that refutes it."""
    known = {leaf.leaf for leaf in own.leaves if leaf.verdict == "different"}
    refuting: dict[str, PairProof] = {}
    for _, proof in sorted(((n, p.proof) for axis in axes for n, p in axis.proofs.items()), key=lambda entry: entry[0]):
        for leaf in proof.leaves:
            if leaf.verdict == "different" and leaf.leaf not in known:
                refuting.setdefault(leaf.leaf, proof)
    return refuting


def _named_leaves(own: PairProof, elsewhere: Mapping[str, PairProof]) -> list[SizesProof]:
    """Return the leaves of a proof; by their names where it has one for all of them and another one has names."""
    if own.leaves[0].leaf != "*" or not elsewhere:
        return list(own.leaves)
    names = [leaf.leaf for leaf in next(iter(elsewhere.values())).leaves]
    return [replace(own.leaves[0], leaf=name) for name in names]


def _leaf(proof: PairProof, name: str) -> SizesProof:
    """Return what a proof says of a leaf."""
    return next((leaf for leaf in proof.leaves if leaf.leaf == name), proof.leaves[0])


def _shown_on(axis: _Axis, leaf: SizesProof, most: int) -> DevicesShown:
    """Return the numbers of an axis on which no less is shown of a leaf than on the mesh, for the same inputs."""
    numbers, reasons = [], dict(axis.left_out)
    for number, shown in sorted(axis.proofs.items()):
        there = _leaf(shown.proof, leaf.leaf)
        why = _less(there, leaf)
        if why is None:
            numbers.append(number)
        else:
            reasons[number] = why
    first = min(reasons, default=None)
    why_not = None if first is None else f"at {axis.name}{first}: {reasons[first]}"
    return DevicesShown(axis.name, tuple(numbers), most, why_not)


def _less(there: SizesProof, leaf: SizesProof) -> str | None:
    """Say why less is shown of a leaf elsewhere; None where it is not less."""
    if for_all(there) is None:
        reason = there.reason
        return reason if len(reason) <= MOST_REASON else f"{reason[: MOST_REASON - 1]}…"
    if leaf.verdict == "proved" and there.verdict != "proved":
        return "the formulas are equal, which does not make the bits equal"
    if set(there.promises) - set(leaf.promises):
        return "it holds there for fewer inputs"
    return None


def strictest(conditions: Iterable[str]) -> tuple[str, ...]:
    """Drop conditions that follow from another one, as `2*rows <= 9` does from `16*rows <= 9`: sizes are at least 1."""
    texts = tuple(dict.fromkeys(conditions))
    sizes = {text: read for text in texts if (read := _at_most(text)) is not None}
    return tuple(
        text
        for text in texts
        if not any(
            text in sizes and other != text and number == sizes[text][1] and _is_more(size, sizes[text][0])
            for other, (size, number) in sizes.items()
        )
    )


def _at_most(condition: str) -> tuple[Polynomial, int] | None:
    """Return the size that is at most a number, and the number; None of any other condition."""
    matched = _AT_MOST.fullmatch(condition)
    try:
        return None if matched is None else (expression(matched["size"]), int(matched["number"]))
    except SamebitsError:  # a condition on more than sizes
        return None


def _is_more(size: Polynomial, other: Polynomial) -> bool:
    """Tell whether a size is another one and more, at all values of its symbols."""
    return size != other and all(factor > 0 for _, factor in (size - other).terms)


ASKS = (" asks for the mesh", " asks for the devices of the process")
"""How the reasons end why a point is proved on one mesh."""


class PairSizes:
    """Proves points of pairs for all sizes; what holds for every number of devices is shown once.

    Args:
        most_fixed: how many sizes of a case may be numbers, where code needs them.
        most_devices: up to which number of devices on each axis of a mesh a proof is asked for, where code asks for it.
    """

    def __init__(self, most_fixed: int = 3, most_devices: int = MOST_DEVICES) -> None:
        self._most_fixed, self._most_devices = most_fixed, most_devices
        self._on_meshes = MeshProofs(most_fixed)
        self._programs: dict[Hashable, Any] = {}
        self._everywhere: dict[tuple[str | None, ...], tuple[PairProof, Family] | str] = {}
        self._one_program: dict[tuple[str | None, ...], PairProof | None] = {}

    def prove(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        """Prove a point on a mesh, in auto mode for every number of devices if its code does not ask for it.

        Where it asks, other numbers of devices on each axis are proved one by one. On one device, what is one program
        has the same bits, whatever it computes.
        """
        point = replace(point, programs=self._programs)
        proof = self._shown(point, mesh)
        if not any(leaf.verdict in ("rounding", "error") for leaf in proof.leaves) or point.case.transform is not None:
            return proof
        if point.key not in self._one_program:
            self._one_program[point.key] = one_program(point, mesh.single, self._most_fixed)
        alone = self._one_program[point.key]
        if alone is not None and mesh.devices == 1 and not any(leaf.verdict == "different" for leaf in proof.leaves):
            return alone
        return proof if alone is None else proof.showing(one_program=True)

    def _shown(self, point: PairPoint, mesh: MeshSpec) -> PairProof:
        if point.case.transform is not None:
            return undecided(f"both sides are under {point.case.transform}")
        if point.variant in point.pair.adapt and set(symbols_of(point).expressions) & set(point.case.statics):
            return undecided("its arguments are adapted, which may compute with static arguments that are sizes")
        if point.mode == "explicit":
            return self._on_mesh(point, mesh, "shardings are part of types in explicit mode")
        if point.key not in self._everywhere:
            # The gradient is that of the program of the other direction, whose code asked already.
            forward = self._everywhere.get(replace(point, direction="forward").key)
            does_ask = isinstance(forward, str) and forward.endswith(ASKS)
            self._everywhere[point.key] = forward if does_ask and forward else self._on_every_mesh(point, mesh)
        everywhere = self._everywhere[point.key]
        if not isinstance(everywhere, str):
            proof, family = everywhere
            if covers(family, point, mesh):
                return proof
            everywhere = "the shapes of the case depend on the mesh by more than sums and products"
        if not mesh.axes and not any(asks in everywhere for asks in ASKS):
            return self._on_mesh(point, mesh, None)
        return self._on_mesh(point, mesh, everywhere)

    def _on_every_mesh(self, point: PairPoint, mesh: MeshSpec) -> tuple[PairProof, Family] | str:
        if point.case.context_meshes:
            return "the mesh is an argument"
        if point.variant in point.pair.adapt and axis_sizes(point.case):
            return "its arguments are adapted, which may compute with the sizes of mesh axes"
        why, general = "", None
        for attempt in attempts(point, SymbolicMesh.over(mesh, point.case, symbols_of(point)), self._most_fixed):
            try:
                with mesh_queries() as queries:
                    program = traced(attempt.functions[1], attempt.family, point.direction)
                if any(equation.primitive.name == "shard_map" for equation in equations(program.closed.jaxpr)):
                    return "it has a mesh of its own"
                reference = traced(attempt.functions[0], attempt.family, point.direction)
            except NotCovered as error:
                why, general = why or str(error), general or attempt
                if _why_one_mesh(queries) is None:
                    continue
            why_mesh = _why_one_mesh(queries) or _why_one_mesh(reference.asked)
            if why_mesh is not None:
                return why_mesh
            if not program.comparisons:
                proof = self._on_meshes.of_programs(attempt, (reference, program), point).proof
                return tried_at_others(proof, point, general, why), attempt.family
            with mesh_queries() as queries:  # the programs of other sizes may ask for it
                proof = proof_of(attempt, prove_all_sizes(*attempt.functions, attempt.family, point.direction))
            why_mesh = _why_one_mesh(queries)
            if why_mesh is not None:
                return f"{why_mesh} at some sizes"
            return tried_at_others(proof, point, general, why), attempt.family
        return why or "there is no size to prove it for"

    def _on_mesh(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> PairProof:
        shown = self._on_meshes.first(point, mesh, why_mesh)
        other = other_devices(shown.devices_at, mesh.devices)
        if other is not None:
            # Where this process has other devices than the mesh, what differs here need not differ there.
            leaves = [
                SizesProof(leaf.leaf, "error", reason=other) if leaf.verdict == "different" else leaf
                for leaf in shown.proof.leaves
            ]
            shown = replace(shown, proof=replace(shown.proof, leaves=tuple(leaves)))
        if not mesh.axes:
            return shown.proof
        return on_other_numbers(self._on_meshes, point, mesh, shown, self._most_devices)


def one_program(point: PairPoint, mesh: MeshSpec, most_fixed: int = 3) -> PairProof | None:
    """Prove that both sides of a point are one program at every size; None where they are not shown to be."""
    if numbers_on(point, mesh) is None:
        return None
    why, general = "", None
    for attempt in attempts(point, mesh, most_fixed):
        declared = attempt.family.at({**(numbers_on(point, mesh) or {}), **attempt.fixed})
        families = attempt.family, declared
        try:
            sides = [[traced(side, family, point.direction) for side in attempt.functions] for family in families]
        except NotCovered as error:  # code needs one more number
            why, general = why or str(error), general or attempt
            continue
        # jax itself chooses other operations for symbols here and there, so the numbers of the case are asked too.
        if any(first.comparisons or second.comparisons for first, second in sides):
            return None
        if not all(same_on_one_device(first.closed, second.closed) for first, second in sides):
            return None
        lowest = tuple(f"{name} >= {low}" for name, low in attempt.family.free.items())
        queries = [query for pair in sides for side in pair for query in side.asked]
        conditions = (*lowest, *conditions_of(queries, point.platform))
        leaves = [SizesProof(leaf, "proved", conditions) for leaf in sides[0][0].outputs]
        proof = proof_of(attempt, leaves).showing(mesh=mesh.id, why_mesh="one device", one_program=True)
        return with_kept(proof, general, why)
    return None


def _why_one_mesh(queries: Sequence[Query]) -> str | None:
    """Say why what asked so is proved on one mesh; None where it asked for the platform alone, which is a condition."""
    for query in queries:
        if query.asks != {"platform"}:
            return f"{query.place}{ASKS['mesh' not in query.asks]}"
    return None
