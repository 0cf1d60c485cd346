"""Smaller arrays that stand for large ones: where both programs are the same but for their sizes.

In: a point whose arrays are large. Out: the same point at smaller sizes, with proofs and searches of its own. What it
shows of the formulas is printed as such. Large arrays are executed all the same, and compared with float64.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.check.line_evidence import LineFinder
from samebits.check.other_inputs import Searches
from samebits.check.point_proofs import PointProofs
from samebits.errors import SamebitsError
from samebits.host.cache_keys import ByIdentity
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.inner_equations import equations
from samebits.interpret.other_values import Counterexample
from samebits.interpret.problem import Question
from samebits.programs.asked import Asked, recorded
from samebits.programs.inputs import arg_shape
from samebits.programs.program_cache import Program
from samebits.programs.sides import TracedSides
from samebits.prove.prover import Unproved
from samebits.schema.argument_trees import ArgTree
from samebits.schema.assumption import Assumption
from samebits.schema.case import Arg, Case
from samebits.schema.line_difference import NamedLines
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Given, Integers

SIZES = "sizes"
"""The kind of what is assumed where formulas are shown at smaller sizes."""

LARGE = 1 << 15
"""Elements of the largest value of a program from which smaller sizes are tried: below, all is a matter of seconds."""

LEAST = (8, 32, 128, 512, 2048)
"""Sizes that are tried for a larger one, each as the next divisor of it: code may have a block length."""

TRACED = 24
"""How many combinations of sizes are traced at most."""

STEPS = 2
"""Steps of a scan and of a dimension of a kernel's grid that smaller sizes leave at least, where there are as many."""

Dimension = tuple[str, int]
"""An argument and the number of one of its dimensions."""

Smaller = Mapping[Dimension, int]
"""The dimensions that are made smaller, and their sizes."""

Lengths = Mapping[int, int]
"""What they are made of, and their sizes."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A point at smaller sizes.

    Args:
        proofs, searches, finder: of the pair at these sizes.
        words: which size stands for which, as `512 as 8`.
    """

    job: PendingPoint
    proofs: PointProofs
    searches: Searches
    finder: LineFinder
    words: str

    def no_movement(self) -> Unproved | None:
        """Return why labels do not follow both sides here, as they then do not at larger sizes; None where they do."""
        with _unrecorded():
            proof = self.proofs.prover.movement(next(iter(self.proofs.questions(self.job).values())))
        return proof if isinstance(proof, Unproved) else None

    def field_identity(self, path: str) -> FieldIdentity | None:
        """Return whether a leaf is the same formula on both sides, as it is here; None where that is not decided."""
        with _unrecorded():
            known = self.proofs.field_identity(self.job, path)
        if not isinstance(known, FieldIdentity) or known.undecided:
            return None
        witness = None if known.equal else f"{known.witness} (with smaller arrays: {self.words})"
        sizes = Assumption(
            SIZES,
            f"formulas are shown with smaller arrays ({self.words}), whose programs are the same but for sizes",
            "a program does something else from a larger size on, and no more than rounding hides it at these arrays",
        )
        return replace(known, witness=witness, at=None, assumptions=(*known.assumptions, sizes))

    def identities(self) -> dict[str, FieldIdentity]:
        """Return the same of every leaf; nothing where one is not decided."""
        with _unrecorded():
            question = next(iter(self.proofs.questions(self.job).values()))
        known = {path: self.field_identity(path) for path in question.outputs}
        return {path: each for path, each in known.items() if each is not None} if all(known.values()) else {}

    def lines(self, path: str, label: str | None, other: Question | None = None, **known: Any) -> NamedLines:
        """Name the lines that make a leaf differ here, as `LineFinder.lines`."""
        with _unrecorded():
            return self.finder.lines(self.job, path, label, other, **known)

    def elsewhere(self, path: str) -> Counterexample | None:
        """Return other inputs at these sizes at which a leaf differs, if any are known."""
        with _unrecorded():
            other = self.searches.counterexample(self.job, path)
        return None if other is None else replace(other, words=f"{other.words} (with smaller arrays: {self.words})")


def _unrecorded() -> contextlib.AbstractContextManager[None]:
    """Record nothing that is asked inside: it is the large programs that a remembered result depends on."""
    return recorded(Asked())


def is_smaller(identity: FieldIdentity | Unproved) -> bool:
    """Return whether formulas were compared at smaller sizes, which float64 has to confirm at those of the point."""
    return isinstance(identity, FieldIdentity) and any(each.word == SIZES for each in identity.assumptions)


