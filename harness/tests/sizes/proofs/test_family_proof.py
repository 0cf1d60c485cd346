"""Proofs for all sizes: what is the same is proved and holds at numbers; no planted fault is ever proved."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from samebits.errors import NotCovered, NothingCompared, RequestError
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.size_symbols import SizeSymbols
from samebits.sizes.proofs.attempts import PairPoint, polynomial_of, with_symbols
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import SizesProof, prove_all_sizes
from samebits.sizes.proofs.pair_sizes import PairSizes
from samebits.sizes.proofs.tracing import traced
from samebits.sizes.proofs.witnesses import different_at, moved_apart_at
from suites import test_sequence_reorder, test_stage_rotation
from tests.sizes.proofs.size_faults import HONEST, ON_LINE, Honest

FAULTS = [(honest, name) for honest in HONEST for name in honest.wrong]
NAMED = pytest.mark.parametrize("honest", HONEST, ids=[honest.name for honest in HONEST])


def _only(proofs: list[SizesProof]) -> SizesProof:
    (proof,) = proofs
    return proof


@pytest.mark.sampled(8)
@NAMED
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_what_is_the_same_is_proved(honest: Honest, direction: str) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, direction):
        assert proof.verdict == "proved", proof.reason
        assert proof.conditions


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof
    functions = honest.reference, honest.wrong[name]
    assert different_at(functions, honest.family, "forward", proof.sizes)[proof.leaf] == proof.reason


def test_each_side_is_traced_once_at_a_size() -> None:
    """Whatever tries it: labels, formulas, the search for what denies a proof."""
    lengths: list[int] = []

    def noted(side: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, **sizes: Any) -> Any:
            lengths.extend(length for length in x.shape if type(length) is int)  # others are symbols
            return side(x, **sizes)

        return call

    for variant, verdict in ((lambda x: x[::-1] * 3, "different"), (lambda x: jnp.flip(x, 0) * 2, "rounding")):
        lengths.clear()
        (proof,) = prove_all_sizes(lambda x: x[::-1] * 2, noted(variant), ON_LINE)
        assert proof.verdict == verdict, proof
        assert len(lengths) == len(set(lengths)) > 0


def test_no_size_is_tried_once_every_output_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def denied(*_: Any) -> Any:
        tried.append("denied")
        return {}, {}

    monkeypatch.setitem(prove_all_sizes.__globals__, "denied", denied)
    for variant, expected in ((lambda x: x, []), (lambda x: jnp.flip(x, 0), ["denied"])):
        tried.clear()
        prove_all_sizes(lambda x: x[::-1], variant, ON_LINE)
        assert tried == expected


def test_there_are_many_planted_faults() -> None:
    assert len(FAULTS) >= 40


@pytest.mark.parametrize("number", [3, 16, 500])
def test_a_fault_at_one_size_is_refuted_there(number: int) -> None:
    (balance,) = (honest for honest in HONEST if honest.name == "balance")
    proof = _only(prove_all_sizes(balance.reference, balance.wrong[f"wrong at cp {number}"], balance.family))
    assert (proof.verdict, proof.sizes["c"]) == ("different", number)


@pytest.mark.sampled(2)
@NAMED
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_numbers(honest: Honest, data: Any) -> None:
    numbers = {name: data.draw(st.integers(low, 7), label=name) for name, low in honest.family.symbols.items()}
    _holds(honest, numbers)


@NAMED
@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_proofs_hold_at_many_numbers(honest: Honest, data: Any) -> None:
    numbers = {name: data.draw(st.integers(low, 40), label=name) for name, low in honest.family.symbols.items()}
    _holds(honest, numbers)


def _holds(honest: Honest, numbers: dict[str, int]) -> None:
    for direction in ("forward", "gradient"):
        with contextlib.suppress(NothingCompared):  # as of one place that is filled with a zero
            assert moved_apart_at((honest.reference, honest.variant), honest.family, direction, numbers) == {}


def test_arithmetic_on_elements_is_the_same_formulas_alone() -> None:
    proof = _only(prove_all_sizes(lambda x: (x * 2.5)[::-1], lambda x: x[::-1] * 2.5, ON_LINE))
    assert proof.verdict == "rounding"
    proof = _only(prove_all_sizes(lambda x: x * 2.5, lambda x: x * 2.25, ON_LINE))
    assert proof.verdict == "different"


def test_an_index_that_may_overflow_is_a_condition() -> None:
    def looked_up(x: Any) -> Any:
        return jnp.take(x, 2 * jnp.arange(x.shape[0]) // 2)

    proof = _only(prove_all_sizes(lambda x: x, looked_up, ON_LINE))
    assert proof.verdict == "proved"
    assert any("<= 2147483" in condition for condition in proof.conditions)


def test_a_narrow_index_is_refuted_beyond_its_range() -> None:
    def looked_up(x: Any) -> Any:
        return jnp.take(x, jnp.arange(x.shape[0], dtype=jnp.int8), mode="clip")

    proof = _only(prove_all_sizes(lambda x: x, looked_up, ON_LINE))
    assert proof.verdict == "different" and proof.sizes["n"] > 128


def test_sizes_that_are_looked_up_are_not_proved() -> None:
    def looked_up(x: Any) -> Any:
        return {16: x[::-1][::-1]}.get(x.shape[0], x)

    proof = _only(prove_all_sizes(lambda x: x, looked_up, ON_LINE))
    assert proof.verdict == "error"
    assert "the hash of n" in proof.reason


def test_a_remainder_of_many_is_not_followed() -> None:
    def parted(x: Any) -> Any:
        return x if x.shape[0] // 100 != 7 else x[::-1][::-1]

    proof = _only(prove_all_sizes(lambda x: x, parted, ON_LINE))
    assert proof.verdict == "error"
    assert "floordiv(n, 100) and 7" in proof.reason


def test_nothing_to_compare_is_no_proof() -> None:
    proof = _only(prove_all_sizes(lambda x: jnp.zeros(3), lambda x: jnp.zeros(3), ON_LINE))
    assert (proof.verdict, proof.leaf) == ("error", "*")


def test_other_outputs_are_no_proof() -> None:
    proof = _only(prove_all_sizes(lambda x: x, lambda x: (x,), ON_LINE))
    assert (proof.verdict, proof.sizes) == ("different", {"n": 1}) and "the outputs are ('out',)" in proof.reason
    proof = _only(prove_all_sizes(lambda x: x, lambda x: x.astype(jnp.bfloat16), ON_LINE))
    assert (proof.verdict, proof.sizes) == ("different", {"n": 1}) and "bfloat16[1] in the variant" in proof.reason


def test_an_added_zero_is_a_promise() -> None:
    proof = _only(prove_all_sizes(lambda x: x, lambda x: x + jnp.zeros_like(x), ON_LINE))
    assert {str(promise) for promise in proof.promises} >= {"no_negative_zero=x"}


def test_a_collective_with_the_wrong_table_is_refuted() -> None:
    mesh = MeshSpec.parse("ring4").abstract("auto")

    def moved(step: int) -> Any:
        table = [(rank, (rank + step) % 4) for rank in range(4)]
        spec = jax.sharding.PartitionSpec("ring")
        return jax.shard_map(lambda x: lax.ppermute(x, "ring", table), mesh=mesh, in_specs=spec, out_specs=spec)

    family = Family(symbols={"n": 1}, args={"x": Shaped(("4*n",))})

    def rolled(x: Any) -> Any:
        return jnp.concatenate([x[-(x.shape[0] // 4) :], x[: -(x.shape[0] // 4)]])

    assert _only(prove_all_sizes(rolled, moved(1), family)).verdict == "proved"
    for step in (2, 3):
        assert _only(prove_all_sizes(rolled, moved(step), family)).verdict == "different"


def test_a_size_without_a_symbol_is_a_wrong_request() -> None:
    with pytest.raises(RequestError, match="'k', not a symbol"):
        Family(symbols={"n": 1}, args={"x": Shaped(("k",))})


def test_code_that_needs_a_number_is_not_covered() -> None:
    with pytest.raises(NotCovered, match="cannot be traced with symbols"):
        traced(lambda x: [x[i] for i in range(x.shape[0])], ON_LINE)


def test_a_clipped_update_is_no_dropped_one() -> None:
    def shifted(mode: str) -> Any:
        return lambda x: jnp.zeros_like(x).at[jnp.arange(x.shape[0]) + 1].set(x, mode=mode)

    assert _only(prove_all_sizes(shifted("drop"), shifted("drop"), ON_LINE)).verdict == "proved"
    proof = _only(prove_all_sizes(shifted("drop"), shifted("clip"), ON_LINE))
    assert proof.verdict != "proved"
    assert "clipped" in proof.reason


def test_counting_in_floats_is_an_operation() -> None:
    def counted(x: Any) -> Any:
        return x * jnp.arange(x.shape[0], dtype=jnp.float32)

    assert _only(prove_all_sizes(counted, counted, ON_LINE)).verdict == "rounding"
    assert _only(prove_all_sizes(counted, lambda x: x * jnp.flip(counted(x)), ON_LINE)).verdict != "rounding"


def test_sizes_of_a_case_remember_their_symbols() -> None:
    sizes = with_symbols(Case(id="small", sizes={"rows": 3, "width": 5}), SizeSymbols(), {"width": 5}).sizes
    assert str(polynomial_of(2 * sizes["rows"] * sizes["width"] - 1)) == "10*rows - 1"
    assert polynomial_of(sizes["rows"] // 2).constant == 1


@pytest.mark.slow  # a contract of sequence_reorder requires one case of it in every check
def test_the_reorder_is_proved_for_every_number_of_devices() -> None:
    pair, prover = test_sequence_reorder.PAIR, PairSizes()
    for case in ("bshd", "bshd_undo"):
        for direction in ("forward", "gradient"):
            point = PairPoint(pair, "structured", pair.case(case), "float32", direction)
            proof = prover.prove(point, MeshSpec.parse("context4"))
            assert proof.shown.mesh is None
            assert proof.shown.shapes == {"x": "float32[batch, 2*context*group, heads, dim]"}
            assert [leaf.verdict for leaf in proof.leaves] == ["proved"]
    point = PairPoint(pair, "permute", pair.case("bshd"), "float32", "forward")
    proof = prover.prove(point, MeshSpec.parse("context8"))
    assert (proof.shown.mesh, [leaf.verdict for leaf in proof.leaves]) == ("context8", ["proved"])
    assert proof.shown.why_mesh is not None
    assert "asks for the mesh" in proof.shown.why_mesh


def test_a_rotation_is_proved_for_all_sizes() -> None:
    pair = test_stage_rotation.PAIR
    point = PairPoint(pair, "slice_concatenate", pair.case("rotate_right"), "float32", "forward")
    (leaf,) = PairSizes().prove(point, MeshSpec.parse("stage2")).leaves
    assert leaf.verdict == "proved"
