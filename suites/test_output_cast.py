"""A gated layer with a cast of its hidden activations, without it, and with it only where it changes the dtype.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 24 seeds at the shapes of the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Domain,
    Normal,
    Pair,
    Refusal,
    assert_same_bits,
    implementation,
    pair_test,
)

BATCH = ("data", "fsdp")
SIZES = {"tokens": 8, "embed": 4, "mlp": 6, "columns": 4}
FINITE = Domain(finite=("*",))


def _case(
    name: str, mode: Any, dtype: str = "bfloat16", sizes: Any = SIZES, refuses: Any = (), **statics: bool
) -> Case:
    symbols = {} if refuses else {"columns": "embed"}  # the result has the shape of x
    return Case(id=name, sizes=sizes, symbols=symbols, statics=statics, dtypes=(dtype,), modes=(mode,), refuses=refuses)


def _rounds(reason: str, **where: Any) -> Contract:
    return Contract(lowest="rounding", reason=reason, domain=FINITE, **where)


PAIR = Pair(
    name="output_cast",
    reference="cast_kept",
    variants=("cast_removed", "cast_if_needed"),
    args={
        "x": Arg(shape=("tokens", "embed"), spec=(BATCH,)),
        "gate": Arg(shape=("embed", "mlp"), spec=(None, "tensor"), values=Normal(scale=0.5)),
        "up": Arg(shape=("embed", "mlp"), spec=(None, "tensor"), values=Normal(scale=0.5)),
        "down": Arg(shape=("mlp", "columns"), spec=("tensor",), values=Normal(scale=0.5)),
    },
    cases=(
        # The activations have the dtype of the layer; are float32, and the product casts; are float32, and it does not.
        _case("native", "auto"),
        _case("recast", "explicit", activations_in_float32=True, product_casts=True),
        _case("promoted", "auto", activations_in_float32=True),
        _case(
            "uneven",
            "auto",
            sizes={**SIZES, "columns": 3},
            refuses=(Refusal(error="ValueError", match=r"shapes \(8, 4\), \(4, 6\), \(4, 6\) and \(6, 3\)"),),
        ),
    ),
    dtypes=("bfloat16",),
    meshes=("fsdp4_tensor2",),
    modes=("auto", "explicit"),
    out_spec={"out": (BATCH,)},
    documented=(
        Documented(
            id="3922.9b",
            document="MaxText #3922, item 9b: layers/moe.py",
            says="the cast of the hidden activations is redundant: taking it away saves a copy",
            variants=("cast_removed",),
            finding="where the dtype already is, jax writes no equation for the cast: there is no copy to save",
            tests=("test_a_cast_to_the_same_dtype_is_not_in_the_program",),
        ),
    ),
    contracts=(
        _rounds(
            "products of matrices in bfloat16, and silu, whose bits a processor decides; no bit differs here where "
            "nothing more is said below"
        ),
        _rounds(
            "split over tensor, XLA:CPU rounds the parts of silu in bfloat16 elsewhere: the reference itself "
            "moves in 16 of 32 elements, and both variants have its bits on the mesh",
            case="native",
            direction="forward",
        ),
        _rounds(
            "FINDING: without the cast the last product takes float32 activations: 19 of 32 elements differ, "
            "with errors to both sides of the reference's",
            variant="cast_removed",
            case="promoted",
            direction="forward",
        ),
        _rounds(
            "FINDING: as forward, and the cotangent of the activations is float32 too: 34 of 96 elements of x differ",
            variant="cast_removed",
            case="promoted",
            direction="gradient",
        ),
    ),
    accuracy=2,
)

test_output_cast = pair_test(PAIR)

SIDES = pytest.mark.parametrize("side", PAIR.sides)


@functools.cache
def _layer(side: str, **statics: bool) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), **statics))


def _arrays(dtype: str, seed: int = 0) -> tuple[Any, ...]:
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.standard_normal(shape), dtype) for shape in ((8, 4), (4, 6), (4, 6), (6, 4)))


def _program(side: str, dtype: str, **statics: bool) -> Any:
    import jax

    return jax.make_jaxpr(_layer(side, **statics))(*_arrays(dtype))


def _last_product(program: Any) -> str:
    """The dtype of the activations that the last matrix product takes."""
    products = [equation for equation in _equations(program.jaxpr) if equation.primitive.name == "dot_general"]
    return str(products[-1].invars[0].aval.dtype)


def _equations(jaxpr: Any) -> Iterator[Any]:
    """All equations, those of inner jaxprs too, in order."""
    import jax

    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


@pytest.mark.parametrize(("dtype", "statics"), [("bfloat16", {}), ("float32", {"activations_in_float32": True})])
def test_a_cast_to_the_same_dtype_is_not_in_the_program(dtype: str, statics: dict[str, bool]) -> None:
    """FINDING: taking it away saves no copy there: jax writes no equation for it, so XLA has none to remove."""
    casts = {side: str(_program(side, dtype, **statics)).count("convert_element_type") for side in PAIR.sides}
    assert len(set(casts.values())) == 1, casts
    if dtype == "float32":
        assert casts == dict.fromkeys(PAIR.sides, 0)


def test_a_cast_decides_the_dtype_of_the_last_product() -> None:
    """FINDING: `activations_in_float32` without the cast makes the last product one of float32 operands."""
    promoted = {side: _program(side, "bfloat16", activations_in_float32=True) for side in PAIR.sides}
    operands = {side: _last_product(text) for side, text in promoted.items()}
    assert operands == {"cast_kept": "bfloat16", "cast_removed": "float32", "cast_if_needed": "bfloat16"}
    recast = {
        _last_product(_program(side, "bfloat16", activations_in_float32=True, product_casts=True))
        for side in PAIR.sides
    }
    assert recast == {"bfloat16"}, "a product that casts what it gets makes the cast before it a second one"


@pytest.mark.sampled(5)
@SIDES
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("in_float32", [False, True])
def test_the_layer_replayed_in_float64(side: str, dtype: str, in_float32: bool) -> None:
    """Small integers and a saturated activation, exact in every dtype: silu(128) is 128, silu(-128) is 0."""
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    x, gate = rng.choice([-1.0, 1.0], (8, 4)), 128 * np.eye(4)[:, [0, 1, 2, 3, 0, 1]]
    up, down = rng.integers(-2, 3, (4, 6)).astype(float), rng.integers(-1, 2, (6, 4)).astype(float)
    arrays = (jnp.asarray(array, dtype) for array in (x, gate, up, down))
    found = _layer(side, activations_in_float32=in_float32)(*arrays)
    assert found.dtype == dtype
    expected = (np.maximum(x @ gate, 0) * (x @ up)) @ down
    assert_same_bits(found, expected.astype(dtype))


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    x, gate, up, down = _arrays("bfloat16")
    for wrong in (
        (x[:, :3], gate, up, down),
        (x, gate[:, :5], up, down),
        (x, gate, up, down.T),
        (x[0], gate, up, down),
    ):
        with pytest.raises(ValueError, match=r"x, gate, up and down have shapes .*; expected"):
            _layer(side)(*wrong)
    with pytest.raises(ValueError, match="the weights have dtypes bfloat16, float32 and bfloat16; expected bfloat16"):
        _layer(side)(x, gate, up.astype(np.float32), down)