class SmallerSizes:
    """Finds smaller sizes for the points of one pair.

    Args:
        proofs_of: gives the proofs of other sides, and the searches for other inputs.
    """

    def __init__(self, execution: Execution, proofs_of: Callable[[TracedSides], tuple[PointProofs, Searches]]) -> None:
        self._execution, self._proofs_of = execution, proofs_of
        self._known: dict[tuple[object, ...], StandIn | None] = {}

    def of(self, job: PendingPoint) -> StandIn | None:
        """Return a point at smaller sizes; None where its arrays are small, or nothing smaller is the same program."""
        sides, point = self._execution.sides, job.point
        if job.on_mesh.on_mesh or job.alone.case.transform is not None or sides.programs.group or sides.state.is_shared:
            return None
        traced = self._programs(self._execution, job)
        if any(program.error is not None for program in traced):
            return None
        programs = [program.traced.jaxpr for program in traced]
        if max(map(largest, programs)) < LARGE:
            return None
        key = ByIdentity(job.alone.case), point.dtype, point.mesh, point.mode, point.variant
        with _unrecorded():
            try:
                if key not in self._known:
                    self._known[key] = self._searched(job)
                smallest = self._known[key]
                return None if smallest is None else self._at(job, programs, smallest)
            except SamebitsError:  # a smaller trace may raise anything that the user's code does
                return None

    def _at(self, job: PendingPoint, programs: Sequence[Any], smallest: StandIn) -> StandIn | None:
        """Return a point at the sizes of another of its variant; None where its programs are others there."""
        own = self._programs(smallest.proofs.execution, job)
        if any(program.error is not None for program in own):
            return None
        if not all(same_but_for_sizes(a, b.traced.jaxpr) for a, b in zip(programs, own, strict=True)):
            return None
        start = smallest.proofs.execution.sides.programs.start
        smaller = dict(zip(("alone", "variant"), map(start, own), strict=True)) if job.programs else {}
        return replace(smallest, job=replace(job, programs=smaller, movement=None, proved=None, asked=Asked()))

    def _programs(self, execution: Execution, job: PendingPoint) -> list[Program]:
        """Return the programs of the reference alone and of the variant."""
        return [execution.program(*end, job.point.direction) for end in execution.ends(job)]

    def _searched(self, job: PendingPoint) -> StandIn | None:
        """Return what proves the pair at the smallest sizes at which both sides trace to the same program forward."""
        sides = self._execution.sides
        shapes = {name: arg_shape(arg, name, job.alone.case) for name, arg in sides.args(job.alone).items()}
        best: _Reduced | None = None
        for candidates in _families(shapes):
            other = self._reduced(job, candidates)
            best = other if best is None or (other is not None and other.largest < best.largest) else best
            if best is not None and best.largest < LARGE:
                break
        if best is None:
            return None
        sizes = dict.fromkeys(f"{shapes[name][axis]} as {size}" for (name, axis), size in best.sizes.items())
        proofs, searches = self._proofs_of(best.sides)
        return StandIn(job, proofs, searches, LineFinder(proofs), ", ".join(sizes))

    def _reduced(self, job: PendingPoint, candidates: Iterable[Smaller]) -> _Reduced | None:
        """Return the pair at as many of some smaller sizes as leave both programs the same but for sizes."""
        sides, at = self._execution.sides, (job.alone, job.on_mesh)
        names = self._execution.pair.reference_name, job.point.variant
        wanted = [sides.forward(name, site).traced.jaxpr for name, site in zip(names, at, strict=True)]
        best: _Reduced | None = None
        tries = 0
        for sizes in candidates:
            before: Smaller = {} if best is None else best.sizes
            pair = None
            if not before.keys() & sizes.keys():
                pair = at_dimensions(sides.pair, job.alone.case, job.alone.mesh, {**before, **sizes})
            if pair is None:
                continue
            tries += 1
            if tries > TRACED:
                break
            smaller = TracedSides(pair, sides.programs)
            own = [smaller.forward(name, site) for name, site in zip(names, at, strict=True)]
            if any(program.error is not None for program in own):
                continue
            programs = [program.traced.jaxpr for program in own]
            if all(map(same_but_for_sizes, wanted, programs)):
                best = _Reduced(smaller, {**before, **sizes}, max(map(largest, programs)))
        return best


class _Reduced(NamedTuple):
    """A pair at smaller sizes, and the elements of its largest value."""

    sides: TracedSides
    sizes: Smaller
    largest: int


def _families(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Iterable[Smaller]]:
    """Yield what may be made smaller together: each size by itself; by one factor all, or all but one, and then this.

    Code that splits one dimension by another needs their ratio, and its blocks have a length of their own.
    """
    yield _candidates(shapes)
    yield _by_one_factor(_dimensions(shapes))
    for size in sorted({size for shape in shapes.values() for size in shape if size > 1}):
        of_size = {each: length for each, length in _dimensions(shapes).items() if length == size}
        others = {each: length for each, length in _dimensions(shapes).items() if length != size}
        yield (*_by_one_factor(others), *(dict.fromkeys(of_size, smaller) for smaller in _smaller(size)))


