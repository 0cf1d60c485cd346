"""Compiled programs at other magnitudes and at special values: overflow, lost accuracy, a NaN that is lost.

Numbers are drawn around 1, where a softmax without its maximum is as good as one with it. So the programs that are
compiled already run on the record of the case with its floats scaled to magnitudes from the smallest to the largest of
their dtype or of their stated range, shifted far from zero, and with one special value planted. Where the sides are
apart there as they are not at the inputs of the case, the formulas in float64 say which side is right: infinite on one
side alone, or farther off than the operations of the reference explain.

What both sides lose alike is nothing, and neither is what the magnitude of an exponent explains (an error of one unit
in the last place of the inputs); a row that is infinite or NaN in places of its own on each side is one on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np

from samebits.check.execution import Execution, PendingPoint
from samebits.check.point_proofs import PointProofs
from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.float64_differences import evaluated, outputs_of
from samebits.interpret.other_values import Counterexample
from samebits.interpret.overflow import RangedOracle
from samebits.interpret.problem import Question, first_place
from samebits.interpret.rounding_error.estimate import estimate_errors
from samebits.numerics import floats
from samebits.programs.inputs import Record, special_values
from samebits.programs.plan import Request, plan
from samebits.schema.case import Arg
from samebits.schema.domain import Fact, RequiredFact
from samebits.schema.meshes import MeshSpec
from samebits.schema.picture import MagnitudeRow
from samebits.schema.point import Point
from samebits.schema.values import Given, Normal, Uniform

LARGER = (4, 7, 10, 14, 20, 32, 65, 100)
SMALLER = (-4, -8, -12, -20, -40, -65)
"""The exponents of two of the largest number of an argument that are tried, with the last ones of its dtype.

Of a wide dtype not the very last, where a sum of a few numbers overflows and small ones are flushed to zero.
"""

ALONE = (7, 14, 65, -12, -65)
"""Those at which the arguments are scaled by themselves."""

FAR = 64.0
"""How many times the error of the reference, and the difference at the inputs of the case, is a loss of accuracy."""

BEYOND = 4.0
"""How many times the bound on rounding in the reference's operations is, at the same place."""

LATER = 16.0
"""How many times larger the inputs are up to which both sides overflow together: products in another order."""

SATURATED = 2.0**-60
"""Below this, what underflows at larger inputs is nothing: it is left of a difference that saturated, as a gradient of
a softmax that is 1 in one place.
"""

BISECTED = 8
"""Steps in which the magnitude from which on a side overflows is looked for."""


_SPECIAL: tuple[tuple[str, str, str, Fact], ...] = (
    ("nan", "middle", "one NaN", "no_nan"),
    ("nan", "last", "one NaN at the end", "no_nan"),
    ("inf", "middle", "one infinity", "finite"),
    ("-inf", "last", "one negative infinity at the end", "finite"),
    ("subnormal", "middle", "a subnormal number", "no_subnormal"),
    ("-0.0", "last", "one -0.0 at the end", "no_negative_zero"),
)
"""What is planted and where, in words, and the fact of a domain that leaves it out; padding is at the end of arrays."""


class _Tried(NamedTuple):
    """A record that is tried: the values of which arguments are changed, and how."""

    record: Record
    names: tuple[str, ...]
    words: str
    allowed: bool
    exponent: int | None = None
    fact: Fact | None = None

    @property
    def special(self) -> bool:
        """Whether a special value is planted."""
        return self.fact is not None


class _Sides(NamedTuple):
    """What both sides gave, by leaf."""

    reference: dict[str, Array]
    variant: dict[str, Array]


@dataclass(frozen=True, slots=True)
class _Apart:
    """A leaf at which the sides are apart.

    Args:
        place: where.
        words: how, with what is true there.
        overflows: the side that is infinite or NaN alone, if one is.
        loses: the formulas are the same, and the variant loses digits.
    """

    place: tuple[int, ...]
    words: str
    overflows: str | None = None
    loses: bool = False


