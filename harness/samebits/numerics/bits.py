"""True bit equality of two trees of arrays, and an explanation of every difference.

`same_bits` is fast, for two arrays. `compare` takes two trees (structure, then dtype, weak type, shape and bits) and
explains only what differs. NumPy's and chex's exact asserts are not a substitute: they pass +0.0 for -0.0, by default a
float32 for a float64, and ignore NaN payloads (measured in `tests/numerics/test_bits.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.errors import CouldNotRun, NothingCompared
from samebits.numerics import floats
from samebits.numerics.difference_kinds import DECIDING, KINDS, Kind, across, classified, element_bits
from samebits.numerics.floats import Array
from samebits.schema.difference import Difference, Farthest, Witness
from samebits.schema.shown import Shown

# Which elements of an array may change places with each other, as those of a random draw.
SAMPLED = 1 << 18
"""Elements of a larger array that are looked at for numbers that repeat."""


def free_places(array: Array) -> Array:
    """Return the places of a flat array whose elements may change places with each other, as those of a random draw."""
    values = np.asarray(array, np.float64)
    nowhere = np.zeros(0, np.int64)
    if values.size < 2 or not np.isfinite(values).all() or _is_structured(values):
        return nowhere
    sample = values.reshape(-1)
    if sample.size > SAMPLED:
        sample = sample[np.random.default_rng(0).integers(0, sample.size, SAMPLED)]
    few, often, ordered = max(1, values.size // 4), max(1, sample.size // 4), np.sort(sample)
    if not np.any(ordered[often:] == ordered[: sample.size - often]):  # no number makes up more than a quarter
        return np.arange(values.size)
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    once = np.sort(first[counts == 1])
    return once if once.size > few else nowhere


def _is_structured(values: Array) -> bool:
    """Return whether elements are sorted or symmetric, or have sums that are one number."""
    for axis in range(values.ndim):
        if values.shape[axis] <= 2:
            continue
        # Few elements are looked at first: where these are not in order, the whole is not.
        for along in (values[tuple(slice(min(size, 64)) for size in values.shape)], values):
            steps = np.diff(along, axis=axis)
            ordered = bool(np.all(steps >= 0) or np.all(steps <= 0))
            if not ordered:
                break
        if ordered or _even(values.sum(axis)) or _even(np.square(values).sum(axis)):
            return True
    square = values.ndim >= 2 and values.shape[-1] == values.shape[-2] > 1
    corner = values[..., :64, :64] if square else values
    return square and all(np.allclose(each, np.swapaxes(each, -1, -2), rtol=1e-2) for each in (corner, values))


def _even(sums: Array) -> bool:
    """Return whether several numbers are one, up to the rounding of bfloat16."""
    return bool(sums.size > 1 and np.ptp(sums) <= 1e-2 * np.max(np.abs(sums)))


_BLOCK = 1 << 14
"""Elements that are explained at once: what is made of them on the way stays in the cache of a core."""

_CHUNK = 1 << 18  # bytes: fits into the cache of a core, costs far more than a call (`benchmarks/bits.py`)


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """One array of an output on the host, with what NumPy cannot carry."""

    array: Array
    weak_type: bool = False

    @classmethod
    def of(cls, value: Any) -> Leaf:
        """Return a leaf from a jax array, a NumPy array, a scalar or a leaf; the bits are taken as they are.

        Raises:
            CouldNotRun: the value is not an array of numbers, so its bits mean nothing.
        """
        if isinstance(value, Leaf):
            return value
        try:
            array = np.asarray(value)
        except TypeError:  # jax rejects its typed random keys
            array = np.empty((), object)
        if not floats.is_number(array.dtype):
            raise CouldNotRun(
                f"a leaf of type {type(value).__name__} and dtype {getattr(value, 'dtype', array.dtype)} has no bits "
                "to compare; return arrays of numbers in dicts, tuples and lists (jax.random.key_data of a random key)"
            )
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return cls(array=array, weak_type=bool(getattr(value, "weak_type", False)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison(Shown):
    """What comparing one leaf found.

    Args:
        path: the leaf's path, such as `out` or `out['rows']`.
        elements: how many elements were compared.
        mismatches: how many of them differ.
        max_ulp: the largest distance in ulps among finite differences; for integers, of the values; else None.
        kinds: how many elements differ in which way.
        farthest: by class, for those that have one, the largest distance in ulps.
        across: by class, where the values with that distance lie on both sides of 0, or one of them on it.
        witness: the first element of the class that decides, by `DECIDING`.
        detail: for a difference of structure, dtype, weak type or shape: what each side has.
    """

    path: str
    elements: int
    mismatches: int = 0
    max_ulp: int | None = 0
    kinds: Mapping[Kind, int] = field(default_factory=dict)
    farthest: Mapping[Kind, int] = field(default_factory=dict)
    across: Mapping[Kind, Farthest] = field(default_factory=dict)
    witness: Witness | None = None
    detail: str | None = None

    @property
    def typed(self) -> bool:
        """Tell whether the leaves have the same place and another dtype or weak type."""
        return bool({"dtype", "weak type"} & set(self.kinds)) and "structure" not in self.kinds

    @property
    def equal(self) -> bool:
        """Tell whether every bit is the same."""
        return not self.kinds

    @property
    def kind(self) -> Kind | None:
        """Return the gravest class of difference, None where the bits are equal."""
        return next((kind for kind in KINDS if kind in self.kinds), None)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Return its classes, the largest first."""
        largest = sorted(self.kinds.items(), key=lambda entry: -entry[1])
        return tuple(
            Difference(kind=k, elements=n, max_ulp=self.farthest.get(k), farthest=self.across.get(k))
            for k, n in largest
        )


