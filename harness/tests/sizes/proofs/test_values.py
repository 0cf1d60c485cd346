"""Formulas for all sizes: what is the same is proved and holds at numbers; planted faults are refuted at sizes."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.errors import NotCovered
from samebits.sizes.formulas import vanishing
from samebits.sizes.formulas.normal_form import ALIKE, FINITE
from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.witnesses import MOST_DRAWN, formulas_at, formulas_differ_at
from tests.sizes.proofs.size_activations import ACTIVATIONS
from tests.sizes.proofs.size_faults import Honest
from tests.sizes.proofs.size_formulas import FORMULAS, LINE
from tests.sizes.proofs.size_rewrites import COMPARED, REWRITES

REFUTED = (*FORMULAS, *REWRITES, *ACTIVATIONS)
EQUAL = (*REFUTED, *COMPARED)
FAULTS = [(honest, name) for honest in REFUTED for name in honest.wrong]
UNSHOWN = [(honest, name) for honest in COMPARED for name in honest.wrong]
NAMED = pytest.mark.parametrize("honest", EQUAL, ids=[honest.name for honest in EQUAL])


@pytest.mark.sampled(8)
@NAMED
def test_equal_formulas_are_the_same_formulas(honest: Honest) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family):
        assert proof.verdict == "rounding", proof.reason


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["rms_norm", "halves", "weighted sum", "running sum", "largest", "variance"])
def test_gradients_of_equal_formulas_are_equal(name: str) -> None:
    (honest,) = (honest for honest in REFUTED if honest.name == name)
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, "gradient"):
        assert proof.verdict in ("rounding", "proved"), proof.reason


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_fault_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof.reason
    functions = (honest.reference, honest.wrong[name])
    assert proof.sizes.keys() == honest.family.symbols.keys()
    if "a constant" not in proof.reason and "reference, " in proof.reason:
        assert formulas_differ_at(functions, honest.family, "forward", proof.sizes)[proof.leaf] == proof.reason


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("honest", "name"), UNSHOWN, ids=[f"{honest.name}: {name}" for honest, name in UNSHOWN])
def test_no_fault_of_a_comparison_is_shown(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict in ("different", "error"), proof


def test_there_are_many_planted_faults() -> None:
    assert len(FAULTS) >= 75 and len(UNSHOWN) >= 10


def test_answers_of_equal_numbers_are_a_condition() -> None:
    (halves,) = (honest for honest in COMPARED if honest.name == "norm of halves")
    (proof,) = prove_all_sizes(halves.reference, halves.variant, halves.family)
    assert ALIKE in proof.conditions
    (proof,) = prove_all_sizes(halves.reference, halves.reference, halves.family)
    assert ALIKE not in proof.conditions


def test_bits_are_not_promised_where_a_number_may_be_nan() -> None:
    family = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "ids": Shaped(("n",), "int32")})

    def guarded(x: Any, ids: Any) -> Any:
        return jnp.where(jnp.abs(x[0]) >= 0, ids.sum(), 0)

    (proof,) = prove_all_sizes(lambda x, ids: ids.sum(), guarded, family)
    assert proof.verdict != "proved"


@pytest.mark.sampled(2)
@NAMED
@settings(max_examples=3, deadline=None, derandomize=True)
@given(data=st.data())
def test_formula_proofs_hold_at_numbers(honest: Honest, data: Any) -> None:
    _holds(honest, {name: data.draw(st.integers(low, 3), label=name) for name, low in honest.family.symbols.items()})


@NAMED
@pytest.mark.slow
@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_formula_proofs_hold_at_many_numbers(honest: Honest, data: Any) -> None:
    _holds(honest, {name: data.draw(st.integers(low, 5), label=name) for name, low in honest.family.symbols.items()})


def _holds(honest: Honest, numbers: dict[str, int]) -> None:
    """The fields deny no proof at these sizes."""
    draws = formulas_at((honest.reference, honest.variant), honest.family, "forward", numbers)
    for proofs in itertools.islice(draws, 1):
        for proof in proofs.values():
            assert proof.equal or proof.undecided, proof.witness


def test_a_comparison_with_infinity_is_a_condition() -> None:
    (honest,) = (honest for honest in FORMULAS if honest.name == "online softmax")
    (proof,) = prove_all_sizes(honest.reference, honest.variant, honest.family)
    assert FINITE in proof.conditions
    (honest,) = (honest for honest in FORMULAS if honest.name == "weighted sum")
    (proof,) = prove_all_sizes(honest.reference, honest.variant, honest.family)
    assert FINITE not in proof.conditions


def test_integers_have_no_laws_of_reals() -> None:
    family = Family(symbols={"n": 1}, args={"x": Shaped(("n",), "int32")})
    (proof,) = prove_all_sizes(lambda x: x.sum(), lambda x: (x + x).sum() // 2, family)
    assert proof.verdict == "error"
    (proof,) = prove_all_sizes(
        lambda x: x.astype(jnp.float32), lambda x: x.astype(jnp.float32).astype(jnp.int32).astype(jnp.float32), family
    )
    assert proof.verdict == "error"


def test_bits_are_not_promised_of_formulas() -> None:
    (proof,) = prove_all_sizes(lambda x: x * 2 / 2, lambda x: x, LINE)
    assert proof.verdict == "rounding"


def test_too_large_arguments_are_not_evaluated() -> None:
    functions = (lambda x: x.sum(), lambda x: 2 * x.sum())
    assert formulas_differ_at(functions, LINE, "forward", {"n": MOST_DRAWN})
    assert formulas_differ_at(functions, LINE, "forward", {"n": MOST_DRAWN + 1}) == {}


def test_code_that_cannot_be_traced_is_not_covered() -> None:
    def fails(x: jax.Array) -> jax.Array:
        raise ValueError("no such size")

    with pytest.raises(NotCovered, match="no such size"):
        formulas_differ_at((fails, fails), LINE, "forward", {"n": 3})


def test_values_beyond_a_bound_are_not_tried() -> None:
    ids = Shaped(("n",), "int32", "e", lambda rng, shape: np.full(shape, 4))
    family = Family(symbols={"n": 1, "e": 1}, args={"ids": ids})
    functions = (lambda ids: ids * 1.5, lambda ids: ids * 2.5)
    assert formulas_differ_at(functions, family, "forward", {"n": 3, "e": 5})
    with pytest.raises(NotCovered, match="ids is drawn beyond its bound 4"):
        formulas_differ_at(functions, family, "forward", {"n": 3, "e": 4})


CACHE = Family(
    symbols={"n": 1, "d": 1}, args={"cache": Shaped(("n", "d")), "x": Shaped(("d",)), "at": Shaped((), "int32", "n")}
)
ROUTED = Family(symbols={"t": 1}, args={"expert": Shaped(("t",), "int32", "4"), "x": Shaped(("t",))})
RANKED = Family(
    symbols={"t": 1, "d": 1}, args={"x": Shaped(("t", "d")), "score": Shaped(("t", "4")), "w": Shaped(("4", "d"))}
)


def _within_capacity(expert: Any, x: Any, capacity: int = 40) -> Any:
    chosen = (expert[:, None] == jnp.arange(4)).astype(jnp.int32)
    return jnp.where((jnp.cumsum(chosen, 0) * chosen).sum(1) <= capacity, x, 0)


def test_a_single_integer_is_not_always_the_last() -> None:
    """At the last position, writing there and from there on are the same."""

    def written(cache: Any, x: Any, at: Any) -> Any:
        return jax.lax.dynamic_update_slice(cache, x[None], (at, 0))

    def compared(comparison: Any) -> Any:
        return lambda cache, x, at: jnp.where(comparison(jnp.arange(cache.shape[0]), at)[:, None], x, cache)

    for comparison, verdict in ((jnp.equal, "proved"), (jnp.greater_equal, "different"), (jnp.less_equal, "different")):
        (proof,) = prove_all_sizes(written, compared(comparison), CACHE)
        assert proof.verdict == verdict, proof


def test_integers_that_are_all_the_same_are_tried() -> None:
    """Forty tokens of one expert are needed to tell a capacity of 40 from one of 39."""
    (proof,) = prove_all_sizes(_within_capacity, lambda e, x: _within_capacity(e, x, 39), ROUTED)
    assert (proof.verdict, proof.sizes) == ("different", {"t": 40}), proof


def test_the_place_of_the_largest_is_a_place() -> None:
    """Of an index that might be negative, jax takes the size off first."""

    def selected(x: Any, score: Any, w: Any, last: int = 0) -> Any:
        return x * w[jnp.argmax(score[:, : 4 - last], -1)]

    def one_hot(x: Any, score: Any, w: Any) -> Any:
        return x * (jax.nn.one_hot(jnp.argmax(score, -1), 4) @ w)

    (proof,) = prove_all_sizes(selected, one_hot, RANKED)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(lambda x, score, w: selected(x, score, w, 1), one_hot, RANKED)
    assert proof.verdict == "different", proof
    first, second = (lambda x, k=k: x * jax.lax.top_k(x, 1)[1][0] ** k for k in (1, 2))
    (proof,) = prove_all_sizes(first, second, LINE)
    assert proof.verdict == "different", proof


def test_comparing_formulas_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(x: Any) -> Any:
        return 1 / (1 + x * x) + 1 / (2 + x * x)

    def together(x: Any) -> Any:
        return (3 + 2 * x * x) / ((1 + x * x) * (2 + x * x))

    (proof,) = prove_all_sizes(apart, together, LINE)
    assert proof.verdict == "rounding", proof.reason
    monkeypatch.setattr(vanishing, "MOST_ASKED", 1)
    (proof,) = prove_all_sizes(apart, together, LINE)
    assert proof.verdict == "error" and "not shown to be equal" in proof.reason
