"""Gradients cast for the optimizer: every float32 leaf, only where the dtype differs, or after they were clipped.

Measured on CPU (jax 0.10.2, 8 devices). The gradients are nine-bit integers, so that a cast to bfloat16 loses
the last, while squares and their sum are exact in float32: the norm does not depend on the mesh, and every bit of
`guarded` must be the reference's.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from samebits import Arg, Case, Contract, Documented, Domain, Pair, Refusal, assert_same_bits, implementation, pair_test

MIXED = "fsdp4_tensor2"
ORDINARY = Domain(finite=("*",), also="no square overflows")


def _nine_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Different odd numbers of nine bits, of both signs."""
    numbers = rng.choice(np.arange(257, 512, 2), size=int(np.prod(shape)), replace=False)
    return (numbers * rng.choice([-1, 1], numbers.shape)).reshape(shape).astype(np.float64)


def _case(name: str, grad_dtype: str, max_norm: float | None, mesh: str, mode: Any, **more: Any) -> Case:
    statics = {"grad_dtype": grad_dtype, "max_norm": max_norm}
    return Case(id=name, sizes={"rows": 8, "columns": 4}, statics=statics, meshes=(mesh,), modes=(mode,), **more)


def _rounds(reason: str, case: str, leaf: str) -> Contract:
    return Contract(
        variant="clip_first",
        case=case,
        leaf=leaf,
        lowest="rounding",
        reason=reason,
        domain=ORDINARY,
    )


_ROUNDS_ONCE = (
    "FINDING: the reference rounds each gradient to bfloat16, and again after it was divided; cast last, it is rounded "
    "once, and up to 18 of 32 elements of a float32 gradient differ"
)

PAIR = Pair(
    name="grad_cast",
    reference="cast_always",
    variants=("guarded", "clip_first"),
    args={
        "kernel": Arg(shape=("rows", "columns"), spec=("fsdp", "tensor"), values=_nine_bits),
        # A leaf of a dtype of its own: what is cast is decided leaf by leaf.
        "scale": Arg(shape=("columns",), dtype="float32", spec=("tensor",), values=_nine_bits),
    },
    cases=(
        _case("kept", "float32", None, MIXED, "auto"),
        _case("narrow", "bfloat16", None, "fsdp8", "explicit"),
        _case("clipped", "bfloat16", 1.0, MIXED, "explicit"),
        _case("below", "bfloat16", 1e6, "fsdp8", "auto", dtypes=("float32",)),
        _case(
            "no_float",
            "int8",
            None,
            "fsdp8",
            "auto",
            dtypes=("float32",),
            refuses=(Refusal(error="ValueError", match="grad_dtype is int8; expected a floating point dtype"),),
        ),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("fsdp8", MIXED),
    modes=("auto", "explicit"),
    documented=(
        Documented(
            id="3922.13b",
            document="MaxText #3922, item 13b: trainers/pre_train/train.py",
            says="casting gradients only where the dtype differs changes nothing and saves copies",
            variants=("guarded",),
            finding="jax writes no equation for a cast to the same dtype: there is no copy to save",
            tests=("test_a_cast_to_the_same_dtype_is_not_in_the_program",),
        ),
    ),
    contracts=(
        Contract(
            lowest="rounding",
            reason="the norm is the root of a float32 sum of squares, made in parts on a mesh, and what is clipped is "
            "divided by it: bits that a processor decides. Those of cast_always and guarded are the same here",
            domain=ORDINARY,
        ),
        # What is not clipped is cast at most once.
        *(
            Contract(domain=ORDINARY, case=case, leaf=f"out?'{leaf}'?")
            for case in ("kept", "narrow")
            for leaf in ("kernel", "scale")
        ),
        *(
            _rounds(
                "FINDING: the norm is that of the gradients before they lose bits, closer to float64 than the "
                "reference's",
                case,
                "out?'norm'?",
            )
            for case in ("narrow", "clipped", "below")
        ),
        _rounds(_ROUNDS_ONCE, "clipped", "out?'kernel'?"),
        _rounds(_ROUNDS_ONCE, "clipped", "out?'scale'?"),
    ),
    # What comes out goes to the optimizer: nothing is derived from it.
    gradients=False,
    accuracy=2,
)

test_grad_cast = pair_test(PAIR)

SIDES = pytest.mark.parametrize("side", PAIR.sides)


@functools.cache
def _cast(side: str, grad_dtype: str = "float32", max_norm: float | None = None) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), grad_dtype=grad_dtype, max_norm=max_norm))


