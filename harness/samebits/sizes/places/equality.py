"""Two programs at every place of an output: the same element there, or a doubt with what holds of the place."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from samebits.errors import NotCovered
from samebits.sizes.formulas.formula import NoFormula, reached
from samebits.sizes.formulas.normal_form import (
    ALIKE,
    FINITE,
    NormalForms,
    equal_answers,
    is_sum,
    says_infinite,
    stands_for,
)
from samebits.sizes.formulas.signs import says_negative
from samebits.sizes.places.demand import WIDER, Index
from samebits.sizes.places.evaluation import Evaluation
from samebits.sizes.places.facts import (
    Carried,
    Element,
    Facts,
    Integer,
    MapPiece,
    Number,
    Pieces,
    Reduction,
    Source,
    Term,
    Whole,
    WholeResult,
    parts_of,
    variables_in,
)
from samebits.sizes.places.linear_questions import LimitReached
from samebits.sizes.places.loops import Scan, as_result, is_carried
from samebits.sizes.places.space import CutIndex, Space

# Whether rounding decides which element stands at a place: an index or a condition that is computed of floats.
_EXACT = frozenset(
    {"abs", "and", "ceil", "clamp", "eq", "floor", "ge", "gt", "is_finite", "le", "lt", "max", "min", "ne", "neg"}
    | {"not", "or", "population_count", "round", "shift_left", "shift_right_logical", "sign", "xor"}
)
"""Operations on elements that round nothing, of floats either."""

_SELECTING = frozenset(
    {"argmax", "argmin", "cummax", "cummin", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_xor"}
    | {"sort", "top_k"}
)
"""Operations on whole arrays that only compare their elements."""

_WHOLE_NUMBERS = ("bool", "int", "uint")


def rounding_decides(space: Space, facts: Facts, sources: Iterable[Source]) -> bool:
    """Tell whether what stands at a place is selected by numbers that are rounded."""
    names = {name for fact in facts for name in fact.polynomial.variables}
    names |= {name for source in sources for name in variables_in(source)}
    return any(
        _computed_of_floats(space, space.sources[name]) for name in reached(space, names) if name in space.sources
    )


def _computed_of_floats(space: Space, source: Source) -> bool:
    """Tell whether a number is the result of arithmetic on floats, or is selected by one that is."""
    match source:
        case Integer() | Number() | Element():
            return False  # of an element's index the names are reached too
        case Term(operation=operation, operands=operands):
            return not _is_exact(operation) or any(_computed_of_floats(space, operand) for operand in operands)
        case Reduction(kind=kind, dtype=dtype, pieces=pieces):
            return (kind == "sum" and not dtype.startswith(_WHOLE_NUMBERS)) or _any_rounded(space, pieces)
        case WholeResult(operation=operation, operands=wholes):
            return not _selects(operation) or any(_any_rounded(space, whole.pieces) for whole in wholes)
    return True


def _any_rounded(space: Space, pieces: Sequence[MapPiece]) -> bool:
    return any(
        rounding_decides(space, piece.facts, [piece.source]) or _computed_of_floats(space, piece.source)
        for piece in pieces
    )


def _is_exact(operation: str) -> bool:
    """Tell whether an operation on elements is exact: of whole numbers, a comparison, or a cast that loses nothing."""
    if operation.startswith(WIDER):
        return True
    before, _, after = operation.partition(" to ")
    if after:
        return before.startswith(_WHOLE_NUMBERS) and after.startswith(_WHOLE_NUMBERS)
    return operation.partition("[")[0] in _EXACT or operation.rpartition(":")[2].startswith(_WHOLE_NUMBERS)


def _selects(operation: str) -> bool:
    """Tell whether an operation on whole arrays only moves or compares what it takes, in an order that is said."""
    name, dtype = operation.partition("[")[0], operation.rpartition(":")[2]
    if "is_stable=False" in operation:
        return False
    return (
        name in _SELECTING or name.removeprefix("inverse ").startswith("order of") or dtype.startswith(_WHOLE_NUMBERS)
    )


CUTS = 64
"""The most cuts of an output's indices."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place where two programs are not shown to agree, and what they have there."""

    facts: Facts
    index: Index
    first: Source
    second: Source

    def __str__(self) -> str:
        where = " and ".join(map(str, self.facts)) or "everywhere"
        place = ", ".join(map(str, self.index))
        return f"[{place}] is {self.first} in the reference and {self.second} in the variant, where {where}"


