"""Points of pairs proved for all sizes on one mesh; programs that meshes have in common are proved once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import NotCovered, SamebitsError
from samebits.interpret.inner_equations import equations
from samebits.interpret.interpreter import CALLS
from samebits.numerics.floats import is_float
from samebits.programs.other_sizes import no_sizes
from samebits.prove.mesh_queries import conditions_of, place_of_devices
from samebits.prove.same_program import WrittenProgram, written
from samebits.schema.meshes import MeshSpec
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.proofs.attempts import Attempt, PairPoint, attempts, expression, numbers_on
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.family_proof import (
    PairProof,
    SizesProof,
    for_all,
    proof_of,
    prove_all_sizes,
    tried_at_others,
    undecided,
)
from samebits.sizes.proofs.tracing import Sides, traced
from samebits.sizes.proofs.witnesses import denied, searched

# Whether the programs of a family are those of another family, for some of its sizes: then its proof holds for both.
# Programs that only move their floating-point numbers: what is shown of them in one dtype holds in every other one.
ANY_FLOAT = "any floating-point dtype"

WITH_ZEROS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""The dtypes that share proofs: all have infinities and a zero of each sign, of which narrower ones lack some."""

MOVING = frozenset(
    {"all_gather", "all_gather_invariant", "all_to_all", "broadcast_in_dim", "concatenate", "copy", "copy_p"}
    | {"dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "mesh_cast", "optimization_barrier", "pad"}
    | {"pbroadcast", "ppermute", "pvary", "reshape", "reshard", "rev", "scatter", "select_n", "shard_map"}
    | {"sharding_constraint", "slice", "split", "squeeze", "transpose"}
    # Into a place that no other update has; else a sum, of which formulas are shown and dtypes count as nothing.
    | {"scatter-add"}
    | CALLS.keys()
)
"""What gives floating-point numbers their places and looks at none of them."""


def one_moved_dtype(programs: Iterable[Any]) -> str | None:
    """Return the dtype of `WITH_ZEROS` whose numbers programs only move; None for more, or another float."""
    dtypes: set[str] = set()
    for jaxpr in programs:
        dtypes.update(_floats((*jaxpr.invars, *jaxpr.outvars, *jaxpr.constvars)))
        for equation in equations(jaxpr):
            floats = _floats((*equation.invars, *equation.outvars))
            if floats and equation.primitive.name not in MOVING:
                return None
            dtypes.update(floats)
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= WITH_ZEROS else None


def _floats(variables: Iterable[Any]) -> set[str]:
    dtypes = (getattr(variable.aval, "dtype", None) for variable in variables)
    return {str(dtype) for dtype in dtypes if dtype is not None and is_float(dtype)}


def in_any_float(program: WrittenProgram, dtype: str) -> WrittenProgram | None:
    """Return a program with one word for a dtype whose numbers it only moves; None where it has such constants."""
    text = _in_any_float(program.text, dtype)
    return None if text is None else WrittenProgram(text)


def _in_any_float(text: Any, dtype: str) -> Any:
    """Return a text with one word for its dtype; None where it holds other numbers of it than zeros and plain NaNs.

    Those two are distinguished in every dtype, and so are the places where they stand. A text is of nested tuples, in
    which a constant is `("array", shape, dtype, bytes)` or `("float", "0.0")`.
    """
    if isinstance(text, str):
        return ANY_FLOAT if text == dtype else text
    if not isinstance(text, tuple):
        return text
    if len(text) == 4 and text[0] == "array" and text[2] == dtype:
        return _constant(text[1], dtype, text[3])
    if len(text) == 2 and text[0] == "float" and text[1] not in ("0.0", "nan"):
        return None
    changed = tuple(_in_any_float(part, dtype) for part in text)
    lost = any(after is None and before is not None for before, after in zip(text, changed, strict=True))
    return None if lost else changed


def _constant(shape: Any, dtype: str, data: bytes) -> Any:
    """Return a constant of zeros, or of NaNs as `jnp.nan` is one, in any dtype; None of anything else."""
    if not any(data):
        return "array", shape, ANY_FLOAT, b""
    nan = np.array(np.nan, dtype).tobytes()
    return ("array", shape, ANY_FLOAT, b"NaN") if data == nan * (len(data) // len(nan)) else None


_CONDITION = re.compile(r"(?P<size>.+) (?P<than>>=|<=) (?P<number>-?\d+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def known_by(family: Family, sides: Sides, direction: str) -> Hashable | None:
    """Return what a proof depends on: the shapes and both programs; None where these are not all that code does.

    Programs that only move their floating-point numbers have one key for all dtypes of these.
    """
    texts = [written(side.closed) for side in sides]
    if None in texts or any(side.comparisons or side.asked for side in sides):
        return None
    moved = one_moved_dtype(side.closed.jaxpr for side in sides)
    general = [in_any_float(text, moved) if text and moved else None for text in texts]
    texts, moved = (general, moved) if all(general) else (texts, None)
    shapes = tuple(
        (name, arg.shape, ANY_FLOAT if arg.dtype == moved else arg.dtype, arg.below, arg.equals)
        for name, arg in family.args.items()
    )
    names = tuple((side.inputs, side.outputs) for side in sides)
    return direction, family.platform, tuple(family.free.items()), shapes, family.differentiable, names, tuple(texts)


def as_part(
    general: Attempt, leaves: Sequence[SizesProof], attempt: Attempt, sides: Sides, direction: str
) -> tuple[SizesProof, ...] | None:
    """Move the proofs of a general family to another one whose programs these are; None where that is not shown."""
    values = values_in(general.family, attempt.family)
    if values is None or any(side.comparisons or side.asked for side in sides):
        return None
    try:
        for function, side in zip(general.functions, sides, strict=True):
            again = traced(function, attempt.family, direction)
            text = written(again.closed)
            if again.comparisons or text is None or text != written(side.closed):
                return None
            if (again.inputs, again.outputs) != (side.inputs, side.outputs):
                return None
    except NotCovered:  # it cannot be traced for these sizes, or takes others
        return None
    lowest = _lowest(attempt.family)
    moved = []
    for leaf in leaves:
        conditions = _moved(leaf.conditions, values, set(_lowest(general.family)))
        if conditions is None:
            return None
        moved.append(replace(leaf, conditions=tuple(dict.fromkeys((*lowest, *conditions))), asked=0))
    return tuple(moved)


def values_in(general: Family, family: Family) -> dict[str, Polynomial] | None:
    """Solve for the sizes at which `general` has the shapes of `family`; None if there are none."""
    pairs = _sizes_of_both(general, family)
    if pairs is None:
        return None
    values: dict[str, Polynomial] = {}
    for first, second in pairs:
        if len(first.terms) == 1 and len(first.variables) == 1 and len(first.terms[0][0]) == 1:
            (name,), factor = first.terms[0]
            size = second.quotient(of(factor))
            if size is not None:
                values.setdefault(name, size)
    free = family.free
    for name in general.free:
        if name not in values and name in free:
            values[name] = variable(name)
    if set(values) != set(general.free) or any(first.substitute(values) != second for first, second in pairs):
        return None
    return values if all(_from_on(size, general.free[name], free) for name, size in values.items()) else None


def _sizes_of_both(first: Family, second: Family) -> list[tuple[Polynomial, Polynomial]] | None:
    """Return the sizes of two families beside each other; None where they are not of the same arguments."""
    of_first, of_second = (
        [(name, arg.dtype, len(arg.shape), arg.below is None, arg.equals is None) for name, arg in family.args.items()]
        for family in (first, second)
    )
    names = [{n for n, v in family.statics.items() if isinstance(v, SizeOf)} for family in (first, second)]
    if of_first != of_second or names[0] != names[1] or first.differentiable != second.differentiable:
        return None
    pairs = []
    for name, arg in first.args.items():
        other = second.args[name]
        pairs += [(first.sizes(a), second.sizes(b)) for a, b in zip(arg.shape, other.shape, strict=True)]
        if arg.below is not None and other.below is not None:
            pairs.append((first.sizes(arg.below), second.sizes(other.below)))
        if arg.equals is not None and other.equals is not None:
            pairs.append((first.sizes(arg.equals), second.sizes(other.equals)))
    return pairs + [
        (first.sizes(first.statics[n].text), second.sizes(second.statics[n].text)) for n in sorted(names[0])
    ]


def _from_on(size: Polynomial, low: int, free: Mapping[str, int]) -> bool:
    """Tell whether a size is at least a number at all values of its symbols; it grows with each of them."""
    return all(factor > 0 for monomial, factor in size.terms if monomial) and size.value(free) >= low


def _lowest(family: Family) -> tuple[str, ...]:
    return tuple(f"{name} >= {low}" for name, low in family.free.items())


def _moved(conditions: Sequence[str], values: Mapping[str, Polynomial], left_out: set[str]) -> list[str] | None:
    """Write conditions in the symbols of another family; None where one that changes is not an inequality of sizes."""
    changed = {name for name, size in values.items() if size != variable(name)}
    moved = []
    for condition in conditions:
        if condition in left_out:
            continue
        if changed & set(_NAME.findall(condition)):
            matched = _CONDITION.fullmatch(condition)
            try:
                if matched is None:
                    return None
                size = expression(matched["size"]).substitute(values)
            except SamebitsError:  # a condition on more than sizes
                return None
            condition = f"{size} {matched['than']} {matched['number']}"
        moved.append(condition)
    return moved


@dataclass(frozen=True, slots=True)
class MeshProof:
    """What is shown of a point on a mesh.

    Args:
        attempt: the family that it is for; None where no program could be traced.
        asked: how many questions z3 was asked; 0 where the proof of another mesh holds on this one too.
        operations: of the program of the variant, in order.
        devices_at: the line that asks for the devices of this process, which are then those of no other mesh.
    """

    proof: PairProof
    attempt: Attempt | None = None
    asked: int = 0
    operations: tuple[str, ...] = ()
    devices_at: str | None = None

    @property
    def is_shown(self) -> bool:
        """Tell whether every leaf is shown for all sizes."""
        return all(for_all(leaf) is not None for leaf in self.proof.leaves)


class MeshProofs:
    """Proves points of pairs on meshes, with at most so many sizes of a case as numbers."""

    def __init__(self, most_fixed: int) -> None:
        self._most_fixed = most_fixed
        self._by_program: dict[Hashable, tuple[SizesProof, ...]] = {}
        self._by_point: dict[Hashable, MeshProof] = {}

    def first(self, point: PairPoint, mesh: MeshSpec, why_mesh: str | None) -> MeshProof:
        """Prove a point for the devices of its mesh, with as few sizes as numbers as its code allows."""
        why, general = "", None
        if numbers_on(point, mesh) is None:
            return MeshProof(undecided(f"no value of the symbols gives the sizes of the case and of mesh {mesh.id}"))
        for attempt in attempts(point, mesh, self._most_fixed):
            try:
                sides = _traced(attempt, point)
            except NotCovered as error:
                why, general = why or str(error), general or attempt
                continue
            key = _name_of(point, mesh, attempt)
            if key not in self._by_point:
                shown = self.of_programs(attempt, sides, point)
                self._by_point[key] = replace(shown, proof=tried_at_others(shown.proof, point, general, why))
            return _named(self._by_point[key], mesh, why_mesh)
        nothing = undecided(why or no_sizes(point.pair, point.case, mesh))
        tried = tried_at_others(nothing, point, general, why)
        return _named(MeshProof(tried), mesh, why_mesh) if tried.elsewhere else MeshProof(nothing)

    def of_programs(self, attempt: Attempt, sides: Sides, point: PairPoint) -> MeshProof:
        """Prove two programs; of the same ones, in this or in another dtype that they only move, it is shown once."""
        program = known_by(attempt.family, sides, point.direction)
        known = self._known(attempt, sides, program)
        # Code may do otherwise in this dtype in ways that tracing does not see, so this one is tried too.
        if known is not None and not denied(attempt.functions, attempt.family, point.direction)[0]:
            return known
        return self._proved(attempt, sides, point, program)

    def on(
        self, point: PairPoint, mesh: MeshSpec, like: MeshProof, others: Sequence[MeshProof], *, asking: bool, turn: int
    ) -> MeshProof | None:
        """Prove a point on another mesh than its own; None where that needs a proof of its own and none is asked for.

        Args:
            point, mesh: with its sizes on that mesh.
            like: what is shown on the mesh of the point: the same sizes are numbers there.
            others: what is shown on meshes whose programs may be these, for more sizes.
            asking: whether it is proved by itself where no other proof holds for it.
            turn: which concrete size what is proved is tried at (see `denied`).
        """
        try:
            attempt = self._alike(point, mesh, like)
            if attempt is None:
                return MeshProof(undecided("other sizes are numbers there"))
            key = _name_of(point, mesh, attempt)
            if key not in self._by_point:
                sides = _traced(attempt, point)
                program = known_by(attempt.family, sides, point.direction)
                proof = self._known(attempt, sides, program) or _by_others(attempt, sides, point, others)
                if proof is None and not asking:
                    return None
                self._by_point[key] = proof or self._proved(attempt, sides, point, program, turn)
        except SamebitsError as error:  # of tracing, or of a declaration that does not have this mesh
            return MeshProof(undecided(str(error)))
        return _named(self._by_point[key], mesh, like.proof.shown.why_mesh)

    def fault(self, point: PairPoint, mesh: MeshSpec, like: MeshProof) -> MeshProof:
        """Look for a fault on another mesh, at concrete sizes alone; what is not refuted there is undecided."""
        nothing = MeshProof(undecided("nothing is shown on the mesh of the point, and no fault was met here"))
        try:
            attempt = self._alike(point, mesh, like)
            if attempt is None:
                return nothing
            key = "fault", _name_of(point, mesh, attempt)
            if key not in self._by_point:
                self._by_point[key] = _refuted(attempt, point) or nothing
        except SamebitsError:  # of a declaration that does not have this mesh
            return nothing
        return _named(self._by_point[key], mesh, like.proof.shown.why_mesh)

    def _alike(self, point: PairPoint, mesh: MeshSpec, like: MeshProof) -> Attempt | None:
        """Return the family in which the same sizes are numbers; None where there is none."""
        fixed = _sizes_of(like.proof.shown.fixed)
        return next((a for a in attempts(point, mesh, self._most_fixed) if _sizes_of(a.fixed) == fixed), None)

    def _known(self, attempt: Attempt, sides: Sides, program: Hashable | None) -> MeshProof | None:
        """Return the proof of another point or mesh that has the same programs of the same shapes (`known_by`)."""
        leaves = None if program is None else self._by_program.get(program)
        return None if leaves is None else MeshProof(proof_of(attempt, leaves), attempt, 0, _operations(sides))

    def _proved(
        self, attempt: Attempt, sides: Sides, point: PairPoint, program: Hashable | None, turn: int | None = None
    ) -> MeshProof:
        leaves = tuple(prove_all_sizes(*attempt.functions, attempt.family, point.direction, sides=sides, turn=turn))
        if program is not None and all(leaf.verdict != "different" for leaf in leaves):
            self._by_program[program] = leaves
        known = [*conditions_of((query for side in sides for query in side.asked), attempt.family.platform)]
        place = place_of_devices([*known, *(text for leaf in leaves for text in leaf.conditions)])
        spent = sum(leaf.asked for leaf in leaves)
        return MeshProof(proof_of(attempt, leaves), attempt, spent, _operations(sides), place)


def _operations(sides: Sides) -> tuple[str, ...]:
    """Name the operations of the variant: programs of which these are not the same need no closer look."""
    return tuple(equation.primitive.name for equation in equations(sides[1].closed.jaxpr))


def _sizes_of(symbols: Iterable[str]) -> set[str]:
    """Return the sizes that symbols stand for: in explicit mode, that of a split dimension is of one part."""
    return {symbol.removesuffix("_shard") for symbol in symbols}


def _traced(attempt: Attempt, point: PairPoint) -> Sides:
    first, second = (traced(function, attempt.family, point.direction) for function in attempt.functions)
    return first, second


def _refuted(attempt: Attempt, point: PairPoint) -> MeshProof | None:
    """Refute a point at concrete sizes; None where the sides differ at none of those that are tried."""
    sizes, differing = searched(attempt.functions, attempt.family, point.direction)
    if not differing:
        return None
    outputs = traced(attempt.functions[0], attempt.family.at(sizes), point.direction).outputs
    leaves = [
        SizesProof(leaf, "different", sizes=sizes, reason=differing[leaf])
        if leaf in differing
        else SizesProof(leaf, "error", reason="no fault was met here")
        for leaf in outputs
    ]
    return MeshProof(proof_of(attempt, leaves), attempt)


def _by_others(attempt: Attempt, sides: Sides, point: PairPoint, others: Sequence[MeshProof]) -> MeshProof | None:
    """Return the proof of another mesh that has the same programs, for more sizes than these."""
    operations = _operations(sides)
    for other in others:
        if other.attempt is not None and other.is_shown and other.operations == operations:
            leaves = as_part(other.attempt, other.proof.leaves, attempt, sides, point.direction)
            if leaves is not None:
                return MeshProof(proof_of(attempt, leaves), attempt, 0, operations)
    return None


def _named(shown: MeshProof, mesh: MeshSpec, why_mesh: str | None) -> MeshProof:
    """Name the mesh for which something is shown."""
    return replace(shown, proof=shown.proof.on_mesh(mesh.id if mesh.axes or why_mesh else None, why_mesh))


def _name_of(point: PairPoint, mesh: MeshSpec, attempt: Attempt) -> Hashable:
    """Return a point with its sizes and its mesh."""
    return (*point.key, mesh.id, tuple(point.case.numbers.items()), tuple(attempt.fixed.items()))