def _gradients(dtype: str = "float32", seed: int = 0) -> tuple[Any, Any]:
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((16, 8)), dtype), rng.standard_normal(8).astype(np.float32)


@SIDES
def test_a_cast_to_the_same_dtype_is_not_in_the_program(side: str) -> None:
    """FINDING: the guard saves no copy. jax writes no equation for a cast of float32 to float32; no side has one."""
    import jax

    program = str(jax.make_jaxpr(_cast(side, "float32", 1.0))(*_gradients()))
    assert "convert_element_type" not in program
    assert str(jax.make_jaxpr(_cast(side, "bfloat16", 1.0))(*_gradients())).count("new_dtype=bfloat16") >= 2


@SIDES
@pytest.mark.parametrize("grad_dtype", ["float32", "bfloat16", "float16"])
def test_only_float32_is_cast(side: str, grad_dtype: str) -> None:
    """A guard on float32 is neutral for no other reason: a bfloat16 gradient would be widened by a cast of all."""
    found = _cast(side, grad_dtype)(*_gradients("bfloat16"))
    assert (found["kernel"].dtype, found["scale"].dtype, found["norm"].dtype) == ("bfloat16", grad_dtype, "float32")
    assert_same_bits(found["kernel"], _gradients("bfloat16")[0])


@SIDES
@pytest.mark.parametrize("grad_dtype", ["bfloat16", "float16"])
def test_every_bit_is_that_of_a_cast(side: str, grad_dtype: str) -> None:
    """-0.0, NaN, infinities, subnormals and what overflows in float16, where nothing is clipped."""
    import jax.numpy as jnp

    specials = np.array([-0.0, np.nan, np.inf, -np.inf, 1e-40, 1e5, 65519.9, -1e-8], np.float32)
    found = _cast(side, grad_dtype)(np.ones((2, 8), np.float32), specials)["scale"]
    assert_same_bits(found, jnp.asarray(specials).astype(grad_dtype))


@SIDES
def test_the_order_of_cast_and_clip_decides_what_overflows(side: str) -> None:
    """FINDING: 1e5 is infinite in float16. Cast first, clipping makes it NaN; clipped first, it is 1."""
    gradients = np.zeros((2, 8), np.float32), np.array([1e5, 0, 0, 0, 0, 0, 0, 0], np.float32)
    found = np.asarray(_cast(side, "float16", 1.0)(*gradients)["scale"], np.float32)
    if side == "clip_first":
        assert found[0] == 1
    else:
        assert np.isnan(found[0])
    assert np.all(found[1:] == 0)


@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
def test_what_is_clipped_has_the_norm_asked_for(side: str, dtype: str) -> None:
    """Over 24 seeds: noise 2.9e-3 in bfloat16, of a norm that is rounded, and 1.1e-7 in float32."""
    found = _cast(side, dtype, 1.0)(*_gradients(dtype))
    norm = np.sqrt(sum(np.sum(np.square(np.asarray(found[name], np.float64))) for name in ("kernel", "scale")))
    assert abs(norm - 1) < (1e-2 if dtype == "bfloat16" else 1e-6)
    assert float(found["norm"]) > 5, "the norm is the one before the clipping"


@SIDES
def test_a_norm_below_the_limit_clips_nothing(side: str) -> None:
    gradients = _gradients()
    found = _cast(side, "float32", 1e3)(*gradients)
    assert_same_bits(found["kernel"], gradients[0])
    assert_same_bits(found["scale"], gradients[1])


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    with pytest.raises(ValueError, match=r"max_norm is 0\.0; expected a number above 0, or None"):
        _cast(side, "float32", 0.0)(*_gradients())
    with pytest.raises(ValueError, match="max_norm is nan; expected a number above 0, or None"):
        _cast(side, "float32", float("nan"))(*_gradients())
    with pytest.raises(ValueError, match="grad_dtype is int8; expected a floating point dtype"):
        _cast(side, "int8")(*_gradients())