@dataclass(frozen=True, slots=True)
class OutputAgreement:
    """What was compared of an output.

    Args:
        pieces: how many pairs of pieces.
        moved: whether an element of an input, or what is computed of one, was among them.
        computed: whether a result of arithmetic was among them, or decided which element stands there.
        assumed: what is assumed of the values.
    """

    pieces: int
    moved: bool
    computed: bool
    assumed: tuple[str, ...] = ()


def compare(space: Space, first: Evaluation, second: Evaluation, number: int, shape: Index) -> Doubt | OutputAgreement:
    """Hold an output of two programs against each other, at every place.

    Raises:
        NotCovered: an equation has no rule here.
    """
    for _ in range(CUTS):
        index = tuple(space.index(name, n) for name, n in zip(_names_of_axes(space), shape, strict=False))
        space.scans.begin(functools.partial(_same_loops, space))
        try:
            sides = [side.output(number, index) for side in (first, second)]
            return _compared(space, index, sides[0], sides[1], first.output_dtype(number))
        except CutIndex as request:
            space.cut(request)
    raise NotCovered(f"the places of output {number} are cut more than {CUTS} times")


def _names_of_axes(space: Space) -> Iterator[str]:
    """Return names of indices: i, j, ... without those that sizes have."""
    names = (f"{letter}{number or ''}" for number in itertools.count() for letter in "ijklmnop")
    return (name for name in names if name not in space.lowest)


def _compared(space: Space, index: Index, first: Pieces, second: Pieces, dtype: str) -> Doubt | OutputAgreement:
    for side in (first, second):
        if not space.covered_by(piece.facts for piece in side):
            raise NotCovered("the cases of an output are not shown to be all that there are")
    count, moved, computed = 0, False, False
    formulas = _Formulas(space, dtype)
    are_several = len({piece.source for piece in first}) > 1
    for piece in first:
        for other in second:
            facts = space.simplified((*piece.facts, *other.facts))
            if facts is None or space.contradicts(facts):
                continue
            count += 1
            moved = moved or _depends_on_inputs(space, facts if are_several else (), piece.source)
            both = piece.source, other.source
            computed = computed or any(map(is_computed, both)) or rounding_decides(space, facts, both)
            if same(space, facts, piece.source, other.source):
                continue
            # Sums of integers are exact: equal over the integers, they have the same bits.
            computed = computed or not formulas.has_sums_of_integers(both)
            if not formulas.same(facts, piece.source, other.source):
                return Doubt(facts, index, piece.source, other.source)
            computed = computed or formulas.over_reals
    alike = _compares_carried(space)
    assumed = dict.fromkeys([*formulas.assumed, *([ALIKE] if alike else [])])
    return OutputAgreement(count, moved, computed or alike, tuple(assumed))


def _depends_on_inputs(space: Space, facts: Facts, source: Source) -> bool:
    """Tell whether a source is of an element of an input, or stands there by the value of one."""
    integers = [fact.polynomial for fact in facts] + ([source.value] if isinstance(source, Integer) else [])
    return isinstance(source, Element | Term | WholeResult | Reduction | Carried) or any(
        not integer.variables.isdisjoint(space.sources) for integer in integers
    )


def _compares_carried(space: Space) -> bool:
    """Tell whether numbers that two loops carry alike are compared, which has one answer but for rounding."""
    terms = [source for source in space.sources.values() if isinstance(source, Term)]
    return space.scans.shared and any(is_carried(part) for term in terms for part in parts_of(term))