def same_bits(left: Array, right: Array) -> bool:
    """Return whether two arrays have the same dtype, shape and bits.

    Equivalent to comparing `dtype`, `shape` and `tobytes()`, but for the unused bits of sub-byte dtypes.

    Args:
        left: a NumPy array of any shape and dtype, those of ml_dtypes included.
        right: the other one.
    """
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.itemsize == 0 or left.size == 0:  # float0, jax's gradient of an integer, has no bits
        return True
    a, b = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (left, right))
    if _same_bytes(a, b):
        return True
    return floats.width(left.dtype) < 8 and bool(np.array_equal(floats.raw_bits(left), floats.raw_bits(right)))


def _same_bytes(a: Array, b: Array) -> bool:
    whole = a.size - a.size % 8
    words_a, words_b = a[:whole].view(np.uint64), b[:whole].view(np.uint64)
    step = _CHUNK // 8
    for start in range(0, words_a.size, step):
        if not np.array_equal(words_a[start : start + step], words_b[start : start + step]):
            return False
    return bool(np.array_equal(a[whole:], b[whole:]))


def paths(tree: Any, name: str = "out") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a tree of dicts, tuples and lists, each with its path; None is an empty tree.

    Equivalent to `jax.tree_util.tree_leaves_with_path` for these containers, without importing jax.
    """
    if tree is None:
        return
    if isinstance(tree, Mapping):
        for key in sorted(tree):
            yield from paths(tree[key], f"{name}[{key!r}]")
    elif isinstance(tree, tuple | list):
        for position, item in enumerate(tree):
            yield from paths(item, f"{name}[{position}]")
    else:
        yield name, tree


def structure(tree: Any) -> str:
    """Return the shape of a tree without its leaves, such as `{'rows': *, 'sizes': *}`.

    Equivalent to `str(jax.tree_util.tree_structure(tree))`; the name of any other container type counts, as in jax.
    """
    if tree is None:
        return "None"
    if not isinstance(tree, Mapping | tuple | list):
        return "*"
    name = "" if type(tree) in (dict, tuple, list) else type(tree).__name__
    if isinstance(tree, Mapping):
        keys = tree if isinstance(tree, OrderedDict) else sorted(tree)
        return name + "{" + ", ".join(f"{key!r}: {structure(tree[key])}" for key in keys) + "}"
    inner = ", ".join(structure(item) for item in tree)
    return f"{name}({inner})" if isinstance(tree, tuple) else f"{name}[{inner}]"


def compare(*, reference: Any, optimized: Any, name: str = "out") -> list[Comparison]:
    """Compare two trees bit for bit; one `Comparison` for each leaf of the reference.

    Args:
        reference: a tree (dicts, tuples, lists) of arrays of any shape and dtype, of NumPy or jax.
        optimized: the other tree; both are keyword-only so that they cannot be swapped.
        name: the path of the root; `out` by default.

    Returns:
        One comparison per leaf; a single one of kind `structure` where the trees differ.

    Raises:
        NothingCompared: the reference has no leaf.
    """
    if structure(reference) != structure(optimized):
        detail = f"reference={structure(reference)}, variant={structure(optimized)}"
        return [Comparison(path=name, elements=0, mismatches=1, max_ulp=None, kinds={"structure": 1}, detail=detail)]
    left, right = list(paths(reference, name)), list(paths(optimized, name))
    if not left:
        raise NothingCompared(f"'{name}' has no leaves; the reference must return at least one array")
    return [compare_leaf(path, Leaf.of(a), Leaf.of(b)) for (path, a), (_, b) in zip(left, right, strict=True)]


def compare_leaf(path: str, reference: Leaf, optimized: Leaf) -> Comparison:
    """Compare one leaf: dtype, weak type and shape, then, where dtype and shape agree, bits."""
    a, b = reference.array, optimized.array
    facts: tuple[tuple[Kind, Any, Any], ...] = (
        ("dtype", a.dtype.name, b.dtype.name),
        ("shape", a.shape, b.shape),
        ("weak type", reference.weak_type, optimized.weak_type),
    )
    wrong = [(kind, f"{kind}: reference={want}, variant={got}") for kind, want, got in facts if want != got]
    comparable = not {"dtype", "shape"} & {kind for kind, _ in wrong}
    if comparable and same_bits(a, b):
        comparison = Comparison(path=path, elements=a.size)
    elif comparable:
        comparison = _explain(path, a, b)
    else:
        comparison = Comparison(path=path, elements=a.size, max_ulp=None)
    if not wrong:
        return comparison
    count = a.size or 1  # an empty leaf of the wrong shape is one difference, never none
    mixed = replace(comparison, mismatches=count, kinds={kind: count for kind, _ in wrong} | dict(comparison.kinds))
    return replace(mixed, detail="; ".join(text for _, text in wrong).removeprefix(f"{mixed.kind}: "))


def _explain(path: str, a: Array, b: Array) -> Comparison:
    """Explain how two arrays of one dtype and shape differ in their bits; slow, and only called then."""
    kinds, first, far, pairs = (
        dict[Kind, int](),
        dict[Kind, int](),
        dict[Kind, int](),
        dict[Kind, tuple[Array, Array]](),
    )
    left, right = (np.ascontiguousarray(array).reshape(-1) for array in (a, b))
    for start in range(0, left.size, _BLOCK):
        x, y = left[start : start + _BLOCK], right[start : start + _BLOCK]
        places = np.flatnonzero(element_bits(x) != element_bits(y))
        x, y = x[places], y[places]
        codes, ulps, finite = classified(x, y)
        for code in np.flatnonzero(np.bincount(codes)):
            kind, own = KINDS[code], codes == code
            kinds[kind] = kinds.get(kind, 0) + int(np.count_nonzero(own))
            first.setdefault(kind, start + int(places[np.argmax(own)]))
            apart = np.flatnonzero(own & finite)
            at = apart[np.argmax(ulps[apart])] if apart.size else None
            if at is not None and (kind not in far or ulps[at] > far[kind]):
                far[kind], pairs[kind] = int(ulps[at]), (x[at : at + 1], y[at : at + 1])
    kinds = {kind: kinds[kind] for kind in KINDS if kind in kinds}
    decides = min(kinds, key=DECIDING.index)
    return Comparison(
        path=path,
        elements=a.size,
        mismatches=sum(kinds.values()),
        max_ulp=max(far.values(), default=None),
        kinds=kinds,
        farthest={kind: far[kind] for kind in kinds if kind in far},
        across=across(far, pairs),
        witness=witness_at(path, a, b, np.unravel_index(first[decides], a.shape)),
    )


def witness_at(path: str, reference: Array, optimized: Array, index: Iterable[Any]) -> Witness:
    """Return one differing element of two arrays of one dtype and shape, described by its own class."""
    at = tuple(int(place) for place in index)
    codes, ulps, finite = classified(*(np.asarray(array[at]).reshape(1) for array in (reference, optimized)))
    return Witness(
        leaf=path,
        index=at,
        reference=floats.show(reference[at]),
        optimized=floats.show(optimized[at]),
        reference_hex=floats.hexadecimal(reference[at]),
        optimized_hex=floats.hexadecimal(optimized[at]),
        kind=KINDS[codes[0]],
        ulps=int(ulps[0]) if finite[0] else None,
    )
