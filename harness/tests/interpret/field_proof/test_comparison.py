"""The witness of formulas that differ shows numbers that differ, or says that they are equal at these inputs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.interpret.field_proof.comparison import compare_formulas  # noqa: F401  (by `identity`)
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.problem import Input, Question

EQUAL = "(equal at these inputs; as formulas they differ)"


def _mean(x: Any, mask: Any) -> Any:
    return (x * mask).sum() / mask.sum()


def _mean_of_means(x: Any, mask: Any) -> Any:
    return (_mean(x[:4], mask[:4]) + _mean(x[4:], mask[4:])) / 2


@pytest.mark.parametrize("ones", [True, False])
def test_equal_numbers_of_a_witness_are_said_to_be(ones: bool) -> None:
    mask = np.ones(8, np.float32) if ones else np.arange(1, 9, dtype=np.float32)
    arrays = {"x": np.arange(8, dtype=np.float32), "mask": mask}
    first, second = (jax.make_jaxpr(side)(*map(jnp.asarray, arrays.values())) for side in (_mean, _mean_of_means))
    inputs = [Input(name, array, magnitudes="given") for name, array in arrays.items()]
    proof = identity(Question(first, second, inputs, ["out"]))["out"]
    assert not proof.equal
    assert (EQUAL in str(proof.witness)) == ones
