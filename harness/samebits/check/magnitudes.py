"""Compiled programs at other magnitudes and at special values: overflow, lost accuracy, a NaN that is lost.

Numbers are drawn around 1, where a softmax without its maximum is as good as one with it. So the compiled programs also
run on the record of the case with its floats scaled to magnitudes from the smallest to the largest of their dtype or of
their stated range, shifted far from zero, and with one special value planted. Where the sides are apart there as they
are not at the inputs of the case, the formulas in float64 say which side is right: infinite on one side alone, or
farther off than the operations of the reference explain.

What both sides lose alike is nothing, and neither is what the magnitude of an exponent explains (an error of one unit
in the last place of the inputs); a row that is infinite or NaN in places of its own on each side is one on both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from samebits.check.other_inputs import OtherInputs, first_found
from samebits.errors import CouldNotRun, NotCovered
from samebits.interpret.equation import Array
from samebits.interpret.float64_differences import RangedOracle, apart, outputs_of
from samebits.interpret.other_values import Counterexample
from samebits.interpret.probes import named
from samebits.interpret.problem import first_place
from samebits.numerics import floats
from samebits.programs.inputs import Record, special_values
from samebits.schema.case import Arg
from samebits.schema.domain import Fact, RequiredFact
from samebits.schema.finding import where
from samebits.schema.picture import MagnitudeRow
from samebits.schema.values import Given, Normal, Uniform

EXPONENTS = (4, 7, 10, 14, 20, 32, 65, 100, 1000, -4, -8, -12, -20, -40, -65, -1000)
"""The exponents of two of the largest number of an argument that are tried, as far as its dtype goes."""


ALONE = (7, 14, 65, -12, -65)
"""Those at which some of the arguments are scaled by themselves."""

FAR = 64.0
"""How many times the error of the reference, and the difference at the inputs of the case, is a loss of accuracy."""

BEYOND = 4.0
"""How many times the bound on rounding in the reference's operations is, at the same place."""

LATER, SOON = 16.0, 1.5
"""How many times larger the inputs are up to which both sides overflow together: products in another order; and sums in
another order, where the range of a dtype ends so early that it is met in practice, as that of float16.
"""

SATURATED = 2.0**-60
"""Below this, what underflows at larger inputs is what is left of a saturated difference, as behind a softmax of 1."""

BISECTED = 12
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


def at_magnitudes(usual: OtherInputs) -> dict[str, Counterexample]:
    """Find numbers of another magnitude at which the compiled programs are apart, by leaf."""
    proofs, job = usual.proofs, usual.job
    if not usual.first or proofs.movement(job).holds or (job.programs and proofs.same_program(job)):
        return {}
    leaves = [path for path in usual.leaves if not floats.is_complex(usual.ran[0][path].dtype)]
    return first_found(leaves, _inputs(usual), lambda tried, path: _apart(usual, tried, path))