class Magnitudes:
    """The points of one pair at other magnitudes.

    Args:
        execution: runs compiled programs.
        proofs: gives the questions of points.
    """

    def __init__(self, execution: Execution, proofs: PointProofs) -> None:
        self.execution = execution
        self.proofs = proofs
        self._chosen: frozenset[Point] | None = None
        self._cached: tuple[PendingPoint | None, dict[str, Counterexample]] = (None, {})

    def counterexample(self, job: PendingPoint, path: str) -> Counterexample | None:
        """Numbers of another magnitude at which the compiled programs are apart in a leaf."""
        if self._cached[0] is not job:
            self._cached = job, self._of(job) if self._is_chosen(job.point) else {}
        return self._cached[1].get(path)

    def _is_chosen(self, point: Point) -> bool:
        """Whether a point is the one of its variant, dtype and direction that is tried: the first on the smallest mesh.

        Which one follows from the declaration and the number of devices, not from what is selected.
        """
        if self._chosen is None:
            import jax

            pair, first = self.execution.pair, dict[tuple[str, str, str], Point]()
            points = plan(pair, Request(), len(jax.devices())).points
            for each in sorted(points, key=lambda each: MeshSpec.parse(each.mesh).devices):
                if each.variant != pair.reference_name:
                    first.setdefault((each.variant, each.dtype, each.direction), each)
            self._chosen = frozenset(first.values())
        return point in self._chosen and self.execution.sides.programs.group is None

    def _of(self, job: PendingPoint) -> dict[str, Counterexample]:
        apart_at: dict[str, Counterexample] = {}
        if self.proofs.movement(job).holds or self.proofs.same_program(job):
            return apart_at
        record, cotangents = self._ordinary(job)
        base = self._run(job, record, cotangents)
        args = self.execution.sides.args(job.alone)
        leaves = [path for path, array in base.reference.items() if _comparable(array, base.variant.get(path))]
        for series in _series(record, args):
            before: _Tried | None = None
            for tried in series:
                open_ = [path for path in leaves if _is_open(apart_at.get(path), tried)]
                open_ = [path for path in open_ if not self._is_excluded(job, path, tried)]
                if not open_:
                    continue
                try:
                    ran = self._run(job, tried.record, cotangents)
                except CouldNotRun:  # a callback need not take all numbers
                    continue
                for path in open_:
                    apart = self._apart(job, tried, cotangents, path, base, ran)
                    known = apart_at.get(path)
                    if apart is None or (known is not None and tried.allowed <= known.allowed and not apart.overflows):
                        continue
                    words = self._words(job, before, tried, cotangents, path, apart)
                    if words is not None:
                        table = self._table(job, series, cotangents, path) if tried.exponent is not None else ()
                        values, where = (ran.reference[path], ran.variant[path]), f"ordinary, {tried.words}"
                        kind: Literal["inputs", "accuracy"] = "accuracy" if apart.loses else "inputs"
                        apart_at[path] = Counterexample(words, tried.allowed, where, None, values, table, kind)
                if all(not np.isfinite(_wide(side[path])).any() for side in ran for path in leaves):
                    break
                before = tried
        return apart_at

    def _is_excluded(self, job: PendingPoint, path: str, tried: _Tried) -> bool:
        """Whether the contract of a leaf is for inputs without such a special value."""
        if tried.fact is None:
            return False
        where = {name: getattr(job.point, name) for name in Point.__slots__}
        domain = self.execution.pair.contract(**where, leaf=path).domain
        return domain is not None and domain.says(RequiredFact(tried.fact, tried.names[0]))

    def _ordinary(self, job: PendingPoint) -> tuple[Record, dict[str, Array]]:
        reference, direction = self.execution.pair.reference_name, job.point.direction
        return next(iter(self.execution.inputs(job.alone, reference, direction).values()))

    def _run(self, job: PendingPoint, record: Record, cotangents: dict[str, Array]) -> _Sides:
        return _Sides(*self.execution.sides_at(job, record, cotangents))

    def _apart(
        self, job: PendingPoint, tried: _Tried, cotangents: dict[str, Array], path: str, base: _Sides, ran: _Sides
    ) -> _Apart | None:
        """How the sides are apart in a leaf as they are not at the inputs of the case; None where they are not."""
        first, second = ran.reference[path], ran.variant[path]
        if first.tobytes() == second.tobytes():
            return None
        sides = self.execution.pair.reference_name, job.point.variant
        lost = _lost(_wide(first), _wide(second))
        if lost.any():
            at = first_place(lost)
            by = int(np.isfinite(_wide(first)[at]))
            if tried.special:
                return _Apart(at, _two(path, at, sides, first, second))
            if self._is_right(job, tried, cotangents, path, at, (first, second)[1 - by], 1 - by):
                return _Apart(at, _two(path, at, sides, first, second), overflows=sides[by])
            return None
        far = _farther(first, second, base.reference[path], base.variant[path])
        if not far.any() or tried.fact in ("no_nan", "finite"):
            return None
        question = self._question(job, tried, cotangents)
        try:
            true, own = (_leaf(question, program, path) for program in (question.reference, question.variant))
        except (NotCovered, CouldNotRun):  # without a value in float64 nobody knows which side is right
            return None
        wrong = (
            _less_accurate(first, second, true, far, _largest(tried))
            if floats.is_float(first.dtype)
            else far & (np.abs(_wide(first) - true) <= 1)
        )
        if wrong.any() and floats.is_float(first.dtype):
            wrong &= np.abs(_wide(second) - true) > BEYOND * self._bound(question, path)
        if not wrong.any():
            far &= (np.abs(true) > SATURATED) | ((tried.exponent or 0) <= 0)
            return self._out_of_range(job, path, (first, second), true, far, question)
        at = first_place(wrong)
        words = _two(path, at, sides, first, second) + f", and {true[at]:.6g} in float64"
        same = np.abs(own[at] - true[at]) <= 1e-6 * abs(true[at])
        return _Apart(at, f"'{sides[1]}' loses accuracy: {words}" if same else words, loses=bool(same))

    def _out_of_range(
        self,
        job: PendingPoint,
        path: str,
        sides: tuple[Array, Array],
        true: Array,
        far: Array,
        question: Question,
    ) -> _Apart | None:
        """Where the variant is finite and wrong because a number on the way leaves the range of its dtype."""
        first, second = map(_wide, sides)
        with np.errstate(all="ignore"):
            least = float(np.max(np.abs(true), where=np.isfinite(true), initial=0.0)) / 1024
            wrong = far & (np.abs(true) > least) & (np.abs(second - true) > np.abs(true) / 2)
            wrong &= np.abs(first - true) <= np.abs(true) / 8
        if not floats.is_float(sides[0].dtype) or not wrong.any():
            return None
        domain = RangedOracle()
        try:
            ranged = _wide(outputs_of(question, question.variant, domain)[list(question.outputs).index(path)])
        except NotCovered:  # then nothing is known of the range
            return None
        with np.errstate(all="ignore"):
            wrong &= np.abs(ranged - second) <= np.abs(ranged - true) / 8
        if not wrong.any() or not domain.left:
            return None
        at = first_place(wrong)
        names = self.execution.pair.reference_name, job.point.variant
        words = _two(path, at, names, *sides) + f", and {true[at]:.6g} in float64"
        return _Apart(at, f"{words}: {next(iter(domain.left))}")

    def _question(self, job: PendingPoint, tried: _Tried, cotangents: dict[str, Array]) -> Question:
        prover, point = self.proofs.prover, job.point
        return prover.question(point.direction, job.alone, point.variant, job.on_mesh, tried.record, cotangents)

    def _is_right(
        self, job: PendingPoint, tried: _Tried, cotangents: dict[str, Array], path: str, at: Any, array: Array, by: int
    ) -> bool:
        """Whether the side that is finite is near its own value in float64; where there is none, it is taken for it."""
        try:
            question = self._question(job, tried, cotangents)
            values = _leaf(question, (question.reference, question.variant)[by], path)
        except (NotCovered, CouldNotRun):  # as of a kernel: what is finite is taken for right
            return True
        true, info = float(values[at]), ml_dtypes.finfo(array.dtype)
        largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))
        least = abs(true) / 8 + float(info.eps) * largest + float(info.smallest_normal)
        return bool(np.isfinite(true)) and abs(float(_wide(array)[at]) - true) <= least

    def _bound(self, question: Question, path: str) -> Array:
        import jax

        inputs = [np.asarray(argument.values) for argument in question.inputs]
        try:
            bound = estimate_errors(question.reference, question, inputs, jax.default_backend()).bounds[path]
        except NotCovered:  # no bound is known, and nothing is beyond it
            return np.asarray(np.inf)
        return np.where(np.isnan(bound), np.inf, bound)

    def _words(
        self,
        job: PendingPoint,
        before: _Tried | None,
        tried: _Tried,
        cotangents: dict[str, Array],
        path: str,
        apart: _Apart,
    ) -> str | None:
        """A difference in words: from which magnitude on a side overflows, or how the sides differ.

        None where the other side overflows a little later: the range of the dtype ends there for both.
        """
        if apart.overflows is None or tried.exponent is None:
            return f"{tried.words}, {apart.words}"
        good = self._ordinary(job)[0] if before is None else before.record
        record, lost = self._threshold(job, (good, tried.record), tried.names, cotangents, path)
        names, sides = tried.names, (self.execution.pair.reference_name, job.point.variant)
        finite = 1 - sides.index(apart.overflows)
        if not tried.allowed:
            factor = LATER if tried.exponent > 0 else 1 / LATER
            later = {name: _cast(_wide(record[name]) * factor, record[name].dtype) for name in names}
            if not np.isfinite(_wide(self._run(job, {**record, **later}, cotangents)[finite][path][lost])).all():
                return None
        sizes = {name: np.abs(_wide(record[name])) for name in names}
        first = sizes[names[0]]
        same = len(names) == 1 and first.shape == lost.shape
        size = float(np.max(first[lost]) if same else max(np.max(each) for each in sizes.values()))
        named = f"|{names[0]}|" if len(names) == 1 else "the inputs"
        way = "overflows from" if tried.exponent > 0 else "is infinite or NaN below"
        return f"'{apart.overflows}' {way} {named} = {size:.3g}; '{sides[finite]}' does not: {apart.words}"

    def _threshold(
        self,
        job: PendingPoint,
        ends: tuple[Record, Record],
        names: Sequence[str],
        cotangents: dict[str, Array],
        path: str,
    ) -> tuple[Record, Array]:
        """Between two records, the nearest to the first at which one side overflows, and where it does."""
        good, bad = ends
        lost = np.zeros((), bool)
        for step in range(BISECTED + 1):
            middle = bad if not step else {**bad, **{name: _between(good[name], bad[name]) for name in names}}
            ran = self._run(job, middle, cotangents)
            seen = _lost(_wide(ran.reference[path]), _wide(ran.variant[path]))
            if seen.any():
                bad, lost = middle, seen
            else:
                good = middle
        return bad, lost

    def _table(
        self, job: PendingPoint, series: Sequence[_Tried], cotangents: dict[str, Array], path: str
    ) -> tuple[MagnitudeRow, ...]:
        """The errors of both sides at each magnitude of a series."""
        rows = []
        for tried in series:
            ran = self._run(job, tried.record, cotangents)
            try:
                question = self._question(job, tried, cotangents)
                true = _leaf(question, question.reference, path)
            except (NotCovered, CouldNotRun):  # no errors are known
                return ()
            errors = [
                error if np.isfinite(error) else None for error in (_error(_wide(side[path]), true) for side in ran)
            ]
            rows.append(MagnitudeRow(size=_largest(tried), reference=errors[0], optimized=errors[1]))
        return tuple(rows)


