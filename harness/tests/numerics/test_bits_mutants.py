"""Each rule of the comparison is removed in turn: a planted fault is then missed, so every rule is needed."""

import inspect
import sys
import types

import pytest

from samebits.numerics import bits, difference_kinds
from tests.numerics.planted_bits import PLANTED
from tests.numerics.test_bits import check

MUTANTS: dict[str, tuple[str, str, str]] = {
    "bits are not compared": ("    if _same_bytes(a, b):\n", "    if True:\n", "wrong value"),
    "structure is not compared": (
        "if structure(reference) != structure(optimized)",
        "if False",
        "tuple for list",
    ),
    "container names do not count": (
        'name = "" if type(tree) in (dict, tuple, list) else type(tree).__name__',
        'name = ""',
        "named tuple for tuple",
    ),
    "None is no part of the structure": ('        return "None"', '        return "*"', "None for a leaf"),
    "order of ordered keys does not count": (
        "tree if isinstance(tree, OrderedDict) else sorted(tree)",
        "sorted(tree)",
        "another order of keys",
    ),
    "dtype is not compared": ('("dtype", a.dtype.name, b.dtype.name)', '("dtype", 0, 0)', "dtype of equal bits"),
    "weak type is not compared": (
        '("weak type", reference.weak_type, optimized.weak_type)',
        '("weak type", 0, 0)',
        "weak type",
    ),
    "weak type ends the comparison": (
        'not {"dtype", "shape"} & {',
        'not {"dtype", "shape", "weak type"} & {',
        "value behind a weak type",
    ),
    "shape is not compared": ('("shape", a.shape, b.shape)', '("shape", 0, 0)', "shape of nothing"),
    "an empty leaf counts nothing": ("count = a.size or 1", "count = a.size", "shape of nothing"),
    "first fact only": (
        "for kind, want, got in facts if want != got]",
        "for kind, want, got in facts if want != got][:1]",
        "dtype and shape",
    ),
    "values for bits": ("    return floats.raw_bits(array)\n", "    return array\n", "sign of zero"),
    "zeros are rounding": ("zero_a & zero_b", "zero_a & ~zero_a", "sign of zero"),
    "flushing is rounding": ("zero_a & small_b", "zero_a & zero_b", "subnormal flushed"),
    "NaN is a number": ("nan_a ^ nan_b", "nan_a & ~nan_a", "NaN for a number"),
    "NaN is infinity": ("nan_a ^ nan_b", "nan_a & ~nan_a", "NaN for infinity"),
    "NaN has no payload": ("nan_a & nan_b", "nan_a & ~nan_a", "NaN payload"),
    "overflow is not seen": ("inf_a ^ inf_b)", "inf_a & ~inf_a)", "overflow"),
    "infinities of both signs overflow": ("inf_a ^ inf_b)", "inf_a | inf_b)", "infinity of the other sign"),
    "everything is rounding": ("ulps <= _rounding_limit(a.dtype)", "ulps >= 0", "just not rounding"),
    "nothing is rounding": ("ulps <= _rounding_limit(a.dtype)", "ulps < 0", "rounding"),
    "rounding crosses zero": (" | (floats.is_negative(a) != floats.is_negative(b))", "", "across zero"),
    "infinity is subtracted": (
        "finite = floats.isfinite(a) & floats.isfinite(b)",
        "finite = ~(floats.isnan(a) | floats.isnan(b))",
        "overflow",
    ),
    "NaN is subtracted": (
        "finite = floats.isfinite(a) & floats.isfinite(b)",
        "finite = ~(floats.isinf(a) | floats.isinf(b))",
        "NaN payload",
    ),
    "only the real part": ("[(a.real, b.real), (a.imag, b.imag)]", "[(a.real, b.real)]", "sign of an imaginary zero"),
    "the milder part": (
        "np.min([codes for",
        "np.max([codes for",
        "the graver part of a complex number",
    ),
    "unsigned read as signed": (
        "wide = np.uint64 if a.dtype == np.uint64 else np.int64",
        "wide = np.int64",
        "unsigned integers",
    ),
    "last difference as witness": (
        "places[np.argmax(own)]",
        "places[np.flatnonzero(own)[-1]]",
        "two values",
    ),
    "the first difference as witness": (
        "places[np.argmax(own)]",
        "places[0]",
        "NaN beside rounding",
    ),
    "the first class in order as witness": (
        "min(kinds, key=DECIDING.index)",
        "min(kinds, key=KINDS.index)",
        "NaN payload beside rounding",
    ),
}
"""For each: the text of a rule, the text without it, and the planted fault that needs the rule."""

BROKEN = (AssertionError, ValueError, IndexError)
"""A mutant misses the fault, or breaks down over the arrays that the rule would have kept from it."""


def whole_source() -> str:
    """The comparison as one module: the classes of difference, then what is written in terms of them."""
    own = inspect.getsource(bits).splitlines(keepends=True)
    rest = [line for line in own if not line.startswith(("from __future__", f"from {difference_kinds.__name__} "))]
    assert len(own) - len(rest) == 2, f"'{bits.__name__}' is written in another way; adapt this function"
    return inspect.getsource(difference_kinds) + "".join(rest)


def load(source: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module made of a source text, beside the real one."""
    module = types.ModuleType("mutant_of_bits")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return module


def test_the_source_unchanged_is_no_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(whole_source(), monkeypatch)
    for planted in PLANTED.values():
        check(planted, module)


@pytest.mark.parametrize("name", MUTANTS)
def test_without_its_rule_the_fault_goes_unseen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, fault = MUTANTS[name]
    source = whole_source()
    assert source.count(old) == 1, f"the rule '{old}' has been rewritten; adapt MUTANTS in {__file__}"
    check(PLANTED[fault])
    mutant = load(source.replace(old, new), monkeypatch)
    with pytest.raises(BROKEN):
        check(PLANTED[fault], mutant)
