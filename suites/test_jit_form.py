"""A jitted function with static arguments, in three spellings of `jax.jit`: the same program, and the same function.

Measured on CPU (jax 0.10.2, 8 devices). FINDING: MaxText pull request 3922, item 3, says that `@jax.jit(.)` loses name
and docstring, and can be compiled otherwise; the spellings give equal jaxprs but for the function's name, and equal
metadata, when wrapped further too.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

BATCH = ("data", "fsdp")
SIZES = {"rows": 16, "columns": 3, "named": 16}
FINITE = Domain(finite=("rows", "weights"), also="no product overflows")


def _each_once(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Every row once, in any order: what the way back adds up does not depend on the mesh then."""
    return rng.permutation(shape[0])


def _case(name: str, mesh: str, mode: Any, dtype: str, refuses: Any = (), **statics: Any) -> Case:
    return Case(id=name, sizes=SIZES, statics=statics, dtypes=(dtype,), meshes=(mesh,), modes=(mode,), refuses=refuses)


def _claims() -> tuple[Claim, ...]:
    source = "MaxText pull request 3922, item 3: the spelling of the decorator can change what is compiled"
    return (
        Claim(
            shows=VARIANT.program != REFERENCE.program,
            source=source,
            direction="forward",
            finding="both other spellings are compiled to the same program, seen on v5p:2x2x1, forward",
        ),
    )


PAIR = Pair(
    name="jit_form",
    reference="decorated",
    variants=("partial", "wrapped_late"),
    args={
        "rows": Arg(shape=("rows", "columns")),
        "ids": Arg(shape=("named",), dtype="int32", spec=(BATCH,), values=_each_once),
        "weights": Arg(shape=("named",), spec=(BATCH,)),
    },
    cases=(
        # Called without its static arguments: the defaults are those of the function, not of the call.
        _case("defaults", "data1", "auto", "float32"),
        _case("means", "fsdp4", "explicit", "float32", group=4, reduce="mean"),
        _case("narrow", "fsdp4", "auto", "bfloat16", group=2),
        _case(
            "uneven",
            "fsdp4",
            "auto",
            "float32",
            (Refusal(error="ValueError", match="group is 3; expected a number above 0 that divides the 16 ids"),),
            group=3,
        ),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "fsdp4"),
    modes=("auto", "explicit"),
    out_spec={"out": (BATCH,)},
    compiled=(
        RealSize(
            case=Case(id="combine", sizes={"rows": 65536, "columns": 2048, "named": 65536}, statics={"group": 8}),
            layout="fsdp*",
            dtype="bfloat16",
            targets=("v5p:2x2x1",),
            claims=_claims(),
        ),
    ),
    documented=(
        Documented(
            id="3922.3",
            document="MaxText #3922, item 3: kernels/gather_reduce_sc.py",
            says="functools.partial keeps the name and docstring that jax.jit as a decorator loses",
            finding="both spellings keep name, docstring, signature and what is wrapped, and are traced as often: "
            "there is nothing to keep",
            tests=(
                "test_a_jitted_function_keeps_its_metadata",
                "test_so_does_one_that_is_wrapped_further",
            ),
        ),
    ),
    contracts=(
        Contract(
            lowest="rounding",
            reason="sums of products over rows, which a mesh makes in programs of other shapes; no bit differs here",
            domain=FINITE,
        ),
        # On one device all three are one program; and of the narrow case each sum has but two terms.
        Contract(mesh="data1", domain=FINITE),
        Contract(case="narrow", direction="forward", domain=FINITE),
    ),
    accuracy=2,
)

test_jit_form = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
STATICS = ("group", "reduce")


def _arrays() -> tuple[Any, ...]:
    import jax.numpy as jnp

    return jnp.arange(12.0).reshape(4, 3), jnp.array([3, 0, 0, 2], "int32"), jnp.array([1.0, 2.0, -1.0, 4.0])


@SIDES
def test_a_jitted_function_keeps_its_metadata(side: str) -> None:
    """FINDING: name, docstring, signature, annotations and the function inside, whatever the spelling."""
    _check_metadata(implementation(PAIR, side), side)


def test_a_function_around_it_loses_its_metadata() -> None:
    """The fault that the test above is for: the same bits, and another name, docstring and signature."""
    inner = implementation(PAIR, "wrapped_late")

    def wrapped_late(*arrays: Any, **statics: Any) -> Any:
        return inner(*arrays, **statics)

    assert_same_bits(wrapped_late(*_arrays()), np.asarray(inner(*_arrays())))
    with pytest.raises(AssertionError):
        _check_metadata(wrapped_late, "wrapped_late")


