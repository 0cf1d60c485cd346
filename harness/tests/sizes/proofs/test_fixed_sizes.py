"""Code that needs a size as a number: what is proved says so, and what is wrong at other values of it is refuted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits import Arg, AxisSize, Case, MeshSpec, Pair
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.pair_sizes import PairSizes
from tests.sizes.proofs.device_faults import AXIS, on_devices

X = np.arange(12 * 4, dtype=np.float32).reshape(12, 4)


def _flipped(x: Any) -> Any:
    return x[::-1]


def _in_halves(x: Any) -> Any:
    half = x.shape[0] // 2
    return jnp.concatenate([x[half : 2 * half][::-1], x[:half][::-1], x[2 * half :]])


FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "its number of rows": (lambda x: x if len(x) == 16 else x[::-1], "n=16"),
    "how far it is from a number": (lambda x: x if abs(x.shape[0] - 20) < 1 else x[::-1], "n=20"),
    "an integer": (lambda x: x if int(x.shape[0]) == 16 else x[::-1], "n=16"),
    "a quotient": (lambda x: x if x.shape[0] / 16 == 1.0 else x[::-1], "n=16"),
    "an odd number": (_in_halves, "n=3"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("wrong", "sizes"), FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_at_other_sizes_is_refuted(wrong: Callable[[Any], Any], sizes: str) -> None:
    proof = samebits.prove(_flipped, wrong, X, sizes={"x": "n, w"}, gradients=False)
    assert proof.verdict == "different", str(proof)
    assert f"at {sizes}, w=1: out[0, 0] is x[" in str(proof)


def test_a_proof_says_which_size_is_a_number_and_why() -> None:
    def honest(x: Any) -> Any:
        return x[np.arange(int(x.shape[0]))[::-1]]

    proof = samebits.prove(_flipped, honest, X, sizes={"x": "n, w"}, gradients=False)
    assert proof.verdict == "proved", str(proof)
    assert proof.leaves[0].proof.family is not None and proof.leaves[0].proof.family.kept == {"n": 12}
    assert "x float32[12, w]; n=12 alone (it cannot be traced with symbols for sizes: " in str(proof)


def test_a_fault_is_looked_for_where_no_size_can_be_a_symbol() -> None:
    proof = samebits.prove(_flipped, FAULTS["its number of rows"][0], X[:, 0], sizes={"x": "n"}, gradients=False)
    assert proof.verdict == "different" and "at n=16: out[0] is x[15]" in str(proof), str(proof)
    honest = samebits.prove(_flipped, lambda x: x[:: -min(len(x), 1)], X[:, 0], sizes={"x": "n"}, gradients=False)
    assert honest.verdict == "error" and "a symbolic size is not a number" in str(honest), str(honest)


@pytest.mark.slow
def test_a_rule_for_gradients_is_code_too() -> None:
    @jax.custom_vjp
    def wrong(x: Any) -> Any:
        return x[::-1]

    wrong.defvjp(lambda x: (wrong(x), None), lambda _, c: (c if len(c) == 16 else c[::-1],))
    proof = samebits.prove(_flipped, wrong, X, sizes={"x": "n, w"})
    assert {leaf.place.leaf: leaf.ruling.verdict for leaf in proof.leaves} == {"out": "proved", "x": "different"}
    assert "at n=16, w=1: x[0, 0] is the cotangent of out[15, 0]" in str(proof)


def test_an_output_that_is_the_same_at_other_sizes_stays_proved() -> None:
    def both(x: Any) -> Any:
        return {"flipped": x[::-1], "same": x}

    def wrong(x: Any) -> Any:
        return {"flipped": x if len(x) == 16 else x[::-1], "same": x}

    proof = samebits.prove(both, wrong, X, sizes={"x": "n, w"}, gradients=False)
    assert {leaf.place.leaf: leaf.ruling.verdict for leaf in proof.leaves} == {
        "out['flipped']": "different",
        "out['same']": "proved",
    }


def test_one_program_says_which_size_is_a_number() -> None:
    def mean(x: Any) -> Any:
        return jnp.sum(x, 0) / int(x.shape[0])

    proof = samebits.prove(mean, jax.jit(mean), X, sizes={"x": "n, w"}, gradients=False)
    (leaf,) = proof.leaves
    assert leaf.ruling.verdict == "proved" and leaf.proof.family is not None and leaf.proof.family.one_program
    assert leaf.proof.family.kept == {"n": 12} and "n=12 alone" in str(proof)


@pytest.mark.parametrize(("number", "verdict"), [(16, "different"), (None, "proved")])
def test_code_on_a_mesh_is_tried_too(number: int | None, verdict: str) -> None:
    """Each device turns its part round, whose length it needs as a number."""

    def reference(x: Any, *, cp: int) -> Any:
        return {"same": x, "turned": jnp.flip(x.reshape(cp, -1, x.shape[1]), 1).reshape(x.shape)}

    def variant(x: Any, *, cp: int) -> Any:
        turned = on_devices(lambda part: part if len(part) == number else part[::-1], cp, x)
        return {"same": x, "turned": turned}

    pair = Pair(
        name="turned",
        reference=reference,
        variants={"variant": variant},
        args={"x": Arg(shape=("length", "width"), spec=(AXIS, None))},
        cases=(
            Case(
                id="small",
                sizes={"length": 12, "width": 2},
                statics={"cp": AxisSize(axis=AXIS)},
                symbols={"length": f"{AXIS}*rows"},
            ),
        ),
        dtypes=("float32",),
        meshes=(f"{AXIS}2",),
    )
    point = PairPoint(pair, "variant", pair.cases[0], "float32", "forward")
    proof = PairSizes(most_devices=3).prove(point, MeshSpec.parse(f"{AXIS}2"))
    same, leaf = proof.leaves
    assert (same.verdict, leaf.verdict) == ("proved", verdict), leaf
    if number is None:
        assert proof.family(leaf).kept == {"rows": 6}
    else:
        assert proof.place_of(leaf) == "at rows=16, width=1"  # on the mesh of the point, so that it is not named
        assert proof.family(leaf).mesh == f"{AXIS}2" and proof.family(leaf).shapes == {"x": "float32[2*rows, width]"}


def test_all_symbols_need_no_word() -> None:
    proof = samebits.prove(_flipped, lambda x: jnp.flip(x, 0), X, sizes={"x": "n, w"}, gradients=False)
    assert proof.verdict == "proved" and " alone (" not in str(proof)
