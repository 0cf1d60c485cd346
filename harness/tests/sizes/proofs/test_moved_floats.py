"""What is shown of floats that are only moved is shown once for all of their dtypes, and of nothing else."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import Arg, Case, MeshSpec, Pair
from samebits.prove.same_program import written
from samebits.sizes.proofs import mesh_proofs
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import PairProof, SizesProof, prove_all_sizes
from samebits.sizes.proofs.mesh_proofs import in_any_float, one_moved_dtype
from samebits.sizes.proofs.pair_sizes import PairSizes
from tests.sizes.proofs.device_faults import RINGS, ring_pair
from tests.sizes.proofs.moved_faults import MOVED, check_honest, check_numbers, check_refuted
from tests.sizes.proofs.size_faults import Honest

DTYPES = ("float32", "bfloat16", "float16")


def _in_each_dtype(pair: Pair, mesh: str = "none", dtypes: tuple[str, ...] = DTYPES) -> dict[str, PairProof]:
    """What one prover shows in one dtype after the other."""
    sizes, (variant,) = PairSizes(), pair.variant_names
    points = {dtype: PairPoint(pair, variant, pair.cases[0], dtype, "forward", "auto") for dtype in dtypes}
    return {dtype: sizes.prove(point, MeshSpec.parse(mesh)) for dtype, point in points.items()}


def _pair(reference: Callable[..., Any], variant: Callable[..., Any]) -> Pair:
    return Pair(
        name="moved",
        reference=reference,
        variants={"variant": variant},
        args={"x": Arg(shape=("rows", "columns"))},
        cases=(Case(id="small", sizes={"rows": 4, "columns": 6}),),
        dtypes=DTYPES,
        meshes=("none",),
        gradients=False,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The dtypes in which something is proved, as it happens."""
    dtypes: list[str] = []

    def counted(*functions: Any, **options: Any) -> list[SizesProof]:
        dtypes.append(next(iter(functions[2].args.values())).dtype)
        return prove_all_sizes(*functions, **options)

    monkeypatch.setattr(mesh_proofs, "prove_all_sizes", counted)
    return dtypes


@pytest.mark.slow
def test_other_dtypes_are_not_proved_again(asked: list[str]) -> None:
    """Neither on the mesh at hand nor on other numbers of devices; the sizes are said in the dtype of the point."""
    proofs = _in_each_dtype(ring_pair({"ppermute": RINGS["ppermute"]}), "context4")
    assert set(asked) == {"float32"}
    for dtype, proof in proofs.items():
        (leaf,) = proof.leaves
        assert leaf.verdict == "proved", leaf
        assert dtype in str(proof.family(leaf).shapes)
    assert len({str(proof.devices) for proof in proofs.values()}) == 1


def _backwards(x: Any) -> Any:
    return x[::-1]


def _flipped(x: Any) -> Any:
    return jnp.flip(x, 0)


def _padded(number: float) -> Callable[[Any], Any]:
    def padded(x: Any) -> Any:
        return jnp.pad(x, ((0, 1), (0, 0)), constant_values=number)

    return padded


def _taken(x: Any) -> Any:
    """By indices, where NaN stands for what is out of bounds."""
    return jnp.take(x, jnp.arange(x.shape[0])[::-1], axis=0)


@pytest.mark.slow
def test_nan_for_what_is_out_of_bounds_is_nan_in_every_dtype(asked: list[str]) -> None:
    proofs = _in_each_dtype(_pair(_taken, _flipped))
    assert {proof.leaves[0].verdict for proof in proofs.values()} == {"proved"}
    assert asked == ["float32"]


def _filled(x: Any, number: float) -> Any:
    return jnp.take(x, jnp.arange(4), mode="fill", fill_value=number)


@pytest.mark.parametrize(("number", "shared"), [(math.nan, True), (-math.nan, False), (1.0, False), (0.0, True)])
def test_plain_nans_and_zeros_are_of_every_dtype(number: float, shared: bool) -> None:
    """A NaN with a sign has other bits, and 1 has neighbours that are other numbers in each dtype."""
    for constant in (np.float32(number), number):
        traced = jax.make_jaxpr(lambda x, c=constant: jnp.full_like(x, c))(jnp.zeros(3))
        program = written(traced)
        assert program is not None
        assert (in_any_float(program, "float32") is not None) == shared
    fills = [jax.make_jaxpr(functools.partial(_filled, number=fill))(jnp.zeros(3)) for fill in (number, math.nan)]
    parameters = [written(fill) for fill in fills]  # Python's own numbers, as which every NaN reads alike
    assert (parameters[0] == parameters[1]) == (shared and math.isnan(number))


def _through(dtype: Any) -> Callable[[Any], Any]:
    return lambda x: _backwards(x.astype(dtype)).astype(x.dtype)


def _turned_in(dtype: Any) -> Callable[[Any], Any]:
    """Right in every dtype but one, which the traced program of another one does not show."""
    return lambda x: x if x.dtype == dtype else _flipped(x)