def _check_metadata(function: Any, side: str) -> None:
    assert function.__name__ == function.__qualname__ == side
    assert function.__module__ == inspect.unwrap(function).__module__
    assert "Equivalent to" in (function.__doc__ or "")
    assert list(inspect.signature(function).parameters) == ["rows", "ids", "weights", *STATICS]
    assert {name: inspect.signature(function).parameters[name].default for name in STATICS} == {
        "group": 2,
        "reduce": "sum",
    }
    assert inspect.isfunction(function.__wrapped__)
    assert function.__wrapped__.__name__ == side
    assert inspect.getsource(function.__wrapped__).count(f"def {side}(") == 1


@SIDES
def test_so_does_one_that_is_wrapped_further(side: str) -> None:
    """FINDING: said to interact poorly where the jitted function is wrapped or inspected: it does not."""
    import jax

    function = implementation(PAIR, side)

    @functools.wraps(function)
    def outer(*arrays: Any, **statics: Any) -> Any:
        return function(*arrays, **statics)

    assert (outer.__name__, outer.__doc__) == (side, function.__doc__)
    assert inspect.signature(outer) == inspect.signature(function)
    again: Any = jax.jit(function, static_argnames=STATICS)
    assert (again.__name__, inspect.signature(again)) == (side, inspect.signature(function))
    arrays = _arrays()
    expected = np.asarray(function(*arrays, group=2))
    for other in (outer, again):
        assert_same_bits(other(*arrays, group=2), expected)


def test_the_jaxprs_are_equal_but_for_the_name() -> None:
    import jax

    texts = set()
    for side in PAIR.sides:
        function = functools.partial(implementation(PAIR, side), group=4, reduce="mean")
        texts.add(re.sub(rf"\b{side}\b", "NAME", str(jax.make_jaxpr(function)(*_arrays()))))
    assert len(texts) == 1
    assert "name=NAME" in texts.pop()


def _traces(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often five calls with two different settings of the static arguments are traced."""
    import jax

    jax.clear_caches()
    seen = []
    real = jax.sharding.auto_axes

    def counted(*arguments: Any, **options: Any) -> Any:
        seen.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(jax.sharding, "auto_axes", counted)
    for statics in ({"group": 2}, {"group": 4}, {"group": 2}, {"group": 4, "reduce": "sum"}, {"group": 4}):
        function(*_arrays(), **statics)
    return len(seen)


@pytest.mark.sampled(1)
@SIDES
def test_each_setting_is_traced_once(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three, as jax takes a default that is written out for another call."""
    assert _traces(implementation(PAIR, side), monkeypatch) == 3


@SIDES
@pytest.mark.parametrize(
    ("statics", "error", "said"),
    [
        ({"group": [2]}, ValueError, "Non-hashable static arguments are not supported"),
        ({"groups": 2}, TypeError, "unexpected keyword argument 'groups'"),
        ({"reduce": "max"}, ValueError, "reduce is 'max'; expected sum or mean"),
        ({"group": 0}, ValueError, "group is 0; expected a number above 0 that divides the 4 ids"),
    ],
)
def test_wrong_static_arguments_are_refused(side: str, statics: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        implementation(PAIR, side)(*_arrays(), **statics)


@SIDES
def test_static_arguments_are_keywords_only(side: str) -> None:
    with pytest.raises(TypeError, match=rf"{side}\(\) takes 3 positional arguments but 4 were given"):
        implementation(PAIR, side)(*_arrays(), 2)


@SIDES
def test_arrays_of_other_shapes_are_refused(side: str) -> None:
    rows, ids, weights = _arrays()
    for wrong in ((rows[0], ids, weights), (rows, ids[None], weights), (rows, ids, weights[:2])):
        with pytest.raises(ValueError, match=r"expected \[rows, columns\], \[outputs \* group\] and"):
            implementation(PAIR, side)(*wrong)


@SIDES
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_combine_replayed_with_rows_named_twice(side: str, reduce: str, dtype: str) -> None:
    rows, ids, weights = (np.asarray(array) for array in _arrays())
    found = implementation(PAIR, side)(rows.astype(dtype), ids, weights.astype(dtype), group=2, reduce=reduce)
    expected = [[1 * r3 + 2 * r0, -1 * r0 + 4 * r2] for r0, r2, r3 in zip(rows[0], rows[2], rows[3], strict=True)]
    assert found.dtype == dtype
    assert_same_bits(found, (np.array(expected).T / (2 if reduce == "mean" else 1)).astype(dtype))


def test_statics_that_are_not_static_are_seen() -> None:
    """Forgotten, they are tracers, and the Python that reads them fails; misspelt, `jax.jit` refuses the name."""
    import jax

    inner = inspect.unwrap(implementation(PAIR, "partial"))
    with pytest.raises(TypeError, match="problematic value is of type <class 'str'>"):
        jax.jit(inner, static_argnames=("group",))(*_arrays(), group=2, reduce="sum")
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(inner, static_argnames=("reduce",))(*_arrays(), group=2)
    with pytest.raises(ValueError, match=r"invalid argnames \{'groups'\} in static_argnames"):
        jax.jit(inner, static_argnames=("groups", "reduce"))