class _Formulas:
    """Shows that sources are one formula over the reals: without assumptions first.

    Sums of integers are followed in the dtype of the output alone: one that wraps around in a narrower dtype and is
    widened then is not the sum of its parts.
    """

    def __init__(self, space: Space, dtype: str) -> None:
        self._space, self._dtype = space, dtype
        self._forms = [NormalForms(space, same, finite) for finite in (False, True)]
        self._standing = [NormalForms(space, same, finite, standing=True) for finite in (False, True)]
        self._unfolded = NormalForms(space, same, unfolded=True)
        self._every = (*self._forms, self._unfolded, *self._standing)
        self._alike: dict[str, None] = {}
        self._without_nan = False

    @property
    def assumed(self) -> list[str]:
        """Return what was assumed of values."""
        return [*(note for forms in self._every for note in forms.notes), *self._alike]

    @property
    def over_reals(self) -> bool:
        """Tell whether an answer of a comparison was taken for the one that it has over the reals."""
        return self._without_nan or bool(self._alike) or any(forms.over_reals for forms in self._every)

    def same(self, facts: Facts, first: Source, second: Source) -> bool:
        """Tell whether both are shown to be one formula, where facts hold."""
        if self._shown(facts, first, second):
            return True
        plain = self._forms[0]
        answers = equal_answers(self._space, facts, (first, second), lambda a, b: self._equal(plain, facts, a, b))
        known = (*facts, *answers)
        if not answers or not (self._space.contradicts(known) or self._shown(known, first, second)):
            return False
        self._alike[ALIKE] = None
        return True

    def _shown(self, facts: Facts, first: Source, second: Source) -> bool:
        if self.has_sums_of_integers((first, second)):
            return self._equal(self._forms[0], facts, first, second, are_integers=True)
        if not any(isinstance(source, Term | Reduction | Carried) for source in (first, second)):
            return False
        if says_negative(self._space, facts):
            self._without_nan = True
            return True
        if says_infinite(self._space, facts):
            self._forms[1].note(FINITE)
            return True
        if any(self._equal(forms, facts, first, second) for forms in self._forms):
            return True
        # Quotients of exponentials make long formulas: only where one side has another function in the place of tanh.
        has_tanh = [any(map(_is_tanh, parts_of(source))) for source in (first, second)]
        if has_tanh[0] != has_tanh[1] and self._equal(self._unfolded, facts, first, second):
            return True
        if not any(map(_is_rounded, (*parts_of(first), *parts_of(second)))):
            return False
        return any(self._equal(forms, facts, first, second) for forms in self._standing)

    def has_sums_of_integers(self, sources: tuple[Source, ...]) -> bool:
        """Tell whether sources are sums of integers of the output's dtype, or computed of such."""
        names = {name for source in sources if isinstance(source, Integer) for name in source.value.variables}
        named = [self._space.sources.get(name) for name in names]
        is_integer = self._dtype.startswith(("int", "uint"))
        return is_integer and any(is_sum(source, self._dtype) for source in (*sources, *named))

    def _equal(
        self, forms: NormalForms, facts: Facts, first: Source, second: Source, are_integers: bool = False
    ) -> bool:
        try:
            formulas = [
                forms.integer(source, facts, self._dtype) if are_integers else forms.formula(source, facts)
                for source in (first, second)
            ]
        except (NoFormula, CutIndex):
            return False  # as of a NaN, of which nothing is shown
        return forms.vanishing.equal(formulas[0], formulas[1], facts)


def _is_tanh(source: Source) -> bool:
    return isinstance(source, Term) and source.operation.startswith("tanh[")


def _is_rounded(source: Source) -> bool:
    return isinstance(source, Number) and stands_for(source) is not None