def _inputs(usual: OtherInputs) -> Iterator[OtherInputs]:
    """Yield the inputs that are tried, the nearest first."""
    args = usual.proofs.execution.sides.args(usual.job.alone)
    numbers = {name: array for name, array in usual.record.items() if array.size and floats.is_float(array.dtype)}
    for name, array in numbers.items():
        values = args[name].values
        if isinstance(values, Uniform):
            ends = np.where(np.arange(array.size).reshape(array.shape) % 2, values.low, values.high)
            words = f"with '{name}' at the ends of its range"
            yield _changed(usual, {name: _cast(ends, array.dtype)}, words, allowed=True)
            if values.low <= 0 <= values.high:
                yield from _scaled(usual, (name,), [each for each in EXPONENTS if each < 0], allowed=True)
    free = tuple(name for name, array in numbers.items() if _is_free(args[name], array))
    if free:
        yield from _scaled(usual, free, (*range(4, 17), *EXPONENTS) if _ends_early(numbers, free) else EXPONENTS)
        yield _shifted(usual, free)
    for bit in range(max(len(free) - 1, 0).bit_length()):
        for half in (0, 1):
            names = tuple(name for number, name in enumerate(free) if number >> bit & 1 == half)
            yield from _scaled(usual, names, ALONE)
    for name, array in numbers.items():
        values = args[name].values
        if isinstance(values, Normal) or (isinstance(values, Given) and not values.exactly):
            for special, place, said, fact in _SPECIAL:
                for value in special_values(array.dtype, (special,)):
                    planted = array.copy()
                    planted.reshape(-1)[array.size // 2 if place == "middle" else -1] = value
                    yield replace(_changed(usual, {name: planted}, f"with {said} in '{name}'"), fact=fact)


def _is_free(arg: Arg, array: Array) -> bool:
    """Return whether floats of any magnitude may be given: none are stated, and it is not a mask or probability."""
    if isinstance(arg.values, Given):
        wide = _wide(array)
        return bool(np.isfinite(wide).all() and not ((wide >= 0) & (wide <= 1)).all())
    return isinstance(arg.values, Normal) and bool(np.any(array))


def _ends_early(record: Record, names: Iterable[str]) -> bool:
    """Return whether the range of a dtype of arguments ends within a few octaves, as that of float16."""
    return any(ml_dtypes.finfo(record[name].dtype).maxexp <= 16 for name in names)


def _changed(usual: OtherInputs, arrays: dict[str, Array], words: str, allowed: bool = False) -> OtherInputs:
    """Return the inputs with other values of some arguments."""
    return replace(usual, record={**usual.record, **arrays}, words=words, allowed=allowed, changed=tuple(arrays))


def _scaled(
    usual: OtherInputs, names: tuple[str, ...], exponents: Iterable[int], allowed: bool = False
) -> Iterator[OtherInputs]:
    """Yield arguments times powers of two, after which the largest number is of these magnitudes.

    Of a wide dtype not of the very last, where a sum of a few numbers overflows and small ones are flushed to zero.
    """
    arrays = {name: usual.record[name] for name in names}
    info = ml_dtypes.finfo(arrays[names[0]].dtype)
    last, least = int(info.maxexp) - 1, min(int(info.minexp) + 8, -4)
    if last > 64:
        last, least = last - 11, least + 32
    now = int(np.ceil(np.log2(max(map(_largest, arrays.values())) or 1.0)))
    for exponent in dict.fromkeys(min(max(each, least), last) for each in exponents):
        if (exponent > now) == (exponent > 0):
            factor = 2.0 ** (exponent - now)
            times = f"{factor:g} times as large" if exponent > 0 else f"{1 / factor:g} times smaller"
            scaled = {name: _cast(_wide(array) * factor, array.dtype) for name, array in arrays.items()}
            yield replace(_changed(usual, scaled, f"with {named(names)} {times}", allowed), exponent=exponent)


def _shifted(usual: OtherInputs, names: tuple[str, ...]) -> OtherInputs:
    """Shift arguments far from zero beside their spread, so that half of the digits are left."""
    arrays = {name: usual.record[name] for name in names}
    spread = max(float(np.std(_wide(array))) for array in arrays.values()) or 1.0
    shift = spread * 2.0 ** (min(floats.digits(array.dtype) for array in arrays.values()) // 2)
    shifted = {name: _cast(_wide(array) + shift, array.dtype) for name, array in arrays.items()}
    return _changed(usual, shifted, f"with {shift:.3g} added to {named(names)}")


def _apart(usual: OtherInputs, tried: OtherInputs, path: str) -> Counterexample | None:
    """Return how the sides are apart in a leaf as they are not at the inputs of the case.

    Raises:
        NotCovered: without a value in float64 nobody knows which side is right.
    """
    first, second = (side[path] for side in tried.ran)
    if first.tobytes() == second.tobytes() or _is_excluded(tried, path):
        return None
    lost = _lost(tried, path)
    if lost.any():
        return _overflow(usual, tried, path, lost)
    far = _farther(usual, tried, path)
    if not far.any() or tried.fact in ("no_nan", "finite"):
        return None
    true, own = _wide(tried.written(0, path)), _wide(tried.written(1, path))
    wrong = _less_accurate(tried, path, true, far)
    if wrong.any() and floats.is_float(first.dtype):
        with np.errstate(invalid="ignore"):  # of two infinities
            wrong &= np.abs(_wide(second) - true) > BEYOND * tried.bound(0, path)
    if not wrong.any():
        return _out_of_range(usual, tried, path, true, far)
    at = first_place(wrong)
    words = f"{tried.both(path, at)}, and {true[at]:.6g} in float64"
    if np.abs(own[at] - true[at]) <= 1e-6 * abs(true[at]):
        words = f"'{tried.sides[1]}' loses accuracy: {words}"
    return replace(_found(usual, tried, path, words), kind="accuracy")


def _is_excluded(tried: OtherInputs, path: str) -> bool:
    """Return whether the contract of a leaf is for inputs without such a special value."""
    if tried.fact is None:
        return False
    domain = tried.proofs.execution.pair.contract(**where(tried.job.point), leaf=path).domain
    return domain is not None and domain.says(RequiredFact(tried.fact, tried.changed[0]))


def _found(usual: OtherInputs, tried: OtherInputs, path: str, words: str) -> Counterexample:
    """Return what is found at inputs, with the errors of both sides at each magnitude on the way to them."""
    rows: list[MagnitudeRow] = []
    exponents = [each for each in EXPONENTS if tried.exponent is not None and (each > 0) == (tried.exponent > 0)]
    with contextlib.suppress(NotCovered, CouldNotRun):  # then as far as they are known
        for each in _scaled(usual, tried.changed, exponents):
            true = _wide(each.written(0, path))
            first, second = (_error(_wide(side[path]), true) for side in each.ran)
            rows.append(MagnitudeRow(size=_size(each), reference=first, optimized=second))
    return replace(tried.counterexample(path, f"{tried.words}, {words}"), table=tuple(rows))


def _overflow(usual: OtherInputs, tried: OtherInputs, path: str, lost: Array) -> Counterexample | None:
    """Say which side alone is infinite or NaN, and from which magnitude on.

    None where the other side is not right, or is so a little later: the range of the dtype ends there for both.
    """
    at = first_place(lost)
    finite = int(not np.isfinite(_wide(tried.ran[0][path])[at]))
    if tried.fact is None and not _is_right(tried, path, at, finite):
        return None
    seen = _found(usual, tried, path, tried.both(path, at))
    if tried.exponent is None:
        return seen
    before, least = usual, tried
    for _ in range(BISECTED):
        between = {name: _between(before.record[name], least.record[name]) for name in tried.changed}
        middle = replace(tried, record={**tried.record, **between})
        before, least = (before, middle) if _lost(middle, path).any() else (middle, least)
    lost = _lost(least, path)
    if not tried.allowed:
        later = SOON if _ends_early(least.record, tried.changed) else LATER
        factor = later if tried.exponent > 0 else 1 / later
        arrays = {name: _cast(_wide(least.record[name]) * factor, least.record[name].dtype) for name in tried.changed}
        ran = replace(least, record={**least.record, **arrays}).ran
        if not np.isfinite(_wide(ran[finite][path][lost])).all():
            return None
    numbers = np.abs(_wide(least.record[tried.changed[0]]))
    alone = len(tried.changed) == 1
    size = float(np.max(numbers[lost])) if alone and numbers.shape == lost.shape else _size(least)
    inputs = f"|{tried.changed[0]}|" if alone else "the inputs"
    way = "overflows from" if tried.exponent > 0 else "is infinite or NaN below"
    words = f"'{tried.sides[1 - finite]}' {way} {inputs} = {size:.3g}; '{tried.sides[finite]}' does not"
    return replace(seen, words=f"{words}: {tried.both(path, at)}")


def _is_right(tried: OtherInputs, path: str, at: tuple[int, ...], side: int) -> bool:
    """Return whether the finite side is near its own value in float64; it is taken for it where there is none."""
    try:
        return not apart(tried.written(side, path), tried.ran[side][path], 1 / 8)[at]
    except NotCovered:  # as of a kernel
        return True


def _out_of_range(usual: OtherInputs, tried: OtherInputs, path: str, true: Array, far: Array) -> Counterexample | None:
    """Return where the variant is finite and wrong because a number on the way leaves the range of its dtype."""
    first, second = (_wide(side[path]) for side in tried.ran)
    largest = max(_largest(true) / 1024, SATURATED if (tried.exponent or 0) > 0 else 0.0)
    with np.errstate(all="ignore"):
        wrong = far & (np.abs(true) > largest) & (np.abs(second - true) > np.abs(true) / 2)
        wrong &= np.abs(first - true) <= np.abs(true) / 8
    if not wrong.any():
        return None
    domain, question = RangedOracle(), tried.question
    ranged = _wide(outputs_of(question, question.variant, domain)[list(question.outputs).index(path)])
    with np.errstate(all="ignore"):
        wrong &= np.abs(ranged - second) <= np.abs(ranged - true) / 8
    if not wrong.any() or not domain.left:
        return None
    at, cause = first_place(wrong), next(iter(domain.left))
    return _found(usual, tried, path, f"{tried.both(path, at)}, and {true[at]:.6g} in float64: {cause}")


def _lost(inputs: OtherInputs, path: str) -> Array:
    """Return where one side alone is infinite or NaN, but for rows in which both are, or their signs differ."""
    first, second = (_wide(side[path]) for side in inputs.ran)
    left, right = ~np.isfinite(first), ~np.isfinite(second)
    lost = left ^ right
    for axis in range(first.ndim):
        lost &= ~(left.any(axis, keepdims=True) & right.any(axis, keepdims=True))
    return np.asarray(lost | (np.isinf(first) & np.isinf(second) & (first != second)))


def _farther(usual: OtherInputs, tried: OtherInputs, path: str) -> Array:
    """Return where finite numbers are relatively farther apart than at the inputs of the case."""
    dtype = usual.ran[0][path].dtype
    then, now = ([_wide(side[path]) for side in inputs.ran] for inputs in (usual, tried))
    if not floats.is_float(dtype):
        return np.asarray((np.abs(now[0] - now[1]) > 1) & (np.abs(then[0] - then[1]) <= 1))
    info = ml_dtypes.finfo(dtype)

    def relative(left: Array, right: Array) -> Array:
        apart = np.abs(left - right)
        return np.where(apart > float(info.smallest_normal), apart / np.maximum(np.abs(left), np.abs(right)), 0.0)

    with np.errstate(all="ignore"):
        before, after = relative(*then), relative(*now)
        known = np.maximum(np.nan_to_num(before, nan=1.0), float(info.eps))
        return np.asarray(np.isfinite(after) & (after > FAR * known))


def _less_accurate(tried: OtherInputs, path: str, true: Array, far: Array) -> Array:
    """Return where the variant is less accurate by far more than the magnitude of the inputs explains."""
    dtype = tried.ran[0][path].dtype
    with np.errstate(all="ignore"):
        own, other = (np.abs(_wide(side[path]) - true) for side in tried.ran)
        if not floats.is_float(dtype):
            return np.asarray(far & (own <= 1))
        info = ml_dtypes.finfo(dtype)
        fits = np.isfinite(true) & (np.abs(true) <= float(info.max))
        expected = np.maximum(own, float(info.eps) * max(1.0, _size(tried)) * np.abs(true))
        least = FAR * float(info.eps) * _largest(true[fits]) + float(info.smallest_normal)
        return np.asarray(far & fits & (other > np.maximum(FAR * expected, least)))


def _error(array: Array, true: Array) -> float | None:
    """Return the largest relative error of elements not far below the largest; None where it is infinite."""
    at = np.isfinite(true) & (np.abs(true) >= 1e-6 * _largest(true))
    if not np.isfinite(array[at]).all():
        return None
    with np.errstate(all="ignore"):
        return float(np.max(np.nan_to_num(np.abs(array - true)[at] / np.abs(true[at])), initial=0.0))


def _cast(wide: Array, dtype: Any) -> Array:
    """Cast float64 numbers to a dtype, none of them to infinity."""
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.asarray(np.clip(wide, -largest, largest).astype(dtype))


def _between(first: Array, second: Array) -> Array:
    """Return the geometric mean of two arrays of the same signs."""
    left, right = _wide(first), _wide(second)
    return _cast(np.sign(right) * np.sqrt(np.abs(left)) * np.sqrt(np.abs(right)), second.dtype)


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64)


def _size(inputs: OtherInputs) -> float:
    """Return the largest of the changed numbers."""
    return max(_largest(inputs.record[name]) for name in inputs.changed)


def _largest(array: Array) -> float:
    """Return the largest finite number of an array, without its sign."""
    wide = np.abs(_wide(array))
    return float(np.max(wide, where=np.isfinite(wide), initial=0.0))