def _dimensions(shapes: Mapping[str, tuple[int, ...]]) -> dict[Dimension, int]:
    return {(name, axis): size for name, shape in shapes.items() for axis, size in enumerate(shape)}


def _candidates(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Smaller]:
    """Yield a smaller size for the dimensions of one size: for all, then, as a number may mean two things, for each."""
    by_size: dict[int, list[Dimension]] = {}
    for dimension, size in _dimensions(shapes).items():
        by_size.setdefault(size, []).append(dimension)
    for size in sorted(by_size, reverse=True):
        for smaller in _smaller(size):
            yield dict.fromkeys(by_size[size], smaller)
        if len(by_size[size]) > 1:
            yield from ({dimension: smaller} for dimension in by_size[size] for smaller in _smaller(size)[:2])


def _by_one_factor(dimensions: Mapping[Dimension, int]) -> Iterator[Smaller]:
    """Yield all dimensions that a power of two divides without making them one, divided by it; the largest first."""
    for factor in (1 << power for power in range(11, 0, -1)):
        sizes = {each: size // factor for each, size in dimensions.items() if size % factor == 0 and size > factor}
        if len(set(sizes.values())) > 1:
            yield sizes


def _smaller(size: int) -> list[int]:
    """Return smaller sizes for one: divisors of it, or of a prime a smaller one."""
    if size <= 2 * LEAST[0]:
        return []
    divisors = [number for number in range(2, min(size // 2, 4096) + 1) if size % number == 0]
    if not divisors:
        return [11]
    above = (next((d for d in divisors if d >= least), None) for least in LEAST)
    return [number for number in dict.fromkeys((*above, divisors[-1])) if number is not None]


def at_dimensions(pair: Pair, case: Case, mesh: MeshSpec, sizes: Smaller) -> Pair | None:
    """Return a pair in which a case has smaller arguments; None where a declaration does not say what they are then.

    Args:
        sizes: of dimensions of its arguments, by the path of their leaves.
    """

    def shrunk(declared: Case, mesh: MeshSpec) -> dict[str, ArgTree]:
        trees = pair.argument_trees(declared, mesh)
        if declared.id != case.id:
            return trees
        return {
            name: replace(
                tree,
                args=tuple(
                    _shrunk(arg, name + path, case, sizes, lengths)
                    for path, arg in zip(tree.paths, tree.args, strict=True)
                ),
            )
            for name, tree in trees.items()
        }

    args = pair.arguments(case, mesh)
    lengths = {arg_shape(args[name], name, case)[axis]: size for (name, axis), size in sizes.items()}
    if any(_is_lost(arg, lengths) for arg in args.values()):
        return None
    return replace(pair, args=shrunk)


def _shrunk(arg: Arg, name: str, case: Case, sizes: Smaller, lengths: Lengths) -> Arg:
    shape = tuple(sizes.get((name, axis), size) for axis, size in enumerate(arg_shape(arg, name, case)))
    values = arg.values
    if isinstance(values, Given):
        array = np.asarray(values.array)
        end = _end(array, lengths)
        array = array[tuple(map(slice, shape))]
        # What may index a dimension that is smaller now indexes it still; -100 and the like stay what they are.
        values = replace(values, array=array if end is None else np.where(array >= end, array % end, array))
    if isinstance(values, Integers):
        end = _end(np.array(values.high - 1), lengths)
        values = values if end is None else replace(values, high=min(values.high, max(end, values.low + 1)))
    return replace(arg, shape=shape, values=values)


def _end(array: np.ndarray[Any, Any], lengths: Lengths) -> int | None:
    """Return where integers end that may index a dimension which is smaller now; None where they index none."""
    if array.dtype.kind not in "iu" or not array.size:
        return None
    return min((size for length, size in lengths.items() if np.max(array) < length), default=None)


def _is_lost(arg: Arg, lengths: Lengths) -> bool:
    """Return whether nothing says what an argument is at smaller sizes, as of lengths that add up to one."""
    values = arg.values
    if isinstance(arg.below, str) or isinstance(arg.equals, str) or callable(values):
        return True
    if isinstance(values, Integers):
        return bool(values.also)
    integers = np.asarray(values.array) if isinstance(values, Given) else np.zeros(0)
    counts = {int(integers.sum()), int(np.max(integers, initial=0))} if integers.dtype.kind in "iu" else set()
    return bool(counts & set(lengths))


def largest(program: Any) -> int:
    """Return how many elements the largest value of a closed jaxpr has."""
    variables = [*program.jaxpr.invars, *(var for eqn in equations(program.jaxpr) for var in eqn.outvars)]
    return max((math.prod(getattr(var.aval, "shape", ())) for var in variables), default=0)


def same_but_for_sizes(first: Any, second: Any) -> bool:
    """Return whether two programs have the same equations between the same variables, whatever the sizes.

    Args:
        first, second: jaxprs, closed or not; the second has the smaller sizes, none of which is 1 where the first has
            more, since a dimension of 1 is broadcast, and several steps of scans and of kernels' grids as the first.
    """
    large, small = (getattr(program, "jaxpr", program) for program in (first, second))
    lists = [(large.invars, small.invars), (large.constvars, small.constvars)]
    if any(len(left) != len(right) for left, right in lists) or len(large.eqns) != len(small.eqns):
        return False
    if not _same_constants(getattr(first, "consts", ()), getattr(second, "consts", ())):
        return False
    numbers: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
    for left, right in (*zip(*lists[0], strict=True), *zip(*lists[1], strict=True)):
        numbers[0][left] = numbers[1][right] = len(numbers[0])
    for left, right in zip(large.eqns, small.eqns, strict=True):
        if left.primitive is not right.primitive or len(left.outvars) != len(right.outvars):
            return False
        if not _same_variables(left.invars, right.invars, numbers) or not _same_parameters(left.params, right.params):
            return False
        if left.primitive.name == "pallas_call" and not _keeps_steps(left, right):
            return False
        if left.primitive.name == "scan" and right.params["length"] < min(left.params["length"], STEPS):
            return False
        for out, own in zip(left.outvars, right.outvars, strict=True):
            if out.aval.dtype != own.aval.dtype or not _same_dimensions(out.aval.shape, own.aval.shape):
                return False
            numbers[0][out] = numbers[1][own] = len(numbers[0])
    return _same_variables(large.outvars, small.outvars, numbers)


def _same_dimensions(large: Sequence[int], small: Sequence[int]) -> bool:
    """Return whether shapes have as many dimensions, and are 1 in the same ones."""
    return len(large) == len(small) and all((a == 1) == (b == 1) for a, b in zip(large, small, strict=True))


def _keeps_steps(left: Any, right: Any) -> bool:
    """Return whether a kernel has several steps still, and whole blocks where it had."""
    large, small = (each.params["grid_mapping"] for each in (left, right))
    steps = [each for each in zip(large.grid, small.grid, strict=True) if all(isinstance(size, int) for size in each)]
    whole = (all(_is_whole(mapping)) for mapping in small.block_mappings)
    were_whole = (all(_is_whole(mapping)) for mapping in large.block_mappings)
    return all(new >= min(old, STEPS) for old, new in steps) and all(
        now or not before for now, before in zip(whole, were_whole, strict=True)
    )


def _is_whole(mapping: Any) -> Iterator[bool]:
    """Yield for each dimension of an array whether its blocks divide it."""
    array = getattr(mapping, "array_aval", None) or mapping.array_shape_dtype  # of older versions of jax
    for size, block in zip(array.shape, mapping.block_shape, strict=False):
        length = getattr(block, "block_size", block)
        yield not isinstance(length, int) or size % length == 0


def _same_variables(left: Sequence[Any], right: Sequence[Any], numbers: tuple[dict[Any, int], dict[Any, int]]) -> bool:
    """Return whether operands are the same variables; of literals, of the same dtype: numbers may be made of sizes."""
    if len(left) != len(right):
        return False
    for var, own in zip(left, right, strict=True):
        if hasattr(var, "val") != hasattr(own, "val"):
            return False
        if hasattr(var, "val"):
            if var.aval.dtype != own.aval.dtype:
                return False
        elif numbers[0][var] != numbers[1][own]:
            return False
    return True


def _same_constants(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(
        a is b or (np.shape(a) == np.shape(b) and np.array_equal(a, b)) for a, b in zip(left, right, strict=True)
    )


def _same_parameters(left: Any, right: Any) -> bool:
    """Return whether parameters of an equation are the same but for numbers, which may be sizes."""
    if hasattr(getattr(left, "jaxpr", left), "eqns"):
        return hasattr(getattr(right, "jaxpr", right), "eqns") and same_but_for_sizes(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(_same_parameters(left[name], right[name]) for name in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(_same_parameters, left, right))
    if is_dataclass(left) and not isinstance(left, type):  # what kernels are called with
        return all(_same_parameters(getattr(left, each.name), getattr(right, each.name)) for each in fields(left))
    if hasattr(left, "dtype") and hasattr(left, "shape") and not isinstance(left, np.ndarray | np.generic):
        return bool(left.dtype == right.dtype) and len(left.shape) == len(right.shape)
    if callable(left) or hasattr(left, "call_wrapped"):  # a function, or how jax holds that of a derivative
        return True
    if isinstance(left, int | np.integer | np.ndarray) and not isinstance(left, bool):
        return True
    return bool(left == right) or (left != left and right != right)  # which NaN is, such as what a gather fills with