def _is_open(known: Counterexample | None, tried: _Tried) -> bool:
    """Whether a record may show more of a leaf: inputs that may be given, or, of lost accuracy, where it overflows."""
    if known is None or tried.allowed > known.allowed:
        return True
    return tried.allowed == known.allowed and tried.exponent is not None and known.kind == "accuracy"


def _series(record: Record, args: Any) -> Iterator[list[_Tried]]:
    """The records that are tried, those of one way of changing an argument together, the nearest first."""
    stated = {name: args[name].values for name in record if isinstance(args[name].values, Uniform)}
    for name, values in stated.items():
        if floats.is_float(record[name].dtype):
            yield _within(record, name, values)
    free = tuple(name for name, array in record.items() if _is_free(args[name], array))
    groups = [free] if free else []
    for bit in range(max(len(free) - 1, 0).bit_length()):
        groups += [tuple(name for number, name in enumerate(free) if number >> bit & 1 == side) for side in (0, 1)]
    for names in groups:
        for exponents in _exponents(record[names[0]].dtype):
            chosen = exponents if names is groups[0] else [each for each in exponents if each in ALONE]
            yield [each for each in (_scaled(record, names, exponent) for exponent in chosen) if each is not None]
        if names is groups[0]:
            yield [_shifted(record, names, share) for share in (0.25, 0.5, 0.75)]
    for name, array in record.items():
        values = args[name].values
        unstated = isinstance(values, Normal) or (isinstance(values, Given) and not values.exactly)
        if floats.is_float(array.dtype) and unstated:
            yield from ([each] for each in _planted(record, name, array))


