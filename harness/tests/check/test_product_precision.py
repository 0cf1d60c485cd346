"""A variant whose products have a lower precision has the reference's bits on a CPU, and a remark says where not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from samebits.check.sites import precision_remark
from tests.support.toys import of, run, toy

SAYS = "its products have precision DEFAULT, the reference's HIGHEST: equal on a CPU, not on a TPU or with TF32"
X = jax.ShapeDtypeStruct((4, 4), jnp.float32)


def _product(precision: Any = None, dtype: Any = None) -> Callable[[Any], Any]:
    return lambda x: jnp.dot(*(x.astype(dtype or x.dtype),) * 2, precision=precision)


def _convolved(precision: Any, x: Any) -> Any:
    return lax.conv(x[None, None], x[None, None], (1, 1), "SAME", precision=precision)


def _looped(x: Any) -> Any:
    return lax.scan(lambda carry, _: (carry @ x, None), x, length=2)[0]


def _summed(x: Any) -> Any:
    x = x.astype(jnp.bfloat16)
    return lax.dot(x, x, preferred_element_type=jnp.float32).astype(x.dtype)


HIGHEST = _product("highest")


@pytest.mark.parametrize(
    ("reference", "variant", "remark"),
    [
        (HIGHEST, _product(), SAYS),
        (HIGHEST, _looped, SAYS),
        (HIGHEST, lambda x: HIGHEST(x) @ x, SAYS.replace("DEFAULT", "HIGHEST and DEFAULT")),
        (_product("high"), HIGHEST, SAYS.replace("HIGHEST", "HIGH").replace("DEFAULT", "HIGHEST")),
        (
            _product(),
            HIGHEST,
            "its products have precision HIGHEST, the reference's DEFAULT: equal on a CPU, not on a TPU or with TF32",
        ),
        (
            lambda x: HIGHEST(x) @ x,
            lambda x: HIGHEST(x @ x),
            SAYS.replace("its products have", "one of its products has"),
        ),
        (lambda x: HIGHEST(x) @ x, lambda x: HIGHEST(x) @ x, None),
        (
            _product(None, jnp.bfloat16),
            _summed,
            "its products are summed in float32, the reference's in bfloat16: other bits on other hardware",
        ),
        (_summed, _summed, None),
        (
            partial(_convolved, None),
            partial(_convolved, "highest"),
            SAYS.replace("HIGHEST", "X").replace("DEFAULT", "HIGHEST").replace("X", "DEFAULT"),
        ),
        (HIGHEST, partial(_convolved, lax.Precision.HIGH), SAYS.replace("DEFAULT", "HIGH")),
        (_product("highest", jnp.bfloat16), _product(None, jnp.bfloat16), None),
        (HIGHEST, lambda x: (x[:, :, None] * x).sum(1), None),
        (lambda x: x, _product(), None),
        (_product("F32_F32_F32"), _product("F32_F32_F32"), None),
        (
            _product("BF16_BF16_F32_X3"),
            _product("BF16_BF16_F32"),
            "its products have precision BF16_BF16_F32, the reference's BF16_BF16_F32_X3: other bits where hardware "
            "follows that",
        ),
    ],
)
def test_a_lower_precision_is_remarked(reference: Any, variant: Any, remark: str | None) -> None:
    assert precision_remark(*(jax.make_jaxpr(side)(X) for side in (reference, variant))) == remark


def _exact(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.dot(x, x.T, precision="highest") * factor


def test_a_lower_precision_is_said_with_the_verdict() -> None:
    (result,) = of(
        run(toy(_exact, short=lambda x, *, factor=2.0: jnp.dot(x, x.T) * factor), gradients=False), variant="short"
    )
    assert result.ruling.verdict in ("bitwise", "rounding")  # jax 0.12 multiplies otherwise by default, on a CPU too
    assert f"'short': {SAYS}" in str(result.ruling.evidence)
