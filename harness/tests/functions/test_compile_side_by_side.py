"""`compare_programs`: what a compiler makes of two functions."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.errors import RequestError
from tests.functions import specimens as f

X = jax.ShapeDtypeStruct((64, 32), jnp.float32)


def test_the_same_program_is_proved() -> None:
    compared = samebits.compare_programs(lambda x: x + x, lambda x: jnp.add(x, x), X, target="cpu")
    assert compared.verdict == "proved"
    assert [leaf.direction for leaf in compared.leaves] == ["forward", "gradient"]
    compared.raise_for_status()
    assert "PROVED, same program" in repr(compared)
    assert "proved" in compared._repr_html_()


@pytest.mark.slow
def test_another_program_shows_both() -> None:
    compared = samebits.compare_programs(f.softmax, f.wrong_axis, X, target="cpu", mesh="dp*", specs=P("dp"))
    assert compared.verdict is None
    with pytest.raises(AssertionError, match=r"softmax_wrong_axis, forward: call, x float32\[64,32\]"):
        compared.raise_for_status()


def test_a_mesh_of_devices_is_a_wrong_request() -> None:
    mesh = jax.make_mesh((1,), ("dp",), devices=jax.devices()[:1])
    with pytest.raises(RequestError, match=r"expected a layout such as 'fsdp\*_tensor2'"):
        samebits.compare_programs(f.softmax, f.shifted, X, target="cpu", mesh=mesh)  # type: ignore[arg-type]


def test_an_unknown_target_is_a_wrong_request() -> None:
    with pytest.raises(RequestError, match="target 'gpu' is malformed"):
        samebits.compare_programs(f.softmax, f.shifted, X, target="gpu")