def _is_free(arg: Arg, array: Array) -> bool:
    """Whether floats of any magnitude may be given: none are stated, and it is not a mask, a gate or a probability."""
    if not floats.is_float(array.dtype) or not array.size or not floats.has_sign(array.dtype):
        return False
    wide = _wide(array)
    if isinstance(arg.values, Given):
        return bool(np.isfinite(wide).all() and not ((wide >= 0) & (wide <= 1)).all())
    return isinstance(arg.values, Normal) and bool(np.any(wide))


def _exponents(dtype: Any) -> tuple[list[int], list[int]]:
    """The exponents of larger and of smaller numbers that a dtype has, its last ones among them."""
    info = ml_dtypes.finfo(dtype)
    wide = int(info.maxexp) > 64
    last = int(info.maxexp) - (12 if wide else 1)
    least = int(info.minexp) + 40 if wide else min(int(info.minexp) + 8, SMALLER[0])
    return [*(each for each in LARGER if each < last), last], [*(each for each in SMALLER if each > least), least]


def _scaled(record: Record, names: tuple[str, ...], exponent: int) -> _Tried | None:
    """Arguments times a power of two, after which the largest number is of this magnitude."""
    largest = max(float(np.abs(_wide(record[name])).max()) for name in names)
    factor = 2.0 ** (exponent - int(np.ceil(np.log2(largest))))
    if (factor <= 1) == (exponent > 0):
        return None
    changed = {name: _cast(_wide(record[name]) * factor, record[name].dtype) for name in names}
    words = (
        f"with {_named(names)} {factor:g} times as large"
        if exponent > 0
        else f"with {_named(names)} {1 / factor:g} times smaller"
    )
    return _Tried({**record, **changed}, names, words, False, exponent)