def _turned_at_three(dtype: Any) -> Callable[[Any], Any]:
    """Wrong at a size that only an integer has, in one dtype."""
    return lambda x: x if x.dtype == dtype and type(x.shape[0]) is int and x.shape[0] == 3 else _flipped(x)


WRONG = {
    "in one dtype": (_backwards, _turned_in("bfloat16"), "bfloat16", "different"),
    "in one dtype, at a size that tracing does not see": (
        _backwards,
        _turned_at_three("bfloat16"),
        "bfloat16",
        "different",
    ),
    "a constant that two dtypes do not tell from 1": (_padded(1.0), _padded(1.0001), "float32", "different"),
    "rounded on the way": (_backwards, _through("bfloat16"), "float32", "rounding"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRONG)
def test_what_another_dtype_shows_is_not_taken_for_it(name: str) -> None:
    """In the other dtypes, asked first, the same two functions are proved."""
    reference, variant, wrong, verdict = WRONG[name]
    order = [dtype for dtype in ("bfloat16", "float16", "float32") if dtype != wrong]
    proofs = _in_each_dtype(_pair(reference, variant), dtypes=(*order, wrong))
    assert proofs[order[0]].leaves[0].verdict == "proved", proofs[order[0]].leaves
    assert proofs[wrong].leaves[0].verdict == verdict, proofs[wrong].leaves


def test_a_program_of_two_dtypes_is_not_general() -> None:
    """A second argument in float32 stays float32 in both."""
    pair = Pair(
        name="two",
        reference=lambda x, y: (_backwards(x), _backwards(y)),
        variants={"variant": lambda x, y: (_flipped(x), _flipped(y))},
        args={"x": Arg(shape=("rows",)), "y": Arg(shape=("rows",), dtype="float32")},
        cases=(Case(id="small", sizes={"rows": 4}, statics={}),),
        dtypes=("bfloat16", "float16"),
        meshes=("none",),
        gradients=False,
    )
    for proof in _in_each_dtype(pair, dtypes=("bfloat16", "float16")).values():
        assert all(leaf.verdict == "proved" for leaf in proof.leaves)


@pytest.mark.parametrize(
    ("dtype", "shared"), [("float16", "float16"), ("float8_e4m3fnuz", None), ("float8_e8m0fnu", None)]
)
def test_a_dtype_without_both_zeros_shares_nothing(dtype: str, shared: str | None) -> None:
    """Of these, one has no negative zero and one has no zero at all."""
    traced = jax.make_jaxpr(_flipped)(jax.ShapeDtypeStruct((4, 6), dtype))
    assert one_moved_dtype([traced.jaxpr]) == shared


# Sorts, scatters, loops and conditionals for all sizes: the same moves are proved, every fault is refuted.
FAULTS = [(honest, wrong) for honest in MOVED for wrong in honest.wrong]
EVERY = pytest.mark.parametrize("honest", MOVED, ids=[honest.name for honest in MOVED])


@pytest.mark.sampled(3)
@EVERY
def test_what_moves_the_same_is_proved(honest: Honest) -> None:
    check_honest(honest)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    check_refuted(honest, name)


@pytest.mark.sampled(2)
@EVERY
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_numbers(honest: Honest, data: Any) -> None:
    check_numbers(honest, _drawn(honest, data, 5))


@EVERY
@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_many_numbers(honest: Honest, data: Any) -> None:
    check_numbers(honest, _drawn(honest, data, 12))


def _drawn(honest: Honest, data: Any, most: int) -> dict[str, int]:
    """A number for each symbol."""
    return {name: data.draw(st.integers(low, most), label=name) for name, low in honest.family.free.items()}


def _chosen(ids: Any, experts: Any) -> Any:
    return (ids[:, None] == jnp.arange(experts)).sum(0)


def _counted(ids: Any, experts: Any, *, most: int = 0) -> Any:
    return jnp.zeros(experts, jnp.int32).at[jnp.minimum(ids, experts - 1 - most)].add(1)


def _family(below: str | None) -> Family:
    args = {"ids": Shaped(("n",), "int32", below)}
    return Family(symbols={"n": 1, "e": 2}, args=args, statics={"experts": SizeOf("e")})


def test_a_declared_bound_is_taken_as_given() -> None:
    (proof,) = prove_all_sizes(_chosen, _counted, _family("e"))
    assert proof.verdict == "proved", proof
    assert "every element of ids is in [0, e)" in proof.conditions
    (proof,) = prove_all_sizes(_chosen, _counted, _family(None))
    assert proof.verdict != "proved"  # an id beyond the experts is counted by one side alone
    (proof,) = prove_all_sizes(_chosen, _counted, _family("e + 1"))
    assert proof.verdict != "proved"


def test_a_fault_within_a_bound_is_refuted() -> None:
    wrong = functools.partial(_counted, most=1)
    (proof,) = prove_all_sizes(_chosen, wrong, _family("e"))
    assert proof.verdict == "different", proof
    (proof,) = prove_all_sizes(_chosen, wrong, _family("e - 1"))
    assert proof.verdict == "proved", proof