def is_computed(source: Source) -> bool:
    """Tell whether a source is more than a constant, an element, perhaps in a wider dtype, or a sum of integers."""
    if isinstance(source, Term) and source.operation.startswith(WIDER):
        return any(map(is_computed, source.operands))
    if isinstance(source, Reduction) and source.dtype.startswith(("int", "uint")):
        return any(is_computed(piece.source) for piece in source.pieces)
    return isinstance(source, Term | WholeResult | Reduction | Carried)


def same(space: Space, facts: Facts, first: Source, second: Source) -> bool:
    """Tell whether two sources are shown to be one, where facts hold: by their structure."""
    if first == second:
        return True
    if isinstance(first, Element) and isinstance(second, Element):
        return first.name == second.name and all(
            space.proves_equal(facts, a, b) for a, b in zip(first.index, second.index, strict=True)
        )
    if isinstance(first, Carried) and isinstance(second, Carried):
        if (first.name, first.number) == (second.name, second.number) and len(first.place) == len(second.place):
            return all(space.proves_equal(facts, a, b) for a, b in zip(first.place, second.place, strict=True))
        results = (as_result(space.scans[carried.name], carried) for carried in (first, second))
        return same(space, facts, *results)
    if isinstance(first, Integer) and isinstance(second, Integer):
        return space.proves_equal(facts, first.value, second.value)
    if isinstance(first, Term) and isinstance(second, Term):
        return (
            first.operation == second.operation
            and len(first.operands) == len(second.operands)
            and all(same(space, facts, a, b) for a, b in zip(first.operands, second.operands, strict=True))
        )
    if isinstance(first, Reduction) and isinstance(second, Reduction):
        alike = (first.kind, first.dtype, first.bound) == (second.kind, second.dtype, second.bound)
        # Outside of its pieces nothing is added up: they must be of the same places.
        places = [frozenset(frozenset(piece.facts) for piece in side.pieces) for side in (first, second)]
        alike = alike and (places[0] == places[1])
        return alike and _same_pieces(space, facts, set(first.bound), first.pieces, second.pieces)
    if isinstance(first, WholeResult) and isinstance(second, WholeResult):
        return (
            first.operation == second.operation
            and len(first.operands) == len(second.operands)
            and all(space.proves_equal(facts, a, b) for a, b in zip(first.index, second.index, strict=True))
            and all(_same_whole(space, facts, a, b) for a, b in zip(first.operands, second.operands, strict=True))
        )
    return False


def _same_loops(space: Space, first: Scan, second: Scan) -> bool:
    """Tell whether two loops are shown to carry the same, number by number, wherever they stand."""
    try:
        for number in range(first.carries):
            if first.start_shape(number) != second.start_shape(number):
                return False
            results = (as_result(loop, Carried(loop.name, number, loop.length, (), ())) for loop in (first, second))
            if not same(space, (), *results):
                return False
    except LimitReached:
        raise
    except NotCovered:  # a step that no rule covers: each loop keeps its own name
        return False
    return True


def _same_whole(space: Space, facts: Facts, first: Whole, second: Whole) -> bool:
    """Tell whether two arrays are shown to be equal at every place, where facts hold."""
    if first == second:
        return True
    if first.shape != second.shape or first.index != second.index:
        return False
    bound = {name for p in first.index for name in p.variables}
    covered = all(space.covered_by(piece.facts for piece in side.pieces) for side in (first, second))
    return covered and _same_pieces(space, facts, bound, first.pieces, second.pieces)


def _same_pieces(space: Space, facts: Facts, bound: Set[str], first: Pieces, second: Pieces) -> bool:
    """Tell whether two piecewise maps are shown to be equal wherever both are defined, at all bound indices."""
    # What holds of an index of the same name around these arrays is not said of theirs.
    facts = tuple(fact for fact in facts if bound.isdisjoint(reached(space, fact.polynomial.variables)))
    for piece in first:
        for other in second:
            both = space.simplified((*facts, *piece.facts, *other.facts))
            if both is not None and not space.contradicts(both) and not same(space, both, piece.source, other.source):
                return False
    return True