def _shifted(record: Record, names: tuple[str, ...], share: float) -> _Tried:
    """Arguments far from zero beside their spread, by a share of the digits of their dtype."""
    spread = max(float(np.std(_wide(record[name]))) for name in names) or 1.0
    shift = float(spread * np.exp2(round(share * min(floats.digits(record[name].dtype) for name in names))))
    changed = {name: _cast(_wide(record[name]) + shift, record[name].dtype) for name in names}
    return _Tried({**record, **changed}, names, f"with {shift:.3g} added to {_named(names)}", False)


def _within(record: Record, name: str, values: Uniform) -> list[_Tried]:
    """An argument at the ends of its stated range, and at smaller magnitudes within it."""
    array = record[name]
    ends = np.where(np.arange(array.size).reshape(array.shape) % 2, values.low, values.high)
    tried = [
        _Tried({**record, name: _cast(ends, array.dtype)}, (name,), f"with '{name}' at the ends of its range", True)
    ]
    if values.low <= 0 <= values.high:
        smaller = (_scaled(record, (name,), exponent) for exponent in _exponents(array.dtype)[1])
        tried += [each._replace(allowed=True) for each in smaller if each is not None]
    return tried


def _planted(record: Record, name: str, array: Array) -> Iterator[_Tried]:
    """An argument with one special value in the middle."""
    for special, place, said, fact in _SPECIAL:
        value = special_values(array.dtype, (special,))
        if value.size and array.size:
            planted = array.copy()
            planted.reshape(-1)[array.size // 2 if place == "middle" else -1] = value[0]
            yield _Tried({**record, name: planted}, (name,), f"with {said} in '{name}'", False, fact=fact)


def _cast(wide: Array, dtype: Any) -> Array:
    """Float64 numbers in a dtype, none of them infinite."""
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.asarray(np.clip(wide, -largest, largest).astype(dtype))


def _between(first: Array, second: Array) -> Array:
    """The geometric mean of two arrays of the same signs."""
    left, right = _wide(first), _wide(second)
    return _cast(np.sign(right) * np.sqrt(np.abs(left)) * np.sqrt(np.abs(right)), second.dtype)


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64)


def _largest(tried: _Tried) -> float:
    return max(float(np.max(np.abs(_wide(tried.record[name])), initial=0.0)) for name in tried.names)


def _named(names: Sequence[str]) -> str:
    listed = "', '".join(names[:3])
    return f"'{listed}'" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _comparable(first: Array, second: Array | None) -> bool:
    if second is None or first.dtype != second.dtype or first.shape != second.shape or not first.size:
        return False
    return floats.is_float(first.dtype) or first.dtype.kind in "iu"


def _lost(first: Array, second: Array) -> Array:
    """Where one side alone is infinite or NaN, but for rows in which both are; or they are infinities of two signs."""
    left, right = ~np.isfinite(first), ~np.isfinite(second)
    lost = left ^ right
    if lost.any():
        for axis in range(first.ndim):
            lost &= ~(left.any(axis, keepdims=True) & right.any(axis, keepdims=True))
    return np.asarray(lost | (np.isinf(first) & np.isinf(second) & (first != second)))


def _farther(first: Array, second: Array, base: Array, other: Array) -> Array:
    """Where finite numbers are relatively farther apart than at the inputs of the case."""
    if not floats.is_float(first.dtype):
        return np.asarray((np.abs(_wide(first) - _wide(second)) > 1) & (np.abs(_wide(base) - _wide(other)) <= 1))
    info = ml_dtypes.finfo(first.dtype)
    least = float(info.eps)

    def relative(left: Array, right: Array) -> Array:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(left), np.abs(right))
            apart = np.abs(left - right)
            return np.where(apart > float(info.smallest_normal), apart / size, 0.0)

    now, then = relative(_wide(first), _wide(second)), relative(_wide(base), _wide(other))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(now) & (now > FAR * np.maximum(np.nan_to_num(then, nan=1.0), least)))


def _less_accurate(first: Array, second: Array, true: Array, far: Array, size: float) -> Array:
    """Where the variant is far less accurate than the reference, by more than the magnitude of the inputs explains."""
    info = ml_dtypes.finfo(first.dtype)
    with np.errstate(all="ignore"):
        own, other = np.abs(_wide(first) - true), np.abs(_wide(second) - true)
        fits = np.isfinite(true) & (np.abs(true) <= float(info.max))
        largest = float(np.max(np.abs(true), where=fits, initial=0.0))
        expected = np.maximum(own, float(info.eps) * max(1.0, size) * np.abs(true))
        least = FAR * float(info.eps) * largest + float(info.smallest_normal)
        return np.asarray(far & fits & (other > np.maximum(FAR * expected, least)))


def _leaf(question: Question, program: Any, path: str) -> Array:
    return _wide(evaluated(question, program)[list(question.outputs).index(path)])


def _error(array: Array, true: Array) -> float:
    """The largest error of an element relative to itself, of those not far below the largest; infinite of what is."""
    with np.errstate(all="ignore"):
        errors = np.abs(array - true) / np.abs(true)
    errors = np.where(np.abs(true) < 1e-6 * np.max(np.abs(true), where=np.isfinite(true), initial=0.0), 0.0, errors)
    errors = np.where(np.isfinite(true) & ~np.isfinite(array), np.inf, np.where(array == true, 0.0, errors))
    return float(np.max(np.where(np.isnan(errors), 0.0, errors), initial=0.0))


def _two(path: str, at: tuple[int, ...], sides: tuple[str, str], first: Array, second: Array) -> str:
    place = f"{path}[{', '.join(map(str, at))}]" if at else path
    return f"{place} is {floats.show(first[at])} in '{sides[0]}' and {floats.show(second[at])} in '{sides[1]}'"
